// SPDX-License-Identifier: Apache-2.0
// The element types of GGUF tensors: floats, and blocks of integers with scales. An element of a
// block is d * scale * level, or d * scale * level - dmin * min, computed in f32 from left to
// right.
#pragma once

#include <cstdint>
#include <string>

#include "hg/tensor.h"

namespace hg::convert::gguf {

// The integers and f16 bits of one block, in the order of its elements.
struct Block {
  int16_t levels[256];
  uint16_t d = 0, dmin = 0;     // f16
  int8_t scales[16], mins[16];  // per group; only of formats with `inner`
};

struct BlockFormat {
  int32_t type = 0;  // ggml's number of the type
  const char* name = "";
  int64_t elements = 1, bytes = 0;  // of a block
  DType dtype = f32;                // for floats
  int64_t group = 0;                // elements that share a scale; 0: floats
  int bits = 0;                     // width of a level, 8 or 4
  bool is_signed = false;           // whether levels are signed; unsigned ones have a minimum
  bool inner = false;               // whether groups have integer scales
  void (*unpack)(const uint8_t* bytes, Block& block) = nullptr;
};

// Returns null if the type is unknown.
const BlockFormat* block_format(int32_t type);
// Returns "Q4_K", or "type 99 (unknown)".
std::string type_name(int32_t type);

}  // namespace hg::convert::gguf
