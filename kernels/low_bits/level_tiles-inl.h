// SPDX-License-Identifier: Apache-2.0
// Panels of levels times rows of bf16 in tiles of AMX, for LowBitsTable. Levels are numbers of bf16
// too, so that every product is exact. The sums of a group are scaled once. Included once for every
// instruction set.
#if defined(HG_KERNELS_LEVEL_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_LEVEL_TILES_INL_H_
#undef HG_KERNELS_LEVEL_TILES_INL_H_
#else
#define HG_KERNELS_LEVEL_TILES_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/low_bits/low_bits_simd.h"
#include "kernels/simd/amx-inl.h"

#if defined(HG_HAS_TILES)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

// y[kRows tiles of rows, columns] from row `row` on.
template <int kRows, int kColumns>
HWY_INLINE void level_block(const LevelPanel& p, int64_t row) {
  namespace hn = hwy::HWY_NAMESPACE;
  using Block = TileBlock<TileNumbers::bf16, kRows, kColumns>;
  const hn::FixedTag<float, kTileSide> d;
  constexpr int64_t kPanelRow = LevelPanel::kColumns * 4, kStep = kTileSide * kPanelRow;
  constexpr int64_t kWidth = kColumns * kTileSide, kHeight = kRows * kTileSide;
  alignas(64) float sums[kHeight * kWidth], totals[kHeight * kWidth] = {};
  const char* const x = p.x + row * p.x_row;
  int64_t step = 0;
  for (int64_t group = 0; group < p.groups; ++group) {
    const int64_t steps = std::min(p.group_steps, p.steps - step);
    Block::clear();
    for (int part = 0; part < p.parts; ++part)
      Block::add(steps, x + (part * p.steps + step) * kTileRowBytes, p.x_row, kTileRowBytes,
                 reinterpret_cast<const char*>(p.levels) + step * kStep, kPanelRow, kStep);
    Block::store(sums, kWidth * 4);
    const float* const scales = p.scales + group * LevelPanel::kColumns;
    for (int64_t j = 0; j < kWidth; j += kTileSide) {
      const auto scale = hn::Load(d, scales + j);
#pragma GCC unroll 8
      for (int64_t i = j; i < kHeight * kWidth; i += kWidth)
        hn::Store(hn::MulAdd(hn::Load(d, sums + i), scale, hn::Load(d, totals + i)), d, totals + i);
    }
    step += steps;
  }
  const int64_t rows = std::min(kHeight, p.rows - row), columns = std::min(kWidth, p.columns);
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(p.y + (row + i) * p.y_row, totals + i * kWidth, static_cast<size_t>(columns) * 4);
}

template <int kColumns>
void level_rows(const LevelPanel& p) {
  int64_t row = 0;
  for (; row + kTileSide < p.rows; row += 2 * kTileSide) level_block<2, kColumns>(p, row);
  if (row < p.rows) level_block<1, kColumns>(p, row);
}

void level_panel(const LevelPanel& p) {
  begin_tiles();
  p.columns > kTileSide ? level_rows<2>(p) : level_rows<1>(p);
  end_tiles();
}

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
