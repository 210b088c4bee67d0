// SPDX-License-Identifier: Apache-2.0
#include "lib/model/destination.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace hg {
namespace {

Status cannot_write(const std::string& path, int error) {
  return Status(error == ENOENT || error == ENOTDIR ? Code::not_found : Code::invalid_argument,
                str_cat("cannot write '", path, "': ", std::strerror(error)));
}

// Where links lead, to a file that may not be there yet.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (real) return real.get();
  std::string at = path;
  char target[4096];
  for (int links = 0; links < 40; ++links) {  // as many as Linux follows
    const ssize_t length = readlink(at.c_str(), target, sizeof target);
    if (length <= 0 || length == static_cast<ssize_t>(sizeof target)) return at;
    const std::string_view to(target, static_cast<size_t>(length));
    const size_t folder = to.starts_with('/') ? 0 : at.rfind('/') + 1;
    at = at.substr(0, folder).append(to);
  }
  return path;
}

}  // namespace

Result<Destination> Destination::open(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CLOEXEC;
  Destination destination;
  destination.path_ = resolved(path);
  struct stat old {};
  const bool exists = stat(destination.path_.c_str(), &old) == 0;
  int file = -1;
  if (exists && !S_ISREG(old.st_mode)) {
    file = ::open(destination.path_.c_str(), kFlags);
    if (file < 0) return cannot_write(path, errno);
  } else {
    for (int number = 0; file < 0; ++number) {
      destination.temporary_ = str_cat(destination.path_, ".partial", number);
      file = ::open(destination.temporary_.c_str(), kFlags | O_CREAT | O_EXCL, 0666);
      if (file < 0 && errno != EEXIST) {
        const int error = errno;
        destination.temporary_.clear();
        return cannot_write(path, error);
      }
    }
    if (exists)
      (void)fchmod(file, old.st_mode & 07777);  // the old file's mode, where it may be set
  }
  destination.file_ = fdopen(file, "wb");
  if (destination.file_ == nullptr) {
    const int error = errno;
    close(file);
    return cannot_write(path, error);
  }
  return destination;
}

Destination::Destination(Destination&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})) {}

Destination::~Destination() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

Status Destination::failed(int error) const { return cannot_write(path_, error); }

Status Destination::write(const void* data, uint64_t bytes) {
  // Linux writes 64 MB at once several times slower than a MB at a time.
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
#ifdef __linux__
  // The disk works while `keep` waits; what it could not write is an error of fsync.
  if (keep) (void)sync_file_range(fileno(file_), 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
  if (!temporary_.empty() && keep && !keep(temporary_)) return {};
  // Pipes and the like have no disk to wait for.
  if (fsync(fileno(file_)) != 0 && errno != EINVAL && errno != EROFS) return failed(errno);
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return failed(errno);
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failed(errno);
  temporary_.clear();
  return {};
}

}  // namespace hg
