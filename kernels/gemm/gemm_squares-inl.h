// SPDX-License-Identifier: Apache-2.0
// Products of pairs of bf16 in squares of sums (BFMMLA), for PairTable: two pairs of two rows times
// those of two columns. Included once for every instruction set.
#if defined(HG_KERNELS_GEMM_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_GEMM_SQUARES_INL_H_
#undef HG_KERNELS_GEMM_SQUARES_INL_H_
#else
#define HG_KERNELS_GEMM_SQUARES_INL_H_
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/gemm/gemm_finish-inl.h"
#include "kernels/gemm/gemm_pack-inl.h"
#include "kernels/simd/arm_instruction.h"
#include "kernels/simd/mmla-inl.h"

#if defined(HG_HAS_SQUARES)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// The pairs [p, p + kCount) of row i, and of the next one if kBoth; others are zeros, or repeat.
// kAlongRows: neighbors are of other rows; otherwise of the same row.
template <bool kAlongRows, int kCount, bool kBoth>
HWY_INLINE V two_rows(const float* a, int64_t a_row, int64_t a_col) {
  const D d;
  const hn::Half<D> half;
  const hn::FixedTag<float, 1> one;
  const V none = hn::Zero(d);
  if constexpr (kAlongRows) {
    const auto rows_at = [&](const float* at) HWY_ATTR {
      if constexpr (kBoth)
        return hn::ZeroExtendVector(d, hn::LoadU(half, at));
      else
        return hn::ZeroExtendVector(d, hn::ZeroExtendVector(half, hn::LoadU(one, at)));
    };
    return hn::InterleaveLower(d, rows_at(a), kCount == 2 ? rows_at(a + a_col) : none);
  } else {
    const auto pairs_at = [&](const float* at) HWY_ATTR {
      if constexpr (kCount == 2)
        return hn::LoadU(half, at);
      else
        return hn::ZeroExtendVector(half, hn::LoadU(one, at));
    };
    const auto first = pairs_at(a);
    return hn::Combine(d, kBoth ? pairs_at(a + a_row) : first, first);
  }
}

template <bool kAlongRows, int kCount, int kRows, int kVectors>
HWY_INLINE void add_pairs(const float* a, int64_t a_row, int64_t a_col, const float* panel,
                          V (&square)[(kRows + 1) / 2][2 * kVectors]) {
  const D d;
  V b[2 * kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const V first = hn::LoadU(d, panel + v * kLanes),
            second = kCount == 2 ? hn::LoadU(d, panel + kNr + v * kLanes) : hn::Zero(d);
    b[2 * v] = hn::InterleaveLower(d, first, second);
    b[2 * v + 1] = hn::InterleaveUpper(d, first, second);
  }
  const auto add_rows = [&](int i, V rows) HWY_ATTR {
#pragma GCC unroll 4
    for (int j = 0; j < 2 * kVectors; ++j) square[i][j] = add_bf16_square(square[i][j], rows, b[j]);
  };
#pragma GCC unroll 6
  for (int i = 0; i < kRows / 2; ++i)
    add_rows(i, two_rows<kAlongRows, kCount, true>(a + 2 * i * a_row, a_row, a_col));
  if constexpr (kRows % 2 == 1 && kRows > 1 && kAlongRows) {
    const V rows = two_rows<true, kCount, true>(a + (kRows - 2) * a_row, a_row, a_col);
    add_rows(kRows / 2, hn::ConcatUpperUpper(d, rows, rows));
  } else if constexpr (kRows % 2 == 1) {
    add_rows(kRows / 2, two_rows<kAlongRows, kCount, false>(a + (kRows - 1) * a_row, a_row, a_col));
  }
}

// sums[kRows][kVectors][kLanes]
template <bool kAlongRows, int kRows, int kVectors>
void square_sums(const Block& block, const float* panel, float* sums) {
  constexpr int kPairs = (kRows + 1) / 2;
  const D d;
  const int64_t a_row = kAlongRows ? 1 : block.a_row, a_col = kAlongRows ? block.a_col : 1;
  const float* HWY_RESTRICT a = block.a;
  V square[kPairs][2 * kVectors];
#pragma GCC unroll 6
  for (int i = 0; i < kPairs; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < 2 * kVectors; ++j) square[i][j] = hn::Zero(d);
  int64_t p = 0;
  for (; p + 2 <= block.k; p += 2, a += 2 * a_col, panel += 2 * kNr)
    add_pairs<kAlongRows, 2, kRows, kVectors>(a, a_row, a_col, panel, square);
  if (p < block.k) add_pairs<kAlongRows, 1, kRows, kVectors>(a, a_row, a_col, panel, square);
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      hn::Store(row_of_squares(square, i, v), d, sums + (i * kVectors + v) * kLanes);
}

using SquareSums = void (*)(const Block& block, const float* panel, float* sums);
template <bool kAlongRows, int kVectors, int... kIndex>
constexpr std::array<SquareSums, kMr> square_sums_of(std::integer_sequence<int, kIndex...>) {
  return {square_sums<kAlongRows, kIndex + 1, kVectors>...};
}
template <bool kAlongRows, int kVectors>
constexpr auto kSquareSums =
    square_sums_of<kAlongRows, kVectors>(std::make_integer_sequence<int, kMr>());

// Rows or columns of a are contiguous.
void square_block(const Block& block, int columns, const float* panel) {
  static constexpr int64_t kAt[2] = {0, kLanes};
  const int valid[2] = {std::min(columns, kLanes), columns - kLanes};
  const auto at = static_cast<size_t>(block.rows - 1);
  const bool along_rows = block.a_row == 1 && block.a_col != 1;
  alignas(64) float sums[kMr * kNr];
  if (columns > kLanes) {
    (along_rows ? kSquareSums<true, 2> : kSquareSums<false, 2>)[at](block, panel, sums);
    store_edge<2>(block, sums, kAt, valid);
  } else {
    (along_rows ? kSquareSums<true, 1> : kSquareSums<false, 1>)[at](block, panel, sums);
    store_edge<1>(block, sums, kAt, valid);
  }
}

// Rounds, and interleaves the bits.
HWY_INLINE V paired(V even, V odd) {
  V halves;
  asm(HG_ARM_INSTRUCTION_2("0x0ea16800") : "=w"(halves.raw) : "w"(even.raw));  // bfcvtn
  asm(HG_ARM_INSTRUCTION_2("0x4ea16800") : "+w"(halves.raw) : "w"(odd.raw));   // bfcvtn2
  const hn::Repartition<uint16_t, D> d16;
  const auto both = hn::BitCast(d16, halves);
  return hn::BitCast(D(), hn::InterleaveLower(d16, both, hn::ConcatUpperUpper(d16, both, both)));
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
