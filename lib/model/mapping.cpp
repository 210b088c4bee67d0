// SPDX-License-Identifier: Apache-2.0
#include "lib/model/mapping.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/platform/file.h"
#include "lib/platform/memory.h"

namespace hg {

namespace {

// Smaller files are read before a thread for it would have started.
constexpr size_t kLeastAhead = size_t{4} << 20;

// Opens a regular file. Fails if it is empty, has more than max_bytes, or is too large to address.
Result<size_t> open_file(ReadFile& file, const std::string& path, int64_t max_bytes) {
  if (const int error = file.open(path); error != 0)
    return not_found("cannot open the file: ", std::strerror(error));
  ReadFile::Kind kind = ReadFile::Kind::other;
  uint64_t bytes = 0;
  if (const int error = file.look(kind, bytes); error != 0)
    return not_found("cannot read the file: ", std::strerror(error));
  if (kind == ReadFile::Kind::directory) return corrupt_model("it is a directory, not a .hgm file");
  if (kind != ReadFile::Kind::regular) return corrupt_model("it is not a regular file");
  if (bytes == 0) return corrupt_model("it is empty");
  if (max_bytes > 0 && bytes > static_cast<uint64_t>(max_bytes))
    return corrupt_model("it has ", bytes, " bytes, more than max_bytes, ", max_bytes);
  if (sizeof(void*) < 8 && bytes > static_cast<uint64_t>(PTRDIFF_MAX))
    return out_of_memory("it has ", bytes, " bytes, more than the ",
                         static_cast<uint64_t>(PTRDIFF_MAX), " that this program can address");
  return static_cast<size_t>(bytes);
}

Result<std::shared_ptr<void>> allocate_bytes(size_t bytes) {
  void* memory = allocate_aligned(bytes);
  if (memory == nullptr)
    return out_of_memory("no memory for a model of ", uint64_t{bytes}, " bytes");
  return std::shared_ptr<void>(memory, free_aligned);
}

struct MappedFile {
  std::shared_ptr<void> bytes;
  ReadFile file;
  ReadAhead ahead{file};
};

void free_file(void* file) { delete static_cast<MappedFile*>(file); }

}  // namespace

Result<Mapping> map_file(const std::string& path, int64_t max_bytes, bool writable) {
  auto made = std::make_unique<MappedFile>();
  HG_TRY_ASSIGN(const size_t bytes, open_file(made->file, path, max_bytes));
  made->bytes = made->file.map(bytes, writable);
  void* const begin = made->bytes.get();
  if (begin == nullptr) return out_of_memory("cannot map the file: ", std::strerror(errno));
  Mapping mapping{{static_cast<const std::byte*>(begin), bytes}, made->bytes, true};
  if (bytes >= kLeastAhead && !made->file.is_in_memory(bytes)) {
    mapping.ahead = &made->ahead;
    mapping.owner = std::shared_ptr<void>(std::shared_ptr<void>(made.release(), free_file), begin);
  }
  return mapping;
}

Result<Mapping> read_file(const std::string& path, int64_t max_bytes) {
  ReadFile file;
  HG_TRY_ASSIGN(const size_t bytes, open_file(file, path, max_bytes));
  HG_TRY_ASSIGN(std::shared_ptr<void> owner, allocate_bytes(bytes));
  auto* const to = static_cast<std::byte*>(owner.get());
  for (size_t at = 0; at < bytes;) {
    const int64_t got = file.read(to + at, bytes - at);
    if (got < 0) return not_found("cannot read the file: ", std::strerror(errno));
    if (got == 0)
      return corrupt_model("it was cut off while it was read: it had ", uint64_t{bytes},
                           " bytes, and ends after ", uint64_t{at});
    at += static_cast<size_t>(got);
  }
  return Mapping{{to, bytes}, std::move(owner)};
}

Result<Mapping> copy_bytes(std::span<const std::byte> bytes) {
  HG_TRY_ASSIGN(std::shared_ptr<void> owner, allocate_bytes(bytes.size()));
  if (!bytes.empty()) std::memcpy(owner.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> copy(static_cast<const std::byte*>(owner.get()), bytes.size());
  return Mapping{copy, std::move(owner)};
}

}  // namespace hg
