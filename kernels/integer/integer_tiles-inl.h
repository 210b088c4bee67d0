// SPDX-License-Identifier: Apache-2.0
// Products of quads in tiles of AMX, for IntegerTable. Blocks of 32 rows and 32 columns pass through
// memory, where their sums are finished. Included once for every instruction set, after
// kernels/simd/amx-inl.h.
#if defined(HG_KERNELS_INTEGER_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_INTEGER_TILES_INL_H_
#undef HG_KERNELS_INTEGER_TILES_INL_H_
#else
#define HG_KERNELS_INTEGER_TILES_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/integer/integer_bytes-inl.h"
#include "kernels/simd/amx-inl.h"
#include "kernels/simd/bytes-inl.h"

#if defined(HG_HAS_TILES)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

constexpr int kTileMr = 2 * kTileRows;
constexpr int64_t kPanelRow = kNr * 4;  // bytes of a quad of each column
static_assert(kPanelRow == 2 * kTileRowBytes && kQuadsOfTile * 4 == kTileRowBytes);

// The sums of a block of rows and a panel, in kTileMr rows at `to`.
template <int kRows, int kColumns>
void tile_sums(const QuadPlaces& places, const int8_t* a, const uint8_t* x, int32_t* to,
               int64_t to_row) {
  using Block = TileBlock<TileNumbers::bytes, kRows, kColumns>;
  constexpr int64_t kStep = kRows * kTileBytes;
  const int64_t steps = (places.whole + kQuadsOfTile - 1) / kQuadsOfTile;
  const char* const left = reinterpret_cast<const char*>(a);
  const char* const panel = reinterpret_cast<const char*>(x);
  Block::clear();
  Block::add(steps, left, kTileRowBytes, kStep, panel, kPanelRow, kTileRows * kPanelRow);
  for (int64_t first = 0; first < places.more; first += kQuadsOfTile) {
    alignas(64) char again[kTileRows * kPanelRow];
    const int64_t count = std::min<int64_t>(kQuadsOfTile, places.more - first);
    for (int64_t q = 0; q < kQuadsOfTile; ++q)  // beyond `count`, a has zeros
      std::memcpy(again + q * kPanelRow,
                  panel + places.index[first + std::min(q, count - 1)] * kPanelRow, kPanelRow);
    Block::add(1, left + (steps + first / kQuadsOfTile) * kStep, kTileRowBytes, kStep, again,
               kPanelRow, 0);
  }
  Block::store(to, to_row * 4);
}

using TileSums = void (*)(const QuadPlaces& places, const int8_t* a, const uint8_t* x, int32_t* to,
                          int64_t to_row);
HWY_INLINE TileSums tile_sums_of(int rows, int64_t columns) {
  static constexpr TileSums kSums[2][2] = {{tile_sums<1, 1>, tile_sums<1, 2>},
                                           {tile_sums<2, 1>, tile_sums<2, 2>}};
  return kSums[rows > kTileRows][columns > kLanes];
}

void tile_quad_sums(int rows, int64_t columns, const QuadPlaces& places, const int8_t* a,
                    const uint8_t* x, int64_t x_step, int32_t* sums, int64_t sums_row) {
  const bool is_whole = rows % kTileRows == 0;
  alignas(64) int32_t part[kTileMr * kNr];
  for (; columns > 0; columns -= kNr, x += x_step, sums += kNr) {
    const TileSums sum = tile_sums_of(rows, columns);
    if (is_whole) {
      sum(places, a, x, sums, sums_row);
      continue;
    }
    sum(places, a, x, part, kNr);
    const int64_t count = columns > kLanes ? kNr : kLanes;
    for (int i = 0; i < rows; ++i)
      for (int64_t j = 0; j < count; j += kLanes)
        hn::StoreU(hn::Load(D32(), part + i * kNr + j), D32(), sums + i * sums_row + j);
  }
}

void tile_quad_bytes(int rows, int64_t columns, const QuadPlaces& places, const int8_t* a,
                     const uint8_t* x, int64_t x_step, const IntegerFinish& f, uint8_t* y,
                     int64_t y_row) {
  const AsBytes as_bytes(f);
  alignas(64) int32_t part[kTileMr * kNr];
  for (; columns > 0; columns -= kNr, x += x_step, y += kNr) {
    tile_sums_of(rows, columns)(places, a, x, part, kNr);
    for (int i = 0; i < rows; ++i) {
      const auto scale = hn::Set(DF(), f.scale[f.scale_by_row ? i : 0]);
      const V32 start = hn::Set(D32(), f.row_add[i]);
      for (int64_t j = 0; j < std::min<int64_t>(columns, kNr); j += kLanes) {
        const V32 sum = hn::Add(hn::Load(D32(), part + i * kNr + j), start);
        store_low_bytes(as_bytes.in_lanes(hn::Mul(hn::ConvertTo(DF(), sum), scale)), columns - j,
                        y + i * y_row + j);
      }
    }
  }
}

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
