// SPDX-License-Identifier: Apache-2.0
// The layouts are ggml's: block_q4_0 and so on.
#include "converter/load/gguf/blocks.h"

#include <cstring>

#include "hg/status.h"

namespace hg::convert::gguf {
namespace {

uint16_t bits16(const uint8_t* bytes) { return static_cast<uint16_t>(bytes[0] | bytes[1] << 8); }

// Unpacks 32 elements of 4 bits from 16 bytes. The low nibbles are the first half. `high` contains
// the fifth bits.
void nibbles(const uint8_t* bytes, uint32_t high, int offset, Block& block) {
  for (int i = 0; i < 32; ++i) {
    const int low = i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4;
    block.levels[i] = static_cast<int16_t>((low | static_cast<int>(high >> i & 1) << 4) - offset);
  }
}

uint32_t bits32(const uint8_t* bytes) {
  return bits16(bytes) | static_cast<uint32_t>(bits16(bytes + 2)) << 16;
}

void q4_0(const uint8_t* bytes, Block& block) {
  block.d = bits16(bytes);
  nibbles(bytes + 2, 0, 8, block);
}
void q4_1(const uint8_t* bytes, Block& block) {
  block.d = bits16(bytes);
  block.dmin = bits16(bytes + 2);
  nibbles(bytes + 4, 0, 0, block);
}
void q5_0(const uint8_t* bytes, Block& block) {
  block.d = bits16(bytes);
  nibbles(bytes + 6, bits32(bytes + 2), 16, block);
}
void q5_1(const uint8_t* bytes, Block& block) {
  block.d = bits16(bytes);
  block.dmin = bits16(bytes + 2);
  nibbles(bytes + 8, bits32(bytes + 4), 0, block);
}
void q8_0(const uint8_t* bytes, Block& block) {
  block.d = bits16(bytes);
  for (int i = 0; i < 32; ++i) block.levels[i] = static_cast<int8_t>(bytes[2 + i]);
}

// Unpacks eight scales and eight minimums of 6 bits from 12 bytes.
void scales_of_k(const uint8_t* packed, Block& block) {
  for (int i = 0; i < 4; ++i) {
    const int d = packed[i], m = packed[4 + i], both = packed[8 + i];
    block.scales[i] = static_cast<int8_t>(d & 63);
    block.mins[i] = static_cast<int8_t>(m & 63);
    block.scales[4 + i] = static_cast<int8_t>((both & 15) | (d >> 6) << 4);
    block.mins[4 + i] = static_cast<int8_t>(both >> 4 | (m >> 6) << 4);
  }
}

// Unpacks 256 elements in chunks of 64. 32 bytes contain two groups of 32, the first in the low
// nibbles. Byte i of `high` contains the fifth bits of element i of all groups.
void levels_of_k(const uint8_t* low, const uint8_t* high, Block& block) {
  for (int i = 0; i < 256; ++i) {
    const int byte = low[i / 64 * 32 + i % 32];
    const int level = i / 32 % 2 == 0 ? byte & 15 : byte >> 4;
    const int fifth = high == nullptr ? 0 : high[i % 32] >> (i / 32) & 1;
    block.levels[i] = static_cast<int16_t>(level | fifth << 4);
  }
}
void q4_k(const uint8_t* bytes, Block& block) {
  block.d = bits16(bytes);
  block.dmin = bits16(bytes + 2);
  scales_of_k(bytes + 4, block);
  levels_of_k(bytes + 16, nullptr, block);
}
void q5_k(const uint8_t* bytes, Block& block) {
  block.d = bits16(bytes);
  block.dmin = bits16(bytes + 2);
  scales_of_k(bytes + 4, block);
  levels_of_k(bytes + 48, bytes + 16, block);
}

// 128 bytes of low nibbles, 64 of upper bits, 16 scales, d. Each half has 128 elements: 64 bytes
// contain four groups of 32, the first two in the low nibbles.
void q6_k(const uint8_t* bytes, Block& block) {
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, group = i % 128 / 32, at = i % 32;
    const int byte = bytes[half * 64 + group % 2 * 32 + at];
    const int low = group < 2 ? byte & 15 : byte >> 4;
    const int high = bytes[128 + half * 32 + at] >> (2 * group) & 3;
    block.levels[i] = static_cast<int16_t>((low | high << 4) - 32);
  }
  std::memcpy(block.scales, bytes + 192, 16);
  block.d = bits16(bytes + 208);
}

constexpr BlockFormat kFormats[] = {
    {.type = 0, .name = "F32", .bytes = 4, .dtype = f32},
    {.type = 1, .name = "F16", .bytes = 2, .dtype = f16},
    {.type = 30, .name = "BF16", .bytes = 2, .dtype = bf16},
    {.type = 2,
     .name = "Q4_0",
     .elements = 32,
     .bytes = 18,
     .group = 32,
     .bits = 4,
     .is_signed = true,
     .unpack = q4_0},
    {.type = 3,
     .name = "Q4_1",
     .elements = 32,
     .bytes = 20,
     .group = 32,
     .bits = 4,
     .unpack = q4_1},
    {.type = 6,
     .name = "Q5_0",
     .elements = 32,
     .bytes = 22,
     .group = 32,
     .bits = 8,
     .is_signed = true,
     .unpack = q5_0},
    {.type = 7,
     .name = "Q5_1",
     .elements = 32,
     .bytes = 24,
     .group = 32,
     .bits = 8,
     .unpack = q5_1},
    {.type = 8,
     .name = "Q8_0",
     .elements = 32,
     .bytes = 34,
     .group = 32,
     .bits = 8,
     .is_signed = true,
     .unpack = q8_0},
    {.type = 12,
     .name = "Q4_K",
     .elements = 256,
     .bytes = 144,
     .group = 32,
     .bits = 4,
     .inner = true,
     .unpack = q4_k},
    {.type = 13,
     .name = "Q5_K",
     .elements = 256,
     .bytes = 176,
     .group = 32,
     .bits = 8,
     .inner = true,
     .unpack = q5_k},
    {.type = 14,
     .name = "Q6_K",
     .elements = 256,
     .bytes = 210,
     .group = 16,
     .bits = 8,
     .is_signed = true,
     .inner = true,
     .unpack = q6_k},
};

// Types known only by name, for the error message.
constexpr struct {
  int32_t type;
  const char* name;
} kOthers[] = {{9, "Q8_1"},    {10, "Q2_K"},    {11, "Q3_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"},
               {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},
               {22, "IQ2_S"},  {23, "IQ4_XS"},  {24, "I8"},    {25, "I16"},    {26, "I32"},
               {27, "I64"},    {28, "F64"},     {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},
               {39, "MXFP4"}};

}  // namespace

const BlockFormat* block_format(int32_t type) {
  for (const BlockFormat& format : kFormats)
    if (format.type == type) return &format;
  return nullptr;
}

std::string type_name(int32_t type) {
  if (const BlockFormat* format = block_format(type)) return format->name;
  for (const auto& other : kOthers)
    if (other.type == type) return other.name;
  return str_cat("type ", int64_t{type}, " (unknown)");
}

}  // namespace hg::convert::gguf
