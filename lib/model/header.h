// SPDX-License-Identifier: Apache-2.0
// The first 64 bytes of a .hgm file, little-endian like the rest.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hg {

inline constexpr char kFileMagic[8] = {'H', 'G', 'M', 'O', 'D', 'E', 'L', '\n'};
inline constexpr uint32_t kFileVersion = 1;  // of the layout around the flatbuffer
inline constexpr int64_t kBlobAlignment = 64;
inline constexpr int kMaxSubgraphs = 16;         // nesting depth of graphs
inline constexpr size_t kMaxExpression = 65536;  // characters of one size
inline constexpr size_t kMaxNamedSizes = 65536;

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;               // 64
  uint64_t graph_offset, graph_bytes;  // the flatbuffer
  uint64_t data_offset, data_bytes;    // the weights; data_offset + data_bytes is the file's size
  uint32_t graph_crc32c;               // of the flatbuffer; 0: unknown, in files before 0.2
  uint32_t reserved[3];                // 0
};
static_assert(sizeof(FileHeader) == 64);

}  // namespace hg
