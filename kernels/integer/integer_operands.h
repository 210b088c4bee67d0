// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels of matmul_integer and conv_integer: zero points, left operands as pairs,
// and the effect of the inputs bias, scale and zero on the result.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "hg/kernel.h"
#include "kernels/ceil_div.h"
#include "kernels/integer/integer_simd.h"

namespace hg::kernels {

// Zero points of u8 or i8: one number, or a list. If absent, all are 0.
struct ZeroPoints {
  const void* data = nullptr;
  bool is_signed = false;
  int64_t count = 0;

  int at(int64_t i) const {
    if (count == 0) return 0;
    const int64_t from = count == 1 ? 0 : i % count;
    return is_signed ? static_cast<const int8_t*>(data)[from]
                     : static_cast<const uint8_t*>(data)[from];
  }
};
inline ZeroPoints zero_points(const Tensor& t) {
  return {t.data, t.dtype == DType::i8, t.data == nullptr ? 0 : t.count()};
}
// Distinguishes packs with different zero points.
std::string key_of(const ZeroPoints& zeros);

inline int64_t pairs_of(int64_t k) { return (k + 1) / 2; }
inline int64_t quads_of(int64_t k) { return (k + 3) / 4; }

// memcpy for lines of images, which are often shorter than a call takes.
inline void copy_line(uint8_t* to, const uint8_t* from, int64_t count) {
  const auto copy = [&]<int kBytes>(std::integral_constant<int, kBytes>) {
    for (int64_t i = 0; i + kBytes < count; i += kBytes) std::memcpy(to + i, from + i, kBytes);
    std::memcpy(to + count - kBytes, from + count - kBytes, kBytes);  // overlaps the one before
  };
  if (count >= 256)
    std::memcpy(to, from, static_cast<size_t>(count));
  else if (count >= 16)
    copy(std::integral_constant<int, 16>());
  else if (count >= 4)
    copy(std::integral_constant<int, 4>());
  else
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

// Packs rows of bytes [rows, k] into the blocks of block_rows (kernels/gemm/tiles.h): each [pairs,
// rows, 2] of i16, minus the zero points. `first` is the index of the first row in the zero points.
// sums: of each packed row.
void pack_byte_rows(int64_t rows, int64_t k, const Tensor& from, int64_t first,
                    const ZeroPoints& zeros, int mr, int16_t* to, int32_t* sums);

// The same as QuadRows of i8, which are the bytes of i8, or those of u8 minus 128.
// Missing rows are left as they are. The sums are those of the numbers minus `zero`.
void pack_byte_quads(int64_t rows, int64_t k, const Tensor& from, int64_t first, int zero,
                     const IntegerTable& table, int8_t* to, int32_t* sums);

// Places of quads in a panel.
std::vector<int32_t> panel_places(int64_t quads, int64_t panel_columns);

// Rows of constant weights as quads of i8, minus their zero points. If two neighbors of one sign
// exceed the table's most_pair, or one exceeds kMostWeight, the excess becomes another quad at the
// same position, so that all sums are exact.
struct Quads {
  // The row of the weights that is row i of the blocks. With places_by_row, rows of a group are
  // sorted by their number of additional quads.
  int64_t row_at(int64_t i) const { return row.empty() ? i : row[static_cast<size_t>(i)]; }

  int64_t whole = 0;                 // quads of a row, without the additional ones
  std::vector<int32_t> row;          // empty if rows are in order
  std::vector<int32_t> again;        // positions of the additional quads, block after block: those
                                     // of all rows, or with places_by_row [more][rows]
  std::vector<int64_t> at, more_at;  // by the first row of a block: its bytes, its positions
  std::vector<int64_t> more;         // number of additional quads of a row
  int64_t count = 0;                 // of all rows, with the additional ones
  int64_t bytes = 0;
};
// For `rows` rows [k] in groups of `group`, the last of which may be smaller. Each group has its
// own blocks. With places_by_row, the search ends early, and `count` is the largest int64_t, if the
// weights need more than most_more additional quads, or the first group four times its share.
Quads find_quads(int64_t rows, int64_t group, int64_t k, const Tensor& weight,
                 const ZeroPoints& zeros, const IntegerTable& table, int64_t most_more);
void pack_quad_rows(const Quads& quads, int64_t rows, int64_t group, int64_t k,
                    const Tensor& weight, const ZeroPoints& zeros, const IntegerTable& table,
                    int8_t* to, int32_t* sums);

// The last of `columns` for quad_few(), if this takes less time than a vector of sums. Times are in
// cycles of a block, measured with AVX-512.
inline int64_t few_of(const IntegerTable& table, int64_t columns, int64_t quads) {
  const int64_t rest = columns % (table.nr / 2);
  const bool is_faster = 60 + ceil_div(rest, int64_t{4}) * quads * 5 / 2 < quads * table.mr;
  return rest <= table.most_few && is_faster ? rest : 0;
}

// For inputs 5 and 6, the scale and the zero point. The kernel adds the bias.
IntegerFinish integer_finish(const RunContext& c);

}  // namespace hg::kernels
