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
// Bytes from where `stream` stands to its end; -1 where it cannot tell, as a pipe.
int64_t bytes_left(std::FILE* stream);

// A file that is open for reading.
class ReadFile {
 public:
  enum class Kind { regular, directory, other };

  ReadFile() = default;
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  ~ReadFile();
  // 0, or why it cannot be opened.
  int open(const std::string& path);
  // 0, or why it cannot be looked at.
  int look(Kind& kind, uint64_t& bytes) const;
  // The next bytes, at most so many; -1 with errno. Fewer than asked for do not mean the end; 0
  // does.
  int64_t read(void* to, size_t bytes);
  // The first bytes of the file, read only, as long as what is returned lives; null with errno.
  // What is mapped is not copied: a file that changes shows through, as far as the system lets it.
  std::shared_ptr<void> map(size_t bytes) const;

 private:
  int number_ = -1;
};

// Where links lead, to a file that may not be there yet; the path itself if there are none.
std::string resolve_links(const std::string& path);
// Opens what is at `path` for writing if it is no regular file, such as a pipe or a device. Null
// with errno 0 where there is a regular file, or nothing.
std::FILE* open_special(const std::string& path);
// A new file; null with errno, EEXIST if it exists. It has the mode of `like`, if there is
// such a file and systems have modes.
std::FILE* create_file(const std::string& path, const std::string& like);
// Tells the system to begin to write to the disk; failing is no harm.
void begin_flush(std::FILE* stream);
// All that was written is on the disk when this returns 0; otherwise why not. What has no disk,
// such as a pipe, has nothing to wait for.
int flush_to_disk(std::FILE* stream);
// Puts `from` where `to` is, at once: whoever opens `to` finds the old file or the new one. 0, or
// why not; both are then as they were.
int replace_file(const std::string& from, const std::string& to);
int remove_file(const std::string& path);

}  // namespace hg
