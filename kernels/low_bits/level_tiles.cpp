// SPDX-License-Identifier: Apache-2.0
// quantized_linear of more than a few rows, in tiles of AMX. Numbers of f32 are the sum of three of
// bf16, those of f16 of two, and levels are numbers of bf16, so products are exact; sums are in
// f32, and those of a group are multiplied by its scale. Rows of x are multiplied by a power of two
// if their largest number is very large or small. Then parts and sums below 2^-126 count as 0.
#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/low_bits/quantized_linear.h"
#include "kernels/simd/tile_side.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kChunk = 16 * kTileDepth;  // that are unpacked at a time
constexpr int64_t kRowStep = kChunk + 64;    // of unpacked levels
constexpr int64_t kScales = 64;              // of a row that are widened at a time
// Of x: its parts stay in the second-level cache while panels pass.
constexpr int64_t kMostBytes = 3 << 18;
constexpr int64_t kTileM = 960;  // a multiple of two tiles
constexpr int64_t kPanel = LevelPanel::kColumns;
// Rows whose numbers are all smaller or some larger are multiplied by kMore or kLess: parts are not
// subnormal, and no sum of levels overflows.
constexpr float kLarge = 0x1p64f, kSmall = 0x1p-60f, kMore = 0x1p64f, kLess = 0x1p-64f;

struct TiledLinear : QuantizedLinear {
  explicit TiledLinear(QuantizedLinear shared) : QuantizedLinear(std::move(shared)) {}

  const RoundedTable* unpacks = nullptr;  // with AMX, levels without an excess
  int parts = 1;
  int64_t steps = 0;  // of k
  int64_t tile_m = 1, lanes = 1, slot_bytes = 0;
  int64_t x_at = 0, factors_at = 0;  // in the workspace

  int64_t tile_row_bytes() const { return steps * parts * kTileSide * kTileDepth * 2; }
  int64_t tiles_m() const { return ceil_div(m, tile_m); }
  int64_t panels() const { return ceil_div(levels.n, kPanel); }
  // Floats of the parts of a slot: the panel, its scales, and unpacked levels.
  int64_t panel_floats() const { return steps * kTileSide * kPanel; }
  int64_t scale_floats() const { return levels.groups * kPanel; }
  float* factors(const RunContext& c) const {
    return reinterpret_cast<float*>(c.workspace<char>() + factors_at);
  }
};

// Row i of x in tiles.
void lay_out(const RunContext& c, const TiledLinear& g, int64_t i) {
  const int64_t k = g.levels.k;
  const float* const x = c.in(kX).as<float>() + i * k;
  int32_t largest = 0;  // the bits of the largest |x|, which are ordered like the numbers
  for (int64_t p = 0; p < k; ++p)
    largest = std::max(largest, std::bit_cast<int32_t>(x[p]) & 0x7fffffff);
  float factor = 1;
  if (largest >= std::bit_cast<int32_t>(kLarge)) factor = kLess;
  if (largest < std::bit_cast<int32_t>(kSmall)) factor = kMore;
  g.factors(c)[i] = 1 / factor;
  char* const tiles = c.workspace<char>() + g.x_at + i / kTileSide * g.tile_row_bytes();
  g.loops->tiles->split(k, x, factor, g.parts,
                        reinterpret_cast<BFloat16*>(tiles) + i % kTileSide * kTileDepth);
}

// The levels and scales of the columns from `first` on, at most a panel. `room` is for unpacked
// levels. Levels beyond k multiply zeros, and results beyond n are not stored: both may be any.
void pack_panel(const TiledLinear& g, const LevelRows& w, int64_t first, float* panel,
                float* scales, float* room) {
  const Levels& levels = g.levels;
  const int64_t columns = std::min(kPanel, levels.n - first), k = levels.k;
  auto* const rows = reinterpret_cast<uint8_t*>(room);
  const bool lie_ready = levels.packing == Packing::bytes && columns == kPanel;
  for (int64_t k0 = 0; k0 < k; k0 += kChunk) {
    const int64_t count = std::min(kChunk, k - k0), steps = ceil_div(count, kTileDepth);
    for (int64_t j = 0; j < columns; ++j)
      if (first + j + kPanel < levels.n) levels.expect(w, first + j + kPanel, k0, k0 + count);
    float* const to = panel + k0 / 2 * kPanel;
    if (lie_ready && count % kTileDepth == 0) {
      const int8_t* const from = w.levels + first * w.row_bytes + k0;
      g.loops->tiles->pack(steps, reinterpret_cast<const uint8_t*>(from), w.row_bytes, to);
      continue;
    }
    for (int64_t j = 0; j < columns; ++j)
      levels.unpack(*g.unpacks, w, first + j, k0, k0 + count, rows + j * kRowStep);
    g.loops->tiles->pack(steps, rows, kRowStep, to);
  }
  float wide[kScales];
  for (int64_t g0 = 0; g0 < levels.groups; g0 += kScales, scales += kScales * kPanel) {
    const int64_t groups = std::min(kScales, levels.groups - g0);
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = (first + j) * levels.groups + g0;
      const float* const from = wide_scales(w, at, at + groups, wide);
      for (int64_t group = 0; group < groups; ++group) scales[group * kPanel + j] = from[group];
    }
  }
}

