// SPDX-License-Identifier: Apache-2.0
#include "lib/model/destination.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/platform/file.h"

namespace hg {
namespace {

Status cannot_write(const std::string& path, int error) {
  return Status(error == ENOENT || error == ENOTDIR ? Code::not_found : Code::invalid_argument,
                str_cat("cannot write '", path, "': ", std::strerror(error)));
}

std::string part_of(const std::string& path, int number) {
  return str_cat(path, ".partial", number);
}

// Opens the first part that no process writes.
std::FILE* open_part(const std::string& path, int& number) {
  for (number = 0;;) {
    const std::string part = part_of(path, number);
    std::FILE* const file = create_file(part, path);
    if (file != nullptr || errno != EEXIST) return file;
    if (remove_abandoned(part) == Abandoned::kept) ++number;
  }
}

}  // namespace

Result<Destination> Destination::open(const std::string& path) {
  Destination destination;
  destination.path_ = resolve_links(path);
  destination.file_ = open_special(destination.path_);
  if (destination.file_ == nullptr && errno != 0) return cannot_write(path, errno);
  if (destination.file_ != nullptr) return destination;
  int number = 0;
  destination.file_ = open_part(destination.path_, number);
  if (destination.file_ == nullptr) return cannot_write(path, errno);
  destination.temporary_ = part_of(destination.path_, number);
  // Processes that were killed may have left others.
  while (remove_abandoned(part_of(destination.path_, ++number)) != Abandoned::absent) {
  }
  return destination;
}

Destination::Destination(Destination&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})) {}

Destination::~Destination() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) (void)remove_file(temporary_);
}

Status Destination::failed(int error) const { return cannot_write(path_, error); }

Status Destination::write(const void* data, uint64_t bytes) {
  // Linux writes 64 MB in one call several times slower than in calls of 1 MB.
  constexpr uint64_t kMost = 1 << 20;
  const char* from = static_cast<const char*>(data);
  for (uint64_t count; bytes > 0; bytes -= count, from += count) {
    count = bytes < kMost ? bytes : kMost;
    if (std::fwrite(from, 1, count, file_) != count) return failed(errno);
  }
  return {};
}

Status Destination::finish(const std::function<bool(const std::string& temporary)>& keep) {
  if (std::fflush(file_) != 0) return failed(errno);
  // Starts writing to disk while `keep` runs. Waiting for the disk later reports its errors.
  if (keep) begin_flush(file_);
  if (!temporary_.empty() && keep && !keep(temporary_)) return {};
  if (const int error = flush_to_disk(file_); error != 0) return failed(error);
  std::FILE* const file = std::exchange(file_, nullptr);
  if (temporary_.empty()) return std::fclose(file) == 0 ? Status() : failed(errno);
  if (const int error = replace_file(file, temporary_, path_); error != 0) return failed(error);
  temporary_.clear();
  return {};
}

}  // namespace hg
