// SPDX-License-Identifier: Apache-2.0
// quantized_linear of many rows of f16 or bf16, in tiles of AMX.
// Numbers of f16 are the sum of two of bf16, and levels are numbers of bf16, so products are exact;
// sums are in f32, and those of a group are multiplied by its scale. Numbers of bf16 and sums below
// 2^-126 count as 0.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/low_bits/quantized_linear.h"
#include "kernels/simd/half_simd.h"
#include "kernels/simd/tile_side.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kStep = 2 * kTileSide;  // numbers along k of a tile
constexpr int64_t kChunk = 16 * kStep;    // that are converted at a time
constexpr int64_t kTileM = 960;           // a multiple of two tiles
constexpr int64_t kPanel = LevelPanel::kColumns;
// Rows with larger numbers are multiplied by kLess, so that no sum of levels overflows.
constexpr float kLarge = 0x1p64f, kLess = 0x1p-64f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct HalfTiles : QuantizedLinear {
  explicit HalfTiles(QuantizedLinear shared) : QuantizedLinear(std::move(shared)) {}

  const HalfTable* half = nullptr;
  const GemmTable* pairs = nullptr;  // which packs panels
  int parts = 1;
  int64_t steps = 0;  // of k
  int64_t tile_m = 1, lanes = 1, slot_bytes = 0;
  int64_t x_at = 0, factors_at = 0;  // in the workspace

  // In bytes; an odd number of cache lines, so that rows do not compete for the same cache sets.
  int64_t x_row() const { return (parts * steps | 1) * kStep * 2; }
  int64_t tiles_m() const { return ceil_div(m, tile_m); }
  int64_t panels() const { return ceil_div(levels.n, kPanel); }
  // Floats of the parts of a slot: the panel, its scales, and levels that are converted.
  int64_t panel_floats() const { return steps * kTileSide * kPanel; }
  int64_t scale_floats() const { return levels.groups * kPanel; }
  float* factors(const RunContext& c) const {
    return reinterpret_cast<float*>(c.workspace<char>() + factors_at);
  }
};

// Row i of x as parts.
void lay_out(const RunContext& c, const HalfTiles& g, int64_t i) {
  const int64_t k = g.levels.k, padded = g.steps * kStep;
  const float* const x = c.in(kX).as<float>() + i * k;
  auto* const to = reinterpret_cast<BFloat16*>(c.workspace<char>() + g.x_at + i * g.x_row());
  int32_t largest = 0;  // the bits of the largest |x|, which are ordered like the numbers
  if (g.parts == 1)     // those of f16 are small
    for (int64_t p = 0; p < k; ++p)
      largest = std::max(largest, std::bit_cast<int32_t>(x[p]) & 0x7fffffff);
  const bool is_large = largest >= std::bit_cast<int32_t>(kLarge);
  g.factors(c)[i] = is_large ? kLarge : 1;
  float numbers[kChunk], rest[kChunk];
  for (int64_t k0 = 0; k0 < k; k0 += kChunk) {
    const int64_t count = std::min(kChunk, k - k0);
    const float* from = x + k0;
    if (is_large) {
      for (int64_t p = 0; p < count; ++p) numbers[p] = from[p] * kLess;
      from = numbers;
    }
    g.half->narrow(count, from, to + k0);
    if (g.parts == 1) continue;
    g.half->round_bf16(count, from, rest);
    for (int64_t p = 0; p < count; ++p)
      rest[p] = std::abs(rest[p]) < kInfinity ? from[p] - rest[p] : 0.0f;
    g.half->narrow(count, rest, to + padded + k0);
  }
  for (int part = 0; part < g.parts; ++part)
    std::fill(to + part * padded + k, to + (part + 1) * padded, BFloat16());
}

