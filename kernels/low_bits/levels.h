// SPDX-License-Identifier: Apache-2.0
// A quantized weight for kernels: its packing, and which levels of a row share a scale.
#pragma once

#include <vector>

#include "hg/kernel.h"
#include "kernels/low_bits/rounded_simd.h"
#include "kernels/saves_code.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/packing.h"

namespace hg::kernels {

struct Levels {
  Packing packing = Packing::bytes;
  int64_t n = 0, k = 0, group = 1, groups = 0;
  int64_t byte_rows = 0, row_bytes = 0;  // of levels that are contiguous along k

  bool has_two() const { return packing == Packing::halves || packing == Packing::pairs; }
  int64_t half_rows() const { return packing == Packing::rows ? byte_rows : 0; }
  // Number of elements of the low stream.
  int64_t low() const { return has_two() ? (k + 1) / 2 : k; }
  // Column of element i of a stream.
  int64_t low_column(int64_t i) const { return packing == Packing::pairs ? 2 * i : i; }
  int64_t high_column(int64_t i) const {
    return packing == Packing::pairs ? 2 * i + 1 : packing == Packing::halves ? low() + i : i;
  }
  // The bytes of a row. `block` > 0: also splits at block boundaries of this many columns of a
  // stream.
  std::vector<Segment> segments(int64_t block = 0) const;
  // For each position of x in the order of the exact loops: the column of x, or -1 for a zero.
  std::vector<int32_t> columns_of(const std::vector<Segment>& segments) const;
  // level * scale + offset of row r, columns from `begin` to `end`.
  void widen(const LowBitsTable& table, const LevelRows& w, int64_t r, int64_t begin, int64_t end,
             float* to) const;
  // Prefetches what widen() with these arguments reads.
  void expect(const LevelRows& w, int64_t r, int64_t begin, int64_t end) const;
  // The levels themselves, plus 8 (4 bits) or bytes_excess (8 bits).
  void unpack(const RoundedTable& table, const LevelRows& w, int64_t r, int64_t begin, int64_t end,
              uint8_t* to) const;
};

// The scales [begin, end) of all rows, in their order, as f32: where they lie, or widened into
// `room`.
inline const float* wide_scales(const LevelRows& w, int64_t begin, int64_t end, float* room) {
  if (kSavesCode || w.half_scales == nullptr) return w.scales + begin;
  half_table().widen(end - begin, w.half_scales + begin, room);
  return room;
}

}  // namespace hg::kernels
