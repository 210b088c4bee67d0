// SPDX-License-Identifier: Apache-2.0
// Products of pairs of bf16 in tiles of AMX, for PairTable. Blocks of 32 rows and 32 columns pass
// through memory, where they are finished. Included once for every instruction set.
#if defined(HG_KERNELS_GEMM_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_GEMM_TILES_INL_H_
#undef HG_KERNELS_GEMM_TILES_INL_H_
#else
#define HG_KERNELS_GEMM_TILES_INL_H_
#endif

#include <algorithm>

#include "kernels/gemm/gemm_finish-inl.h"
#include "kernels/gemm/gemm_pack-inl.h"
#include "kernels/simd/amx-inl.h"
#include "kernels/simd/row_tiles-inl.h"

#if defined(HG_HAS_TILES)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

constexpr int kTileMr = 2 * kTileSide;
static_assert(kNr == 2 * kTileSide);

// sums[16 kRows, 16 kColumns] of rows of a, and of a panel.
template <int kRows, int kColumns>
void tile_sums(const Sweep& s, const float* a, int64_t a_row, int64_t a_step, const float* panel,
               TilePrefetch next, float* sums) {
  using Block = TileBlock<TileNumbers::bf16, kRows, kColumns>;
  Block::clear();
  Block::add(s.k / kTileSide, reinterpret_cast<const char*>(a), a_row * 4, a_step * 4,
             reinterpret_cast<const char*>(panel), kNr * 4, kTileSide * kNr * 4, next);
  Block::store(sums, kColumns * kTileRowBytes);
}

void tile_sweep(const Sweep& s) {
  using Sums =
      void (*)(const Sweep&, const float*, int64_t, int64_t, const float*, TilePrefetch, float*);
  static constexpr Sums kSums[2][2] = {{tile_sums<1, 1>, tile_sums<1, 2>},
                                       {tile_sums<2, 1>, tile_sums<2, 2>}};
  static constexpr int64_t kAt[2] = {0, kLanes};
  alignas(64) float sums[kTileMr * kNr];
  begin_tiles();
  Block b = {.k = s.k, .y_row = s.y_row, .add = s.add};
  Epilogue e;
  if (s.epilogue != nullptr) b.epilogue = &e;
  const auto add_block = [&](int64_t i, int rows, const float* a, int64_t j, const float* panel,
                             TilePrefetch next) HWY_ATTR {
    const int columns = static_cast<int>(std::min<int64_t>(kNr, s.columns - j));
    const int vectors = columns > kLanes ? 2 : 1;
    const int valid[2] = {std::min(columns, kLanes), columns - kLanes};
    kSums[rows > kTileSide][vectors - 1](s, a, s.is_packed ? kTileSide : s.a_row,
                                         s.is_packed ? whole_tiles(rows) * kTileSide : kTileSide,
                                         panel, next, sums);
    b.rows = rows;
    b.y = s.y + i * s.y_row + j;
    if (s.epilogue != nullptr) e = s.epilogue->at(i, j, s.y_row);
    vectors == 2 ? store_edge<2>(b, sums, kAt, valid) : store_edge<1>(b, sums, kAt, valid);
    activate_block(b, 0, columns);
  };
  const auto a_step = [&](int rows) {
    return s.is_packed ? whole_tiles(rows) * s.k : rows * s.a_row;
  };
  // What comes from memory is read once, and a part of the next block or panel with each product.
  const int64_t steps = s.k / kTileSide;
  int rows = 0;
  if (s.is_packed && s.rows > s.columns) {
    const int64_t panels = (s.columns + kNr - 1) / kNr;
    const float* a = s.a;
    for (int64_t i = 0; i < s.rows; i += rows, a += a_step(rows)) {
      rows = block_rows(s.left - i, kTileMr);
      TilePrefetch next;
      if (i + rows < s.rows) {
        next.at = reinterpret_cast<const char*>(a + a_step(rows));
        next.lines = (kTileMr + panels - 1) / panels;
      }
      for (int64_t j = 0; j < s.columns; j += kNr, next.at += steps * next.lines * 64)
        add_block(i, rows, a, j, s.panels + j / kNr * s.panel_step, next);
    }
  } else {
    const int64_t blocks = (s.rows + kTileMr - 1) / kTileMr;
    const float* panel = s.panels;
    for (int64_t j = 0; j < s.columns; j += kNr, panel += s.panel_step) {
      TilePrefetch next;
      if (j + kNr < s.columns) {
        next.at = reinterpret_cast<const char*>(panel + s.panel_step);
        next.lines = (kNr * 4 * kTileSide / 64 + blocks - 1) / blocks;
      }
      const float* a = s.a;
      for (int64_t i = 0; i < s.rows;
           i += rows, a += a_step(rows), next.at += steps * next.lines * 64) {
        rows = block_rows(s.left - i, kTileMr);
        add_block(i, rows, a, j, panel, next);
      }
    }
  }
  end_tiles();
}

