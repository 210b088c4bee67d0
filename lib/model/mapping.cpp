// SPDX-License-Identifier: Apache-2.0
#include "lib/model/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace hg {

namespace {

// An open regular file that is not empty.
class OpenFile {
 public:
  static Result<OpenFile> open(const std::string& path) {
    OpenFile file;
    file.number_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file.number_ < 0) return not_found("cannot open '", path, "': ", std::strerror(errno));
    struct stat info {};
    if (fstat(file.number_, &info) != 0)
      return not_found("cannot read '", path, "': ", std::strerror(errno));
    if (S_ISDIR(info.st_mode)) return corrupt_model("'", path, "' is a directory, not a .hgm file");
    if (!S_ISREG(info.st_mode)) return corrupt_model("'", path, "' is not a regular file");
    if (info.st_size == 0) return corrupt_model("'", path, "' is empty");
    file.bytes_ = static_cast<size_t>(info.st_size);
    return file;
  }
  OpenFile(OpenFile&& other) noexcept
      : number_(std::exchange(other.number_, -1)), bytes_(other.bytes_) {}
  ~OpenFile() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }
  size_t bytes() const { return bytes_; }

 private:
  OpenFile() = default;
  int number_ = -1;
  size_t bytes_ = 0;
};

Result<std::shared_ptr<void>> allocate_bytes(size_t bytes) {
  void* memory = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (memory == nullptr)
    return out_of_memory("no memory for a model of ", uint64_t{bytes}, " bytes");
  return std::shared_ptr<void>(memory, std::free);
}

Status check_size(const OpenFile& file, const std::string& path, int64_t max_bytes) {
  if (max_bytes <= 0 || file.bytes() <= static_cast<uint64_t>(max_bytes)) return {};
  return corrupt_model("'", path, "' has ", uint64_t{file.bytes()}, " bytes, more than max_bytes, ",
                       max_bytes);
}

}  // namespace

Result<Mapping> map_file(const std::string& path, int64_t max_bytes) {
  HG_TRY_ASSIGN(const OpenFile file, OpenFile::open(path));
  HG_TRY(check_size(file, path, max_bytes));
  const size_t bytes = file.bytes();
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (memory == MAP_FAILED) return out_of_memory("cannot map '", path, "': ", std::strerror(errno));
  std::shared_ptr<void> owner(memory, [bytes](void* m) { munmap(m, bytes); });
  return Mapping{{static_cast<const std::byte*>(memory), bytes}, std::move(owner), true};
}

Result<Mapping> read_file(const std::string& path, int64_t max_bytes) {
  HG_TRY_ASSIGN(const OpenFile file, OpenFile::open(path));
  HG_TRY(check_size(file, path, max_bytes));
  HG_TRY_ASSIGN(std::shared_ptr<void> owner, allocate_bytes(file.bytes()));
  auto* const to = static_cast<char*>(owner.get());
  for (size_t at = 0; at < file.bytes();) {
    const ssize_t got = read(file.number(), to + at, file.bytes() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return not_found("cannot read '", path, "': ", std::strerror(errno));
    if (got == 0)
      return corrupt_model("'", path, "' was cut off while it was read: it had ",
                           uint64_t{file.bytes()}, " bytes, and ends after ", uint64_t{at});
    at += static_cast<size_t>(got);
  }
  return Mapping{{reinterpret_cast<const std::byte*>(to), file.bytes()}, std::move(owner)};
}

Result<Mapping> copy_bytes(std::span<const std::byte> bytes) {
  HG_TRY_ASSIGN(std::shared_ptr<void> owner, allocate_bytes(bytes.size()));
  if (!bytes.empty()) std::memcpy(owner.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> copy(static_cast<const std::byte*>(owner.get()), bytes.size());
  return Mapping{copy, std::move(owner)};
}

}  // namespace hg
