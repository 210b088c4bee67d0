// SPDX-License-Identifier: Apache-2.0
// The file: the identity of whoever wrote it, 64-byte aligned packs, the table of entries (for each
// the position and number of its bytes, both checksums, the length of its key, and the key), and a
// Trailer. Numbers have the byte order of the machine.
#include "lib/run/packed_file.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "hg_kernels_id.h"
#include "lib/model/crc32c.h"
#include "lib/model/destination.h"
#include "lib/model/mapping.h"
#include "lib/platform/file.h"
#include "lib/platform/instruction_set.h"

namespace hg {
namespace {

constexpr std::string_view kMagic = "hologram packed weights, ";
constexpr uint64_t kEntryAlignment = 64;  // bytes

struct Trailer {
  uint64_t table = 0;  // position
  uint64_t entries = 0;
  uint32_t sum = 0;  // CRC-32C of the table
  uint32_t order = 0x01020304;
};
struct Row {
  uint64_t at = 0, bytes = 0;
  uint32_t source = 0, sum = 0;
  uint64_t key_length = 0;
};

// Layouts depend on the sources of the kernels, on how they were built, and on instruction sets.
std::string identity() {
  return str_cat(kMagic, HG_KERNELS_ID, ", ", to_string(chosen_isa()), "\n");
}

std::string padding(uint64_t at) {
  return std::string(
      static_cast<size_t>((kEntryAlignment - at % kEntryAlignment) % kEntryAlignment), '\0');
}

// Whether writing to `path` loses nothing else.
bool may_replace(const std::string& path) {
  ReadFile file;
  ReadFile::Kind kind = ReadFile::Kind::other;
  uint64_t bytes = 0;
  if (file.open(path) != 0) return true;
  if (file.look(kind, bytes) != 0 || kind != ReadFile::Kind::regular) return false;
  char first[kMagic.size()];
  const int64_t read = file.read(first, sizeof first);
  return read <= 0 || std::string_view(first, static_cast<size_t>(read)) == kMagic;
}

Status damaged(std::string_view what) { return corrupt_model("it is damaged: ", what); }

}  // namespace

std::unique_ptr<PackedFile> PackedFile::open(const std::string& path, std::string& why) {
  if (path.empty()) return nullptr;
  Result<Mapping> mapping = map_file(path, 0, true);
  auto file = std::make_unique<PackedFile>();
  Status status = mapping.ok() ? Status() : mapping.status();
  if (status.ok()) {
    file->owner_ = mapping->owner;
    status = file->read({static_cast<std::byte*>(mapping->owner.get()), mapping->bytes.size()});
  }
  if (status.ok()) {
    if (mapping->ahead != nullptr) mapping->ahead->start();
    return file;
  }
  if (status.code() != Code::not_found)
    why = str_cat("packed weights of '", path, "' are not used: ", status.message());
  return nullptr;
}

Status PackedFile::read(std::span<std::byte> all) {
  const std::string own = identity();
  Trailer trailer;
  if (all.size() < own.size() + sizeof trailer ||
      std::memcmp(all.data(), own.data(), own.size()) != 0)
    return unsupported("another build of the library, or other instruction sets, wrote them");
  std::memcpy(&trailer, all.data() + all.size() - sizeof trailer, sizeof trailer);
  const uint64_t end = all.size() - sizeof trailer;
  if (trailer.order != Trailer().order || trailer.table > end) return damaged("it has no table");
  std::span<const std::byte> table = all.subspan(trailer.table, end - trailer.table);
  if (crc32c(table.data(), table.size()) != trailer.sum)
    return damaged("the checksum of its table differs");
  uint64_t free_from = own.size();
  for (uint64_t i = 0; i < trailer.entries; ++i) {
    Row row;
    if (table.size() < sizeof row) return damaged("its table is too short");
    std::memcpy(&row, table.data(), sizeof row);
    table = table.subspan(sizeof row);
    if (row.key_length > table.size()) return damaged("a key is too long");
    // Entries must not overlap, because each may be overwritten alone.
    if (row.at % kEntryAlignment != 0 || row.at < free_from || row.at > trailer.table ||
        row.bytes > trailer.table - row.at)
      return damaged("an entry lies outside its place");
    free_from = row.at + row.bytes;
    entries_.push_back(
        {{reinterpret_cast<const char*>(table.data()), static_cast<size_t>(row.key_length)},
         all.subspan(row.at, row.bytes),
         row.source,
         row.sum});
    table = table.subspan(row.key_length);
  }
  for (size_t i = 0; i < entries_.size(); ++i) untaken_.emplace(entries_[i].key, i);
  return {};
}

const PackedEntry* PackedFile::take(std::string_view key, int64_t bytes) {
  const auto [begin, end] = untaken_.equal_range(key);
  for (auto found = begin; found != end; ++found) {
    const PackedEntry& entry = entries_[found->second];
    if (static_cast<int64_t>(entry.bytes.size()) != bytes) continue;
    untaken_.erase(found);
    return &entry;
  }
  return nullptr;
}

Status PackedFile::write(const std::string& path, std::vector<PackedEntry> entries) {
  std::sort(entries.begin(), entries.end(), [](const PackedEntry& a, const PackedEntry& b) {
    return std::tie(a.key, a.source) < std::tie(b.key, b.source);
  });
  if (!may_replace(path))
    return invalid_argument("'", path, "' is not a file of packed weights; it was left unchanged");
  HG_TRY_ASSIGN(Destination file, Destination::open(path));
  const std::string own = identity();
  HG_TRY(file.write(own.data(), own.size()));
  uint64_t at = own.size();
  std::string table;
  const auto append = [&](const void* data, size_t bytes) {
    table.append(static_cast<const char*>(data), bytes);
  };
  for (const PackedEntry& entry : entries) {
    const std::string gap = padding(at);
    HG_TRY(file.write(gap.data(), gap.size()));
    at += gap.size();
    const Row row = {at, entry.bytes.size(), entry.source,
                     crc32c(entry.bytes.data(), entry.bytes.size()), entry.key.size()};
    append(&row, sizeof row);
    append(entry.key.data(), entry.key.size());
    HG_TRY(file.write(entry.bytes.data(), entry.bytes.size()));
    at += entry.bytes.size();
  }
  const Trailer trailer = {at, entries.size(), crc32c(table.data(), table.size())};
  append(&trailer, sizeof trailer);
  HG_TRY(file.write(table.data(), table.size()));
  return file.finish(nullptr);
}

}  // namespace hg