// The same for planes.
template <int kRows, int kColumns>
void plane_sums(const PlaneSweep& s, const float* a, const float* x, TilePrefetch next,
                float* sums) {
  using Block = TileBlock<TileNumbers::bf16, kRows, kColumns>;
  constexpr int64_t kStep = kRows * kTileBytes;
  const char* from = reinterpret_cast<const char*>(a);
  Block::clear();
  for (int64_t t = 0; t < s.product.k / kTileSide; ++t, from += kStep, next.at += next.lines * 64)
    Block::add(1, from, kTileRowBytes, kStep, reinterpret_cast<const char*>(x + s.offset[t]),
               s.plane * 4, 0, next);
  Block::store(sums, kColumns * kTileRowBytes);
}

void tile_sweep_planes(const PlaneSweep& s) {
  using Sums = void (*)(const PlaneSweep&, const float*, const float*, TilePrefetch, float*);
  static constexpr Sums kSums[2][2] = {{plane_sums<1, 1>, plane_sums<1, 2>},
                                       {plane_sums<2, 1>, plane_sums<2, 2>}};
  const Sweep& p = s.product;
  alignas(64) float sums[kTileMr * kNr];
  begin_tiles();
  Epilogue e;
  int rows = 0;
  const float* a = p.a;
  const int64_t panels = (p.columns + kNr - 1) / kNr, steps = p.k / kTileSide;
  for (int64_t i = 0; i < p.rows; i += rows) {
    rows = block_rows(p.left - i, kTileMr);
    const int64_t bytes = whole_tiles(rows) * p.k * 4;
    TilePrefetch next;  // the next rows of a
    if (i + rows < p.rows) {
      next.at = reinterpret_cast<const char*>(a) + bytes;
      next.lines = (bytes / 64 + panels * steps - 1) / (panels * steps);
    }
    Block b = {.rows = rows, .k = p.k, .y = p.y + i * p.y_row, .y_row = p.y_row};
    if (p.epilogue != nullptr) {
      e = p.epilogue->at(i, 0, p.y_row);
      b.epilogue = &e;
    }
    for (int64_t j = 0; j < p.columns; j += kNr, next.at += steps * next.lines * 64) {
      const int vectors = p.columns - j > kLanes ? 2 : 1;
      int64_t at[2] = {};
      int valid[2] = {};
      for (int v = 0; v < vectors; ++v) {
        const int64_t column = s.first + j + v * kLanes, place = column % s.pitch;
        at[v] = column / s.pitch * s.width + place;
        valid[v] = static_cast<int>(std::min<int64_t>(kLanes, s.width - place));
      }
      kSums[rows > kTileSide][vectors - 1](s, a, s.x + s.first + j, next, sums);
      vectors == 2 ? store_edge<2>(b, sums, at, valid) : store_edge<1>(b, sums, at, valid);
      for (int v = 0; v < vectors; ++v) activate_block(b, at[v], valid[v]);
    }
    a += whole_tiles(rows) * p.k;
  }
  end_tiles();
}

