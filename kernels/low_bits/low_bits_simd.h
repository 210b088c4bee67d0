// SPDX-License-Identifier: Apache-2.0
// The inner loops of products with weights of 8 or 4 bits, for every instruction set. A row of
// bytes holds one stream of levels (8 bits) or two: the low 4 bits of each byte and the high ones.
// Levels are unpacked in registers, from where they lie.
#pragma once

#include <cstdint>

namespace hg::kernels {

// So many bytes are unpacked at a time. x is laid out in chunks that match (Levels::columns_of).
inline constexpr int kChunkBytes = 16;

// Bytes of each row whose levels have the same scale, in each stream; at any place of the row.
struct Segment {
  int32_t begin = 0, bytes = 0;
  int32_t low_group = 0, high_group = 0;
};

// Rows of bytes, and what their levels are multiplied by. `half` > 0: the high stream is another
// row of the weight, `half` behind; then x has the chunks of one stream, which serve both.
struct LevelRows {
  const int8_t* levels = nullptr;
  int64_t row_bytes = 0;           // from one row to the next
  const float* scales = nullptr;   // [n, groups]
  const float* offsets = nullptr;  // likewise, or null
  int64_t groups = 0, n = 0, half = 0;
  const Segment* segments = nullptr;
  int64_t segment_count = 0;
};

// y[rows, of the byte rows from `first` to `last`]; x is what the table's loops read, x_row apart.
struct LowBitsProduct {
  LevelRows w;
  int64_t rows = 0, first = 0, last = 0;
  const float* x = nullptr;
  int64_t x_row = 0;
  float* y = nullptr;
  int64_t y_row = 0;
};

// A segment of a rounded product has at most this many bytes, and this many neighbors of x share a
// scale.
inline constexpr int kRoundedBytes = 32;

// What the integers of x in one segment stand for, in each stream: x = scale * integer.
struct RoundedSegment {
  float low_scale = 0, high_scale = 0;
};

// The same product with x rounded to integers of 8 bits. x has 32 integers for each segment, with
// two streams 32 for the low one and then 32 for the high one. The first 16 meet the even bytes,
// the others the odd bytes. Zeros meet the bytes beyond the segment.
struct RoundedProduct {
  LevelRows w;
  int64_t rows = 0, first = 0, last = 0;
  int64_t byte_rows = 0, width = 0;  // of all levels, in bytes
  const int16_t* x = nullptr;
  int64_t x_row = 0;
  const RoundedSegment* scales = nullptr;  // [rows, segments]
  float* y = nullptr;
  int64_t y_row = 0;
};

// y[rows, of the rows of the weight from `first` to `last`] += the products of the offsets with the
// sums of x.
struct OffsetProduct {
  const float* offsets = nullptr;  // [n, groups]
  const float* sums = nullptr;     // [rows, groups]: of x in each group
  int64_t rows = 0, first = 0, last = 0, groups = 0;
  float* y = nullptr;
  int64_t y_row = 0;
};

enum class Stream : uint8_t { bytes, low, high, pairs };

struct LowBitsTable {
  // x has for each chunk of each segment 16 floats (8 bits), or those of
  // the low stream and then of the high one, each turned as 4 x 4; zeros stand beyond the segment.
  void (*bytes)(const LowBitsProduct& p) = nullptr;
  void (*nibbles)(const LowBitsProduct& p) = nullptr;
  void (*rounded_bytes)(const RoundedProduct& p) = nullptr;
  void (*rounded_nibbles)(const RoundedProduct& p) = nullptr;
  void (*add_offsets)(const OffsetProduct& p) = nullptr;
  // to[i] = level * scale + offset of `count` bytes; of pairs two for each byte. No offset: null.
  void (*widen)(Stream stream, int64_t count, const int8_t* from, float scale, const float* offset,
                float* to) = nullptr;
};

const LowBitsTable& low_bits_table();

}  // namespace hg::kernels
