// SPDX-License-Identifier: Apache-2.0
#include "lib/model/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace hg {

Result<Mapping> map_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return not_found("cannot open '", path, "': ", std::strerror(errno));
  struct stat info {};
  Status status;
  if (fstat(file, &info) != 0) {
    status = not_found("cannot read '", path, "': ", std::strerror(errno));
  } else if (S_ISDIR(info.st_mode)) {
    status = corrupt_model("'", path, "' is a directory, not a .hgm file");
  } else if (!S_ISREG(info.st_mode)) {
    status = corrupt_model("'", path, "' is not a regular file");
  } else if (info.st_size == 0) {
    status = corrupt_model("'", path, "' is empty");
  }
  if (!status.ok()) {
    close(file);
    return status;
  }
  const auto bytes = static_cast<size_t>(info.st_size);
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (memory == MAP_FAILED) return out_of_memory("cannot map '", path, "': ", std::strerror(error));
  return Mapping{{static_cast<const std::byte*>(memory), bytes},
                 std::shared_ptr<void>(memory, [bytes](void* m) { munmap(m, bytes); }),
                 true};
}

Result<Mapping> copy_bytes(std::span<const std::byte> bytes) {
  void* memory = std::aligned_alloc(64, (bytes.size() + 64) / 64 * 64);
  if (memory == nullptr)
    return out_of_memory("no memory for a model of ", uint64_t{bytes.size()}, " bytes");
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  return Mapping{{static_cast<const std::byte*>(memory), bytes.size()},
                 std::shared_ptr<void>(memory, std::free)};
}

}  // namespace hg