// The first `count` lanes, or all.
HWY_INLINE __mmask16 lanes_of(int count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xffff : (1 << count) - 1);
}
HWY_INLINE V load_lanes(const float* from, __mmask16 lanes) {
  return V{_mm512_maskz_loadu_ps(lanes, from)};
}
HWY_INLINE V load_lanes(const BFloat16* from, __mmask16 lanes) {
  const __m256i halves = _mm256_maskz_loadu_epi16(lanes, from);
  return V{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}
HWY_INLINE void store_lanes(V x, float* to, __mmask16 lanes) {
  _mm512_mask_storeu_ps(to, lanes, x.raw);
}
HWY_INLINE void store_lanes(V x, BFloat16* to, __mmask16 lanes) {
  __m256i halves;
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(x.raw));
  _mm256_mask_storeu_epi16(to, lanes, halves);
}

void round_numbers(int64_t count, const float* from, BFloat16* to) {
  for (; count > 0; count -= kLanes, from += kLanes, to += kLanes) {
    const __mmask16 lanes = lanes_of(static_cast<int>(std::min<int64_t>(count, kLanes)));
    store_lanes(load_lanes(from, lanes), to, lanes);
  }
}

template <class Residual, class To>
void tile_rows_of(const RowProduct& r, const RowEpilogue& e) {
  const auto* const residual = static_cast<const Residual*>(e.residual);
  const int vectors = r.columns > kLanes ? 2 : 1;
  const __mmask16 lanes[2] = {lanes_of(r.columns), lanes_of(r.columns - kLanes)};
  const bool clamps = is_clamp(e.activation) && e.activation != Activation::none;
  const bool has_high = e.activation == Activation::relu6;
  V bias[2] = {hn::Zero(D()), hn::Zero(D())};
  for (int v = 0; v < vectors && e.bias; ++v) bias[v] = load_lanes(e.bias + v * kLanes, lanes[v]);
  const int64_t row = r.y_row / static_cast<int64_t>(sizeof(To));
  begin_tiles();
  multiply_rows<TileNumbers::bf16, float>(r, [&](float* sums, int64_t rows, char* y) HWY_ATTR {
    auto* to = reinterpret_cast<To*>(y);
    const Residual* from =
        residual == nullptr ? nullptr : residual + (to - reinterpret_cast<To*>(r.y));
    const auto sum_of = [&](int64_t i, int v) HWY_ATTR {
      V x = hn::Add(hn::Load(D(), sums + (i * vectors + v) * kLanes), bias[v]);
      if (from != nullptr) x = hn::Add(x, load_lanes(from + i * row + v * kLanes, lanes[v]));
      return clamps ? clamped(x, has_high) : x;
    };
    if (!is_clamp(e.activation)) {  // on the sums, which are read again
      for (int64_t i = 0; i < rows; ++i)
        for (int v = 0; v < vectors; ++v)
          hn::Store(sum_of(i, v), D(), sums + (i * vectors + v) * kLanes);
      kActivate[static_cast<size_t>(e.activation)](static_cast<int>(rows), vectors, sums,
                                                   vectors * kLanes);
      for (int64_t i = 0; i < rows; ++i, to += row)
        for (int v = 0; v < vectors; ++v)
          store_lanes(hn::Load(D(), sums + (i * vectors + v) * kLanes), to + v * kLanes, lanes[v]);
      return;
    }
    for (int64_t i = 0; i < rows; ++i, to += row)
      for (int v = 0; v < vectors; ++v) store_lanes(sum_of(i, v), to + v * kLanes, lanes[v]);
  });
  end_tiles();
}

void tile_rows(const RowProduct& r, const RowEpilogue& e) {
  const auto with = [&]<class Residual>(Residual) {
    e.to == DType::bf16 ? tile_rows_of<Residual, BFloat16>(r, e)
                        : tile_rows_of<Residual, float>(r, e);
  };
  e.residual_dtype == DType::bf16 ? with(BFloat16()) : with(float());
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
