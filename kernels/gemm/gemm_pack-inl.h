// SPDX-License-Identifier: Apache-2.0
// The packed layout of operands in gemm_simd.cpp: rows of a in blocks of kMr, columns of b in
// panels of kNr. Included once for every instruction set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_GEMM_PACK_INL_H_
#undef HG_KERNELS_GEMM_PACK_INL_H_
#else
#define HG_KERNELS_GEMM_PACK_INL_H_
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "hwy/highway.h"
#include "kernels/gemm/tiles.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

constexpr int kMr = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 12 : 6;
constexpr int kNr = 2 * kLanes;

#if HWY_TARGET != HWY_SCALAR
// The first vectors of four columns, in blocks of 128 bits that hold one row of the four: block q
// of rows[i] is row 4 q + i.
HWY_INLINE void mix_columns(const float* from, int64_t step, V (&rows)[4]) {
  const D d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<D>> pairs;
  const V a = hn::LoadU(d, from), b = hn::LoadU(d, from + step), c = hn::LoadU(d, from + 2 * step),
          e = hn::LoadU(d, from + 3 * step);
  const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ab_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
             ce_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  rows[0] = hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce));
  rows[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce));
  rows[2] = hn::BitCast(d, hn::InterleaveLower(pairs, ab_upper, ce_upper));
  rows[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_upper, ce_upper));
}

// to[p kNr + j] = from[j b_col + p] for kLanes rows p of a whole panel. Loads whole vectors once:
// lines of columns that are a power of two apart would evict each other before a second use.
HWY_INLINE void transpose(const float* from, int64_t b_col, float* to) {
  const D d;
  for (int j = 0; j < kNr; j += kLanes, from += kLanes * b_col, to += kLanes) {
    V mixed[kLanes / 4][4];
#pragma GCC unroll 4
    for (int g = 0; g < kLanes / 4; ++g) mix_columns(from + 4 * g * b_col, b_col, mixed[g]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto put = [&](V v, int block)
                           HWY_ATTR { hn::StoreU(v, d, to + (4 * block + i) * kNr); };
#if HWY_TARGET == HWY_AVX3
      const V low[2] = {hn::ConcatLowerLower(d, mixed[2][i], mixed[0][i]),
                        hn::ConcatLowerLower(d, mixed[3][i], mixed[1][i])};
      const V high[2] = {hn::ConcatUpperUpper(d, mixed[2][i], mixed[0][i]),
                         hn::ConcatUpperUpper(d, mixed[3][i], mixed[1][i])};
      put(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low[1]), low[0]), 0);
      put(hn::OddEvenBlocks(low[1], hn::SwapAdjacentBlocks(low[0])), 1);
      put(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high[1]), high[0]), 2);
      put(hn::OddEvenBlocks(high[1], hn::SwapAdjacentBlocks(high[0])), 3);
#else
      if constexpr (kLanes == 8) {
        put(hn::ConcatLowerLower(d, mixed[1][i], mixed[0][i]), 0);
        put(hn::ConcatUpperUpper(d, mixed[1][i], mixed[0][i]), 1);
      } else {
        put(mixed[0][i], 0);
      }
#endif
    }
  }
}
#endif

// One block of rows, in groups of four. The last group also writes elements that the next column or
// block overwrites.
template <int kRows>
void pack_block(int64_t k, const float* a, int64_t a_row, float* to) {
  int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const hn::CappedTag<float, 4> four;
  constexpr int kGroups = (kRows + 3) / 4;
  const auto row = [&](int r) HWY_ATTR { return a + (r < kRows ? r : kRows - 1) * a_row; };
  HWY_ALIGN float mixed[kGroups][4 * kLanes];
  for (; p + kLanes <= k; p += kLanes) {
#pragma GCC unroll 3
    for (int g = 0; g < kGroups; ++g)
      hn::StoreInterleaved4(hn::LoadU(d, row(4 * g) + p), hn::LoadU(d, row(4 * g + 1) + p),
                            hn::LoadU(d, row(4 * g + 2) + p), hn::LoadU(d, row(4 * g + 3) + p), d,
                            mixed[g]);
#pragma GCC unroll 16
    for (int t = 0; t < kLanes; ++t)
#pragma GCC unroll 3
      for (int g = 0; g < kGroups; ++g)
        hn::StoreU(hn::Load(four, mixed[g] + 4 * t), four, to + (p + t) * kRows + 4 * g);
  }
#endif
  for (; p < k; ++p)
    for (int r = 0; r < kRows; ++r) to[p * kRows + r] = a[r * a_row + p];
}
using PackBlock = void (*)(int64_t k, const float* a, int64_t a_row, float* to);
template <int... kIndex>
constexpr std::array<PackBlock, kMr> pack_blocks(std::integer_sequence<int, kIndex...>) {
  return {pack_block<kIndex + 1>...};
}
constexpr auto kPackBlocks = pack_blocks(std::make_integer_sequence<int, kMr>());

void pack_some_rows(int64_t rows, int64_t k, const float* a, int64_t a_row, float* to) {
  for (int count; rows > 0; rows -= count, a += count * a_row, to += count * k) {
    count = block_rows(rows, kMr);
    kPackBlocks[count - 1](k, a, a_row, to);
  }
}

void pack(int64_t k, int64_t columns, const float* b, int64_t b_row, int64_t b_col, float* to,
          int64_t panel_step) {
  const D d;
  for (int64_t first = 0; first < columns; first += kNr, to += panel_step) {
    const int64_t width = std::min<int64_t>(kNr, columns - first);
    const float* from = b + first * b_col;
    if (b_col == 1 && width == kNr) {
      for (int64_t p = 0; p < k; ++p) {
        hn::Store(hn::LoadU(d, from + p * b_row), d, to + p * kNr);
        hn::Store(hn::LoadU(d, from + p * b_row + kLanes), d, to + p * kNr + kLanes);
      }
    } else if (b_col == 1) {
      for (int64_t p = 0; p < k; ++p) {
        float* row = to + p * kNr;
        for (int64_t j = 0; j < width; ++j) row[j] = from[p * b_row + j];
        for (int64_t j = width; j < kNr; ++j) row[j] = 0;
      }
    } else {
      int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
      if (b_row == 1 && width == kNr)
        for (; p + kLanes <= k; p += kLanes) transpose(from + p, b_col, to + p * kNr);
#endif
      // Pieces of 8 along k keep one cache line of each column in use.
      for (int64_t p0 = p; p0 < k; p0 += 8) {
        const int64_t p1 = std::min(k, p0 + 8);
        for (int64_t j = 0; j < width; ++j)
          for (int64_t q = p0; q < p1; ++q) to[q * kNr + j] = from[q * b_row + j * b_col];
        for (int64_t j = width; j < kNr; ++j)
          for (int64_t q = p0; q < p1; ++q) to[q * kNr + j] = 0;
      }
    }
  }
}

void spread(int64_t columns, const float* row, float* to, int64_t panel_step) {
  const D d;
  for (; columns >= kNr; columns -= kNr, row += kNr, to += panel_step) {
    hn::Store(hn::LoadU(d, row), d, to);
    hn::Store(hn::LoadU(d, row + kLanes), d, to + kLanes);
  }
  if (columns == 0) return;
  for (int64_t j = 0; j < columns; ++j) to[j] = row[j];
  for (int64_t j = columns; j < kNr; ++j) to[j] = 0;
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
