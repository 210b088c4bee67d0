// SPDX-License-Identifier: Apache-2.0
// Files of the system. Paths are UTF-8 on every system; errors are those of errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace hg {

// As std::fopen, for a path in UTF-8.
std::FILE* open_stream(const std::string& path, const char* mode);
// Bytes from the position of `stream` to its end; -1 if unknown, as for a pipe.
int64_t bytes_left(std::FILE* stream);

// A regular file that is open for reading; look() tells whether it is one.
class ReadFile {
 public:
  enum class Kind { regular, directory, other };

  ReadFile() = default;
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  ~ReadFile();
  // Returns 0, or errno if the file cannot be opened.
  int open(const std::string& path);
  // Returns 0, or errno if its properties cannot be read.
  int look(Kind& kind, uint64_t& bytes) const;
  // Reads the next bytes, at most this many; -1 with errno. Only 0 means the end of the file, not a
  // short read.
  int64_t read(void* to, size_t bytes);
  // Whether the first bytes of the file can be read without the disk, judged by a sample. False if
  // the system does not tell.
  bool is_in_memory(size_t bytes) const;
  // Maps the first bytes of the file, as long as the result lives; null with errno. Mapped bytes
  // are not a copy: changes of the file become visible, depending on the system. Writes need
  // `writable`; they stay in this mapping and copy the pages that they touch.
  std::shared_ptr<void> map(size_t bytes, bool writable = false) const;

 private:
  int number_ = -1;
};

// Resolves links, also to a file that does not exist yet; the path itself if it is not a link.
std::string resolve_links(const std::string& path);
// Opens `path` for writing if it exists and is not a regular file, such as a pipe or a device.
// Otherwise returns null with errno 0.
std::FILE* open_special(const std::string& path);
// Creates a new file; null with errno, EEXIST if it exists. Copies the mode of `like`, if that file
// exists and the system has modes. While the file is open, remove_abandoned() leaves it alone.
std::FILE* create_file(const std::string& path, const std::string& like);
enum class Abandoned { removed, absent, kept };
// Removes a file of create_file() whose process ended without closing it. Keeps the file if it is
// still open, if it is not a regular file, or if that cannot be known.
Abandoned remove_abandoned(const std::string& path);
// Asks the system to start writing to disk. Errors are ignored.
void begin_flush(std::FILE* stream);
// Returns 0 once everything is on disk, otherwise errno. Files without a disk, such as pipes, need
// no waiting.
int flush_to_disk(std::FILE* stream);
// Closes the file `from` of create_file() and atomically replaces `to` by it: a process that opens
// `to` finds the old or the new file. Returns 0, or errno; both files are then unchanged.
int replace_file(std::FILE* stream, const std::string& from, const std::string& to);
int remove_file(const std::string& path);

}  // namespace hg
