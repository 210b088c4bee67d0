// SPDX-License-Identifier: Apache-2.0
// The inner loops of products with 8- and 4-bit weights and x rounded to 8-bit integers, for every
// instruction set. Sums of integers are exact; each is multiplied by the scales once.
#pragma once

#include <cstdint>

#include "kernels/low_bits/low_bits_simd.h"

namespace hg::kernels {

// Number of neighbors of x that share a scale, and the maximum number of bytes in a segment.
inline constexpr int kRoundedBytes = 32;

// The numbers that the integers of x in one segment represent, in each stream: x = scale * integer.
// Also the sums of these integers.
struct RoundedSegment {
  float low_scale = 0, high_scale = 0;
  int32_t low_sum = 0, high_sum = 0;
};

// y[rows, for the byte rows from `first` to `last`]. x has 32 integers per segment; with two
// streams, 32 for the low one, then 32 for the high one. Bytes beyond the segment are multiplied by
// zeros.
struct RoundedProduct {
  LevelRows w;
  int64_t rows = 0, first = 0, last = 0;
  int64_t byte_rows = 0, width = 0;  // of all levels, in bytes
  const int8_t* x = nullptr;
  int64_t x_row = 0;
  const RoundedSegment* scales = nullptr;  // [rows, segments]
  float* y = nullptr;
  int64_t y_row = 0;
};

// y[rows, columns] for the columns of one panel. Panels hold levels plus the table's excess. Pieces
// divide k; all levels of a piece share a scale, and so do the integers of x.
struct RoundedPanel {
  int64_t rows = 0, columns = 0;
  const int32_t* quads = nullptr;  // of each piece, at most kRoundedBytes / 4
  int64_t pieces = 0;
  const int8_t* x = nullptr;  // [rows][quads, 4], rows x_row apart
  int64_t x_row = 0;
  const float* x_scales = nullptr;   // [rows, pieces], or in tiles [rows / 16, pieces, 16]
  const int32_t* x_terms = nullptr;  // likewise: what the excess of the levels adds, negated
  const uint8_t* levels = nullptr;   // the result of the table's pack, for each piece
  const float* scales = nullptr;     // [pieces, columns of a panel]
  float* y = nullptr;
  int64_t y_row = 0;
};

inline constexpr int64_t kQuadSlack = 16;

struct RoundedTable {
  // Rounds at most kRoundedBytes numbers to multiples of a scale by integers from -127 to 127.
  // Returns the scale: NaN if x has an infinity or a NaN, 0 if all are zero or nearly so.
  float (*round)(const float* x, int64_t count, int8_t* to) = nullptr;
  void (*bytes)(const RoundedProduct& p) = nullptr;
  void (*nibbles)(const RoundedProduct& p) = nullptr;
  // The levels of `count` bytes, as in a panel; for pairs, two per byte.
  void (*unpack)(Stream stream, int64_t count, const uint8_t* from, uint8_t* to) = nullptr;
  int panel_columns = 0;
  int bytes_excess = 0, nibbles_excess = 8;
  bool whole_pieces = false;  // panels need kRoundedBytes integers in every piece
  // Panels are multiplied in tiles (AMX): 16 rows of x can be read from each multiple of 16.
  bool in_tiles = false;
  // Packs `quads` quads of a row per column into a panel: [quads, columns of a panel, 4], unless
  // the panel loops expect another order. Reads up to kQuadSlack bytes beyond.
  void (*pack)(int64_t quads, const uint8_t* rows, int64_t row_step, uint8_t* to) = nullptr;
  // Null if floats are as fast.
  void (*bytes_panel)(const RoundedPanel& p) = nullptr;
  void (*nibbles_panel)(const RoundedPanel& p) = nullptr;
};

const RoundedTable& rounded_table();
const RoundedTable& rounded_table_of_quads();  // pieces may have any length

}  // namespace hg::kernels