Status prepare(PrepareContext& c) {
  const int64_t m = x_rows(c);
  TiledLinear g(quantized_linear(c));
  g.unpacks = &rounded_table();
  const std::string& dtype = c.attrs().string("x_dtype");
  g.parts = dtype == to_string(bf16) ? 1 : dtype == to_string(f16) ? 2 : 3;
  g.steps = ceil_div(g.levels.k, kTileDepth);
  const int64_t most =
      std::clamp<int64_t>(kMostBytes * kTileSide / (g.tile_row_bytes() + 1), 2 * kTileSide, kTileM);
  const int64_t tiles = std::max<int64_t>(1, ceil_div(m, most));  // about equal
  g.tile_m = std::max<int64_t>(1, ceil_div(ceil_div(m, tiles), 2 * kTileSide) * 2 * kTileSide);
  g.lanes = tile_lanes(c, g.tiles_m() * g.panels());
  g.slot_bytes = 4 * (g.panel_floats() + g.scale_floats()) + kPanel * kRowStep;
  g.take_slots(g.lanes, g.slot_bytes);
  g.x_at = g.take(ceil_div(m, kTileSide) * g.tile_row_bytes());
  g.factors_at = g.take(m * 4);
  if (c.has(kOffsets)) g.sums_at = g.take(m * g.levels.groups * 4);
  c.set_workspace(g.workspace);
  c.make_state(std::move(g));
  return {};
}

void run(const RunContext& c) noexcept {
  const auto& g = c.state<TiledLinear>();
  if (c.out(0).count() == 0) return;
  const Levels& levels = g.levels;
  for_rows_of_x(c, g, [&](int64_t i) {
    lay_out(c, g, i);
    const float* const x = c.in(kX).as<float>() + i * levels.k;
    sum_groups(c, g, i, [&](int64_t k) { return x[k]; });
  });
  const LevelRows w = level_rows(c, g);
  const char* const x = c.workspace<char>() + g.x_at;
  const float* const factors = g.factors(c);
  float* const y = c.out(0).as<float>();
  const int64_t tiles_m = g.tiles_m(),
                group_steps = std::max<int64_t>(1, levels.group / kTileDepth);
  for_tiles(c, tiles_m * g.panels(), g.lanes, g.slot_bytes, [&](int64_t index, float* panel) {
    const int64_t i0 = index % tiles_m * g.tile_m, j0 = index / tiles_m * kPanel;
    const int64_t rows = std::min(g.tile_m, g.m - i0), columns = std::min(kPanel, levels.n - j0);
    float* const scales = panel + g.panel_floats();
    pack_panel(g, w, j0, panel, scales, scales + g.scale_floats());
    float* const to = y + i0 * levels.n + j0;
    g.loops->tiles->multiply({.rows = rows,
                              .columns = columns,
                              .steps = g.steps,
                              .groups = levels.groups,
                              .group_steps = levels.groups <= 1 ? g.steps : group_steps,
                              .parts = g.parts,
                              .x = x + i0 / kTileSide * g.tile_row_bytes(),
                              .levels = panel,
                              .scales = scales,
                              .y = to,
                              .y_row = levels.n});
    for (int64_t i = 0; i < rows; ++i)
      if (const float factor = factors[i0 + i]; factor != 1)
        for (int64_t j = 0; j < columns; ++j) to[i * levels.n + j] *= factor;
    finish_block(c, g, w, i0, rows, j0, j0 + columns);
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "quantized_linear",
     .name = "level_tiles",
     .accepts = takes_level_tiles,
     .prepare = prepare,
     .run = run,
     .strided = kStridedWeight},
};

}  // namespace

std::span<const KernelDef> level_tiles() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
