// SPDX-License-Identifier: Apache-2.0
// The inner loops of products with 8- and 4-bit weights, for every instruction set. A row of bytes
// holds one stream of levels (8 bits) or two: the low 4 bits of each byte and the high ones. Levels
// are unpacked in registers, directly from the stored weight.
#pragma once

#include <cstdint>

#include "hg/tensor.h"

namespace hg::kernels {

// Number of bytes that are unpacked at a time. x is laid out in matching chunks
// (Levels::columns_of).
inline constexpr int kChunkBytes = 16;

// Bytes of each row whose levels have the same scale, in each stream; anywhere in the row.
struct Segment {
  int32_t begin = 0, bytes = 0;
  int32_t low_group = 0, high_group = 0;
};

// Rows of bytes and the scales of their levels. `half` > 0: the high stream is another row of the
// weight, `half` rows later. x then has the chunks of one stream, which both use.
struct LevelRows {
  const int8_t* levels = nullptr;
  int64_t row_bytes = 0;              // from one row to the next
  const float* scales = nullptr;      // [n, groups]
  const Half* half_scales = nullptr;  // likewise, instead of scales of f32, which are then null
  const float* offsets = nullptr;     // likewise, or null
  int64_t groups = 0, n = 0, half = 0;
  const Segment* segments = nullptr;
  int64_t segment_count = 0;

  float scale(int64_t at) const {
    return half_scales != nullptr ? static_cast<float>(half_scales[at]) : scales[at];
  }
};

// y[rows, for the byte rows from `first` to `last`]. x is in the layout of the table's loops; its
// rows are x_row apart.
struct LowBitsProduct {
  LevelRows w;
  int64_t rows = 0, first = 0, last = 0;
  const float* x = nullptr;
  int64_t x_row = 0;
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

// The loops fetch levels this many bytes ahead. Hardware does not fetch enough, as several short
// rows are read at a time.
inline constexpr int64_t kFetchAhead = 4096;
inline constexpr int64_t kCacheLine = 64;
// The distance between the scales of a block of kColumns rows and those to fetch.
template <int kColumns>
int64_t scales_ahead(const LevelRows& w) {
  const int64_t block_bytes = kColumns * (w.row_bytes > 0 ? w.row_bytes : 1);
  return (kFetchAhead / block_bytes + 1) * kColumns * w.groups;
}

// Numbers along k of a tile.
inline constexpr int64_t kTileDepth = 32;
// y[rows, columns] for the columns of one panel, in tiles of 16 rows and kTileDepth numbers:
// `steps` of them. A number of x is the sum of its `parts`.
struct LevelPanel {
  static constexpr int64_t kColumns = 32;
  int64_t rows = 0, columns = 0, steps = 0;
  int64_t groups = 0, group_steps = 0;  // the last group may be shorter
  int parts = 1;
  const char* x = nullptr;        // bf16 [tiles of rows][steps][parts][16, kTileDepth]
  const float* levels = nullptr;  // pairs of bf16, [steps, 16, kColumns]
  const float* scales = nullptr;  // [groups, kColumns]
  float* y = nullptr;
  int64_t y_row = 0;
};

struct LevelTiles {
  void (*multiply)(const LevelPanel& p) = nullptr;
  // Writes a row of LevelPanel::x, times a power of two. The rest of the last part is cut; infinity
  // and NaN have one part. Numbers up to a whole tile are 0.
  void (*split)(int64_t count, const float* x, float factor, int parts, BFloat16* to) = nullptr;
  // Writes LevelPanel::levels. Rows have kTileDepth levels for each step.
  void (*pack)(int64_t steps, const uint8_t* rows, int64_t row_step, float* to) = nullptr;
};

enum class Stream : uint8_t { bytes, low, high, pairs };

// Columns of a row whose levels are consecutive in a stream. `from`: the byte of the first one.
struct LevelRun {
  Stream stream = Stream::bytes;
  const int8_t* from = nullptr;
  int64_t row = 0, begin = 0, end = 0;
  int64_t group = 1;  // number of columns that share a scale
};

struct LowBitsTable {
  // Up to this many rows of x, bytes and nibbles take less time than products with widened levels.
  int64_t few_rows = 0;
  // For each chunk of each segment, x has 16 floats (8 bits), or those of the low stream and then
  // of the high one, each transposed as 4 x 4. Beyond the segment are zeros.
  void (*bytes)(const LowBitsProduct& p) = nullptr;
  void (*nibbles)(const LowBitsProduct& p) = nullptr;
  void (*add_offsets)(const OffsetProduct& p) = nullptr;
  // Writes level * scale + offset for the columns of the run.
  void (*widen)(const LevelRows& w, const LevelRun& run, float* to) = nullptr;
  const LevelTiles* tiles = nullptr;  // null without AMX
};

const LowBitsTable& low_bits_table();

}  // namespace hg::kernels
