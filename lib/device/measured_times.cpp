// SPDX-License-Identifier: Apache-2.0
#include "lib/device/measured_times.h"

#include <cstring>

#include "lib/graph/checksum.h"

namespace hg {
namespace {

constexpr char kMagic[8] = {'H', 'G', 'T', 'I', 'M', 'E', '0', '1'};

struct Row {
  uint64_t key;
  DeviceTimes times;
};
// Follows the rows, at the end of the blob.
struct Trailer {
  uint64_t rows = 0, checksum = 0;
  char magic[8] = {};
};

}  // namespace

std::optional<DeviceTimes> MeasuredTimes::find(uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void MeasuredTimes::note(uint64_t key, const DeviceTimes& times) {
  const std::lock_guard lock(mutex_);
  known_[key] = times;
}

void MeasuredTimes::add(const MeasuredTimes& others) {
  const std::scoped_lock lock(mutex_, others.mutex_);
  known_.insert(others.known_.begin(), others.known_.end());
}

void MeasuredTimes::append_to(std::vector<std::byte>& blob) const {
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  for (const auto& [key, times] : known_) rows.push_back({key, times});
  const auto bytes = std::as_bytes(std::span(rows));
  Trailer trailer{rows.size(), checksum_of(bytes), {}};
  std::memcpy(trailer.magic, kMagic, sizeof(kMagic));
  blob.insert(blob.end(), bytes.begin(), bytes.end());
  const auto end = std::as_bytes(std::span(&trailer, 1));
  blob.insert(blob.end(), end.begin(), end.end());
}

std::span<const std::byte> MeasuredTimes::take_from(std::span<const std::byte> blob) {
  Trailer trailer;
  if (blob.size() < sizeof(trailer)) return blob;
  const size_t before = blob.size() - sizeof(trailer);
  std::memcpy(&trailer, blob.data() + before, sizeof(trailer));
  if (std::memcmp(trailer.magic, kMagic, sizeof(kMagic)) != 0) return blob;
  if (trailer.rows > before / sizeof(Row)) return blob;
  const size_t bytes = trailer.rows * sizeof(Row), begin = before - bytes;
  const auto section = blob.subspan(begin, bytes);
  if (checksum_of(section) == trailer.checksum) {
    for (size_t i = 0; i < trailer.rows; ++i) {
      Row row;
      std::memcpy(&row, section.data() + i * sizeof(Row), sizeof(Row));
      note(row.key, row.times);
    }
  }
  return blob.first(begin);
}

}  // namespace hg
