// SPDX-License-Identifier: Apache-2.0
// Panels of levels times rounded rows in squares of sums (SMMLA), for RoundedTable. In a panel, 8
// neighbors of a column are adjacent. Included once for every instruction set.
#if defined(HG_KERNELS_ROUNDED_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_ROUNDED_SQUARES_INL_H_
#undef HG_KERNELS_ROUNDED_SQUARES_INL_H_
#else
#define HG_KERNELS_ROUNDED_SQUARES_INL_H_
#endif

#include <cstring>

#include "kernels/low_bits/rounded_simd.h"
#include "kernels/simd/mmla-inl.h"

#if defined(HG_HAS_SQUARES)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

constexpr int kSquareColumns = 8, kSquareRows = 6;

void pack_for_squares(int64_t quads, const uint8_t* rows, int64_t row_step, uint8_t* to) {
  for (int64_t q = 0; q < quads; q += 2)
    for (int j = 0; j < kSquareColumns; ++j, to += 8)
      std::memcpy(to, rows + j * row_step + 4 * q, 8);
}

template <int kRows>
HWY_NOINLINE void square_panel_block(const RoundedPanel& p, int64_t row) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<int32_t, 4> di;
  const hn::FixedTag<int8_t, 8> eight;
  using V = hn::Vec<decltype(d)>;
  using VI = hn::Vec<decltype(di)>;
  constexpr int kPairs = (kRows + 1) / 2, kSquares = kSquareColumns / 2;
  // The last row is also the second of its pair if there is no other.
  const auto second = [](int i) { return 2 * i + 1 < kRows ? 2 * i + 1 : 2 * i; };
  const auto both = [&](auto one, auto other) HWY_ATTR {
    return hn::ConcatLowerLower(hn::DFromV<decltype(one)>(), other, one);
  };
  V total[kPairs][kSquares];
#pragma GCC unroll 3
  for (int i = 0; i < kPairs; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kSquares; ++j) total[i][j] = hn::Zero(d);
  const uint8_t* HWY_RESTRICT levels = p.levels;
  const int8_t* HWY_RESTRICT x = p.x + row * p.x_row;
  const float* x_scale = p.x_scales + row * p.pieces;
  const int32_t* x_term = p.x_terms + row * p.pieces;
  const float* scales = p.scales;
  for (int64_t piece = 0; piece < p.pieces; ++piece, ++x_scale, ++x_term) {
    VI sum[kPairs][kSquares];
#pragma GCC unroll 3
    for (int i = 0; i < kPairs; ++i) {
      const VI terms =
          both(hn::Set(di, x_term[2 * i * p.pieces]), hn::Set(di, x_term[second(i) * p.pieces]));
#pragma GCC unroll 4
      for (int j = 0; j < kSquares; ++j) sum[i][j] = terms;
    }
    for (int at = 0; at < kRoundedBytes; at += 8, levels += 8 * kSquareColumns, x += 8) {
      VI w[kSquares];
#pragma GCC unroll 4
      for (int j = 0; j < kSquares; ++j)
        w[j] = hn::LoadU(di, reinterpret_cast<const int32_t*>(levels) + 4 * j);
#pragma GCC unroll 3
      for (int i = 0; i < kPairs; ++i) {
        const auto bytes =
            hn::Combine(hn::Twice<decltype(eight)>(), hn::LoadU(eight, x + second(i) * p.x_row),
                        hn::LoadU(eight, x + 2 * i * p.x_row));
#pragma GCC unroll 4
        for (int j = 0; j < kSquares; ++j)
          sum[i][j] = add_byte_square(sum[i][j], hn::BitCast(di, bytes), w[j]);
      }
    }
#pragma GCC unroll 3
    for (int i = 0; i < kPairs; ++i) {
      const V scale =
          both(hn::Set(d, x_scale[2 * i * p.pieces]), hn::Set(d, x_scale[second(i) * p.pieces]));
#pragma GCC unroll 4
      for (int j = 0; j < kSquares; ++j) {
        const hn::Half<decltype(d)> half;
        const auto columns = hn::LoadU(half, scales + 2 * j);
        total[i][j] = hn::MulAdd(hn::ConvertTo(d, sum[i][j]),
                                 hn::Mul(scale, hn::Combine(d, columns, columns)), total[i][j]);
      }
    }
    scales += kSquareColumns;
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    float* const y = p.y + (row + i) * p.y_row;
    const V first = row_of_squares(total, i, 0), last = row_of_squares(total, i, 1);
    if (p.columns == kSquareColumns) {
      hn::StoreU(first, d, y);
      hn::StoreU(last, d, y + 4);
      continue;
    }
    HWY_ALIGN float part[kSquareColumns];
    hn::Store(first, d, part);
    hn::Store(last, d, part + 4);
    std::memcpy(y, part, static_cast<size_t>(p.columns) * 4);
  }
}

template <int kRows>
int64_t square_panel_rows(const RoundedPanel& p, int64_t row) {
  for (; row + kRows <= p.rows; row += kRows) square_panel_block<kRows>(p, row);
  if constexpr (kRows > 1) row = square_panel_rows<kRows - 1>(p, row);
  return row;
}

void square_panel(const RoundedPanel& p) { square_panel_rows<kSquareRows>(p, 0); }

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
