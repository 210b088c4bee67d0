// SPDX-License-Identifier: Apache-2.0
// A file with packed weights of an earlier session (SessionOptions::packed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hg/status.h"

namespace hg {

struct PackedEntry {
  std::string key;
  std::span<std::byte> bytes;  // 64-byte aligned
  uint32_t source = 0;         // CRC-32C of the weight that was packed
  uint32_t sum = 0;            // CRC-32C of `bytes`
};

class PackedFile {
 public:
  // Maps the file. Null if there is none, or if it is damaged, or from another build of the library
  // or other instruction sets: `why` then says so.
  static std::unique_ptr<PackedFile> open(const std::string& path, std::string& why);
  // An entry that was not taken before; null if there is none. The mapping is private, so its bytes
  // may be overwritten; they are only right if `source` and `sum` match.
  const PackedEntry* take(std::string_view key, int64_t bytes);
  // Replaces the file at once, unless it has other contents. Entries need no `sum`.
  static Status write(const std::string& path, std::vector<PackedEntry> entries);

 private:
  Status read(std::span<std::byte> all);

  std::shared_ptr<void> owner_;
  std::vector<PackedEntry> entries_;
  std::unordered_multimap<std::string_view, size_t> untaken_;  // places in entries_
};

}  // namespace hg
