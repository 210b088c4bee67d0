// SPDX-License-Identifier: Apache-2.0
// Panels of levels times rounded rows in tiles of AMX, for RoundedTable. A product is one piece: 16
// rows of 32 integers times 16 columns of levels. Included once for every instruction set.
#if defined(HG_KERNELS_ROUNDED_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_ROUNDED_TILES_INL_H_
#undef HG_KERNELS_ROUNDED_TILES_INL_H_
#else
#define HG_KERNELS_ROUNDED_TILES_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/low_bits/rounded_simd.h"
#include "kernels/simd/amx-inl.h"

#if defined(HG_HAS_TILES)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

// y[16 rows, 16 columns], of which `rows` and `columns` are stored. levels, scales and y begin with
// the first column.
HWY_INLINE void tile_block(const RoundedPanel& p, int64_t row, const uint8_t* levels,
                           const float* scales, int64_t columns, float* y) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::FixedTag<float, kTileSide> d;
  const hn::FixedTag<int32_t, kTileSide> di;
  constexpr int64_t kPanelRow = 2 * kTileRowBytes;
  hn::Vec<decltype(d)> total[kTileSide];
#pragma GCC unroll 16
  for (int i = 0; i < kTileSide; ++i) total[i] = hn::Zero(d);
  alignas(64) int32_t sums[2][kTileSide * kTileSide];  // of this piece and the one before
  const int8_t* x = p.x + row * p.x_row;
  const float* x_scale = p.x_scales + row * p.pieces;
  for (int64_t piece = 0; piece < p.pieces; ++piece) {
    int32_t* const sum = sums[piece % 2];
    clear_tile<0>();
    load_tile<4>(x, p.x_row);
    load_tile<6>(levels, kPanelRow);
    add_tile_product<TileNumbers::signed_bytes, 0, 4, 6>();
    store_tile<0>(sum, kTileRowBytes);
    const auto scale = hn::LoadU(d, scales);
#pragma GCC unroll 16
    for (int i = 0; i < kTileSide; ++i)
      total[i] = hn::MulAdd(hn::ConvertTo(d, hn::Load(di, sum + i * kTileSide)),
                            hn::Mul(scale, hn::Set(d, x_scale[i])), total[i]);
    x += kRoundedBytes;
    levels += kRoundedBytes / 4 * kPanelRow;
    scales += 2 * kTileSide;
    x_scale += kTileSide;
  }
  alignas(64) float part[kTileSide][kTileSide];
#pragma GCC unroll 16
  for (int i = 0; i < kTileSide; ++i) hn::Store(total[i], d, part[i]);
  for (int64_t i = 0; i < std::min<int64_t>(kTileSide, p.rows - row); ++i)
    std::memcpy(y + i * p.y_row, part[i], static_cast<size_t>(columns) * 4);
}

void tile_panel(const RoundedPanel& p) {
  begin_half_tiles();
  for (int64_t row = 0; row < p.rows; row += kTileSide)
    for (int64_t j = 0; j < p.columns; j += kTileSide)
      tile_block(p, row, p.levels + j * 4, p.scales + j,
                 std::min<int64_t>(kTileSide, p.columns - j), p.y + row * p.y_row + j);
  end_tiles();
}

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
