// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "lib/platform/checked_memory.h"
#include "lib/platform/file.h"

namespace hg {

static_assert(sizeof(off_t) >= 8, "files may be longer than 2 GiB");

std::FILE* open_stream(const std::string& path, const char* mode) {
  return std::fopen(path.c_str(), mode);
}

int64_t bytes_left(std::FILE* stream) {
  const off_t here = ftello(stream);
  if (here < 0 || fseeko(stream, 0, SEEK_END) != 0) return -1;
  const off_t end = ftello(stream);
  if (fseeko(stream, here, SEEK_SET) != 0) return -1;
  return end - here;
}

ReadFile::~ReadFile() {
  if (number_ >= 0) close(number_);
}

int ReadFile::open(const std::string& path) {
  // A pipe without a writer would wait for one.
  number_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  return number_ < 0 ? errno : 0;
}

int ReadFile::look(Kind& kind, uint64_t& bytes) const {
  struct stat info {};
  if (fstat(number_, &info) != 0) return errno;
  kind = S_ISREG(info.st_mode)   ? Kind::regular
         : S_ISDIR(info.st_mode) ? Kind::directory
                                 : Kind::other;
  bytes = static_cast<uint64_t>(info.st_size);
  return 0;
}

int64_t ReadFile::read(void* to, size_t bytes) {
  for (;;) {
    const ssize_t got = ::read(number_, to, bytes);
    if (got >= 0 || errno != EINTR) return got;
  }
}

bool ReadFile::is_in_memory(size_t bytes) const {
#ifdef RWF_NOWAIT
  constexpr size_t kSamples = 64;
  char byte = 0;
  const iovec to{&byte, 1};
  size_t found = 0;
  while (found < kSamples &&
         preadv2(number_, &to, 1, static_cast<off_t>(bytes / kSamples * found), RWF_NOWAIT) == 1)
    ++found;
  return found == kSamples;
#else
  (void)bytes;
  return false;
#endif
}

std::shared_ptr<void> ReadFile::map(size_t bytes, bool writable) const {
  const int access = PROT_READ | (writable ? PROT_WRITE : 0);
  void* const memory = mmap(nullptr, bytes, access, MAP_PRIVATE, number_, 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::shared_ptr<void>(memory, [bytes](void* m) {
    if (!kChecksViews || !free_hidden(m, bytes)) munmap(m, bytes);
  });
}

std::string resolve_links(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (real) return real.get();
  std::string at = path;
  char target[4096];
  for (int links = 0; links < 40; ++links) {  // Linux's limit
    const ssize_t length = readlink(at.c_str(), target, sizeof target);
    if (length <= 0 || length == static_cast<ssize_t>(sizeof target)) return at;
    const std::string_view to(target, static_cast<size_t>(length));
    const size_t folder = to.starts_with('/') ? 0 : at.rfind('/') + 1;
    at = at.substr(0, folder).append(to);
  }
  return path;
}

namespace {

std::FILE* stream_of(int file) {
  std::FILE* const stream = fdopen(file, "wb");
  if (stream == nullptr) {
    const int error = errno;
    close(file);
    errno = error;
  }
  return stream;
}

bool lock(int file) {
  int locked;
  do locked = flock(file, LOCK_EX);
  while (locked != 0 && errno == EINTR);
  return locked == 0;
}

// Whether the path names the open file.
bool is_at(int file, const std::string& path) {
  struct stat open {
  }, named{};
  return fstat(file, &open) == 0 && lstat(path.c_str(), &named) == 0 && S_ISREG(named.st_mode) &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

}  // namespace

std::FILE* open_special(const std::string& path) {
  struct stat info {};
  const bool is_special = stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  errno = 0;
  if (!is_special) return nullptr;
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  return file < 0 ? nullptr : stream_of(file);
}

std::FILE* create_file(const std::string& path, const std::string& like) {
  int file = -1;
  // The lock ends with the process. Before it, another process may take the file for abandoned.
  do {
    if (file >= 0) close(file);
    file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0666);
    if (file < 0) return nullptr;
  } while (lock(file) && !is_at(file, path));
  struct stat old {};
  if (stat(like.c_str(), &old) == 0) (void)fchmod(file, old.st_mode & 07777);
  return stream_of(file);
}

Abandoned remove_abandoned(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (file < 0) return errno == ENOENT ? Abandoned::absent : Abandoned::kept;
  const bool is_removed =
      flock(file, LOCK_EX | LOCK_NB) == 0 && is_at(file, path) && std::remove(path.c_str()) == 0;
  close(file);
  return is_removed ? Abandoned::removed : Abandoned::kept;
}

void begin_flush(std::FILE* stream) {
#ifdef __linux__
  (void)sync_file_range(fileno(stream), 0, 0, SYNC_FILE_RANGE_WRITE);
#else
  (void)stream;
#endif
}

int flush_to_disk(std::FILE* stream) {
  if (std::fflush(stream) != 0) return errno;
  if (fsync(fileno(stream)) != 0 && errno != EINVAL && errno != EROFS) return errno;
  return 0;
}

int replace_file(std::FILE* stream, const std::string& from, const std::string& to) {
  // A closed file would count as abandoned.
  const int error =
      std::fflush(stream) != 0 || std::rename(from.c_str(), to.c_str()) != 0 ? errno : 0;
  const bool is_closed = std::fclose(stream) == 0;
  return error != 0 || is_closed ? error : errno;
}

int remove_file(const std::string& path) { return std::remove(path.c_str()) != 0 ? errno : 0; }

}  // namespace hg