// The levels and scales of the columns from `first` on, at most a panel. `room` is for levels
// before they are packed.
void pack_panel(const HalfTiles& g, const LevelRows& w, int64_t first, float* panel, float* scales,
                float* room) {
  const int64_t columns = std::min(kPanel, g.levels.n - first), k = g.levels.k;
  constexpr float kOne = 1;
  Levels plain = g.levels;  // with one scale
  plain.group = std::max<int64_t>(1, k);
  LevelRows levels = w;
  levels.scales = &kOne;
  levels.half_scales = nullptr;
  levels.offsets = nullptr;
  levels.groups = 0;
  float numbers[kChunk];
  for (int64_t k0 = 0; k0 < k; k0 += kChunk) {
    const int64_t count = std::min(kChunk, k - k0), padded = ceil_div(count, kStep) * kStep;
    for (int64_t j = 0; j < columns; ++j) {
      auto* const row = reinterpret_cast<BFloat16*>(room + j * kChunk / 2);
      plain.widen(*g.loops, levels, first + j, k0, k0 + count, numbers);
      g.half->narrow(count, numbers, row);
      std::fill(row + count, row + padded, BFloat16());
    }
    g.pairs->pack(padded / 2, columns, room, 1, kChunk / 2, panel + k0 / 2 * kPanel, 0);
  }
  for (int64_t group = 0; group < g.levels.groups; ++group, scales += kPanel) {
    for (int64_t j = 0; j < columns; ++j)
      scales[j] = w.scale((first + j) * g.levels.groups + group);
    std::fill(scales + columns, scales + kPanel, 0.0f);
  }
}

// Groups end where tiles do.
bool accepts(const PrepareContext& c) {
  const std::string& x = c.attrs().string("x_dtype");
  if (x == to_string(f32) || c.precision() == Precision::i8 || tile_pair_table() == nullptr ||
      x_rows(c) <= low_bits_table().few_rows)
    return false;
  return c.attrs().integer("group") % kStep == 0 || c.in(kScales).shape[1] <= 1;
}

Status prepare(PrepareContext& c) {
  const int64_t m = x_rows(c);
  HalfTiles g(quantized_linear(c));
  g.half = &half_table();
  g.pairs = &tile_pair_table()->gemm;
  g.parts = c.attrs().string("x_dtype") == to_string(bf16) ? 1 : 2;
  g.steps = ceil_div(g.levels.k, kStep);
  g.tile_m = std::clamp<int64_t>(m, 1, kTileM);
  g.lanes = tile_lanes(c, g.tiles_m() * g.panels());
  g.slot_bytes = (g.panel_floats() + g.scale_floats() + kPanel * kChunk / 2) * 4;
  // for_tiles uses the start of the workspace.
  const int64_t slots = slot_step(tile_workspace(g.lanes, g.slot_bytes));
  for (Copy& copy : g.copies)
    if (copy.at >= 0) copy.at += slots;
  g.workspace += slots;
  g.x_at = g.take(whole_tiles(m) * g.x_row());
  g.factors_at = g.take(m * 4);
  if (c.has(kOffsets)) g.sums_at = g.take(m * g.levels.groups * 4);
  c.set_workspace(g.workspace);
  c.make_state(std::move(g));
  return {};
}

void run(const RunContext& c) noexcept {
  const auto& g = c.state<HalfTiles>();
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
  const int64_t tiles_m = g.tiles_m(), group_steps = std::max<int64_t>(1, levels.group / kStep);
  for_tiles(c, tiles_m * g.panels(), g.lanes, g.slot_bytes, [&](int64_t index, float* panel) {
    const int64_t i0 = index % tiles_m * g.tile_m, j0 = index / tiles_m * kPanel;
    const int64_t rows = std::min(g.tile_m, g.m - i0), columns = std::min(kPanel, levels.n - j0);
    float* const scales = panel + g.panel_floats();
    pack_panel(g, w, j0, panel, scales, scales + g.scale_floats());
    float* const to = y + i0 * levels.n + j0;
    g.loops->tiles({.rows = rows,
                    .columns = columns,
                    .steps = g.steps,
                    .groups = levels.groups,
                    .group_steps = levels.groups <= 1 ? g.steps : group_steps,
                    .parts = g.parts,
                    .x = x + i0 * g.x_row(),
                    .x_row = g.x_row(),
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
     .name = "half_tiles",
     .accepts = accepts,
     .prepare = prepare,
     .run = run,
     .strided = kStridedWeight},
};

}  // namespace

std::span<const KernelDef> half_tiles() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
