// SPDX-License-Identifier: Apache-2.0
// Products of quads in tiles of AMX, for IntegerTable. Blocks of 32 rows and 32 columns pass
// through memory, where their sums are finished. Included once for every instruction set, after
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

constexpr int kTileMr = 2 * kTileSide;
constexpr int64_t kPanelRow = kNr * 4;  // bytes of a quad of each column
static_assert(kNr == 2 * kTileSide);

HWY_INLINE int64_t tile_steps(const QuadPlaces& places) {
  return whole_tiles(places.whole) / kTileSide;
}
// A part of `next` with each step of the panels of a product.
HWY_INLINE TilePrefetch prefetch_of(const QuadPlaces& places, int64_t columns) {
  const int64_t steps = tile_steps(places) * ((columns + kNr - 1) / kNr);
  return {static_cast<const char*>(places.next), (places.next_bytes / 64 + steps - 1) / steps};
}

// Stores the low bytes of the first `count` lanes, or of all. Processors with tiles have VPERMT2B.
HWY_INLINE void store_both_low_bytes(V32 low, V32 high, int64_t count, uint8_t* to) {
  alignas(64) static constexpr uint8_t kOrder[64] = {
      0,  4,  8,  12, 16, 20, 24, 28, 32, 36,  40,  44,  48,  52,  56,  60,
      64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112, 116, 120, 124};
  const hn::FixedTag<uint8_t, 2 * kLanes> d;
  __m512i bytes = low.raw;
  asm("vpermt2b %2, %1, %0" : "+v"(bytes) : "v"(_mm512_load_si512(kOrder)), "v"(high.raw));
  const hn::Vec<decltype(d)> all{_mm512_castsi512_si256(bytes)};
  if (count >= 2 * kLanes) return hn::StoreU(all, d, to);
  hn::BlendedStore(all, hn::FirstN(d, static_cast<size_t>(count)), d, to);
}

// The sums of a block of rows and a panel, in kTileMr rows at `to`.
template <int kRows, int kColumns>
void tile_sums(const QuadPlaces& places, const int8_t* a, const uint8_t* x, TilePrefetch& next,
               int32_t* to, int64_t to_row) {
  using Block = TileBlock<TileNumbers::bytes, kRows, kColumns>;
  constexpr int64_t kStep = kRows * kTileBytes;
  const int64_t steps = tile_steps(places);
  const char* const left = reinterpret_cast<const char*>(a);
  const char* const panel = reinterpret_cast<const char*>(x);
  Block::clear();
  Block::add(steps, left, kTileRowBytes, kStep, panel, kPanelRow, kTileSide * kPanelRow, next);
  next.at += steps * next.lines * 64;
  for (int64_t first = 0; first < places.more; first += kTileSide) {
    alignas(64) char again[kTileSide * kPanelRow];
    const int64_t count = std::min<int64_t>(kTileSide, places.more - first);
    for (int64_t q = 0; q < kTileSide; ++q)  // beyond `count`, a has zeros
      std::memcpy(again + q * kPanelRow,
                  panel + places.index[first + std::min(q, count - 1)] * kPanelRow, kPanelRow);
    Block::add(1, left + (steps + first / kTileSide) * kStep, kTileRowBytes, kStep, again,
               kPanelRow, 0);
  }
  Block::store(to, to_row * 4);
}

using TileSums = void (*)(const QuadPlaces& places, const int8_t* a, const uint8_t* x,
                          TilePrefetch& next, int32_t* to, int64_t to_row);
HWY_INLINE TileSums tile_sums_of(int rows, int64_t columns) {
  static constexpr TileSums kSums[2][2] = {{tile_sums<1, 1>, tile_sums<1, 2>},
                                           {tile_sums<2, 1>, tile_sums<2, 2>}};
  return kSums[rows > kTileSide][columns > kLanes];
}

void tile_quad_sums(int rows, int64_t columns, const QuadPlaces& places, const int8_t* a,
                    const uint8_t* x, int64_t x_step, int32_t* sums, int64_t sums_row) {
  const bool is_whole = rows % kTileSide == 0;
  TilePrefetch next = prefetch_of(places, columns);
  alignas(64) int32_t part[kTileMr * kNr];
  for (; columns > 0; columns -= kNr, x += x_step, sums += kNr) {
    const TileSums sum = tile_sums_of(rows, columns);
    if (is_whole) {
      sum(places, a, x, next, sums, sums_row);
      continue;
    }
    sum(places, a, x, next, part, kNr);
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
  TilePrefetch next = prefetch_of(places, columns);
  alignas(64) int32_t part[kTileMr * kNr];
  for (; columns > 0; columns -= kNr, x += x_step, y += kNr) {
    tile_sums_of(rows, columns)(places, a, x, next, part, kNr);
    for (int i = 0; i < rows; ++i) {
      const auto scale = hn::Set(DF(), f.scale[f.scale_by_row ? i : 0]);
      const V32 start = hn::Set(D32(), f.row_add[i]);
      const auto vector = [&](int64_t at) HWY_ATTR {
        const V32 sum = hn::Add(hn::Load(D32(), part + i * kNr + at), start);
        return as_bytes.in_lanes(hn::Mul(hn::ConvertTo(DF(), sum), scale));
      };
      if (columns > kLanes)
        store_both_low_bytes(vector(0), vector(kLanes), columns, y + i * y_row);
      else
        store_low_bytes(vector(0), columns, y + i * y_row);
    }
  }
}

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
