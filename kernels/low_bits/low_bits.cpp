// SPDX-License-Identifier: Apache-2.0
// quantized_linear: multiplies a few rows of x by levels in registers. For more rows, a tile of the
// weight is widened to f32 panels, which stay in the cache. Rounded products (Precision::i8) are in
// rounded.h, except those of many rows on processors where floats are as fast: these are computed
// here, with rounded x. quantized_embedding widens rows.
#include <algorithm>
#include <utility>

#include "kernels/blocking.h"
#include "kernels/element.h"
#include "kernels/low_bits/quantized_linear.h"
#include "kernels/low_bits/rounded.h"
#include "kernels/saves_code.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kTileM = 240, kTileN = 128;
// Rows between the one that is widened and the one that is prefetched. Each is a few lines of
// another page. A prompt of 16 tokens with 0.5B weights of 8 bits: 0.39 s, without it 0.53.
constexpr int64_t kRowsAhead = 8;

// -- Levels in registers --------------------------------------------------------------------------

bool takes_rows(const PrepareContext& c) {
  return c.precision() != Precision::i8 && x_rows(c) <= low_bits_table().few_rows && has_sizes(c) &&
         !takes_level_tiles(c);
}

Status prepare_rows(PrepareContext& c) {
  ExactRows g(c, quantized_linear(c));
  c.set_workspace(g.workspace);
  c.make_state(std::move(g));
  return {};
}

void run_rows(const RunContext& c) noexcept {
  const auto& g = c.state<ExactRows>();
  if (c.out(0).count() == 0) return;
  const LevelRows w = level_rows(c, g);
  const LowBitsProduct product = exact_product(c, g, w, c.in(kX).as<float>(), c.out(0).as<float>());
  multiply_rows(c, g, product,
                [&](int64_t first, int64_t last) { finish_block(c, g, w, 0, g.m, first, last); });
}

// -- Widened tiles --------------------------------------------------------------------------------

struct Tiles : QuantizedLinear {
  explicit Tiles(QuantizedLinear shared) : QuantizedLinear(std::move(shared)) {}

  int64_t tile_m = 1, lanes = 1;
  int64_t numbers_at = -1, rounded_at = 0;  // of rounded x, in the workspace; -1: x is not rounded

  int64_t tiles_m() const { return ceil_div(m, tile_m); }
  int64_t tiles_n() const { return ceil_div(levels.n, kTileN); }
};

// Parts of a slot.
struct Slot {
  float *panels, *rows;
  explicit Slot(float* at) : panels(at), rows(panels + kTileN * kDepthPiece) {}
  static constexpr int64_t kBytes = 2 * kTileN * kDepthPiece * 4;
};

Status prepare_tiles(PrepareContext& c) {
  const int64_t m = x_rows(c), tile_m = std::clamp<int64_t>(m, 1, kTileM);
  const int64_t tiles = ceil_div(m, tile_m) * ceil_div(c.in(kScales).shape[0], kTileN);
  const int64_t lanes = tile_lanes(c, tiles);
  // for_tiles uses the start of the workspace.
  Tiles g(quantized_linear(c, slot_step(tile_workspace(lanes, Slot::kBytes))));
  g.tile_m = tile_m;
  g.lanes = lanes;
  if (c.precision() == Precision::i8) {
    g.numbers_at = g.take(g.m * g.levels.k * 4);
    g.rounded_at = g.take(g.m * rounded_bytes(g.levels.k));
  }
  c.set_workspace(g.workspace);
  c.make_state(std::move(g));
  return {};
}

// The numbers that rounded x represents.
const float* rounded_x(const RunContext& c, const Tiles& g) {
  const int64_t k = g.levels.k;
  auto* const numbers = reinterpret_cast<float*>(c.workspace<char>() + g.numbers_at);
  for_rows_of_x(c, g, [&](int64_t i) {
    const RoundedRow row = rounded_row(c, k, i, c.workspace<char>() + g.rounded_at);
    for (int64_t j = 0; j < k; ++j) numbers[i * k + j] = row.number(j);
  });
  return numbers;
}

void run_tiles(const RunContext& c) noexcept {
  const auto& g = c.state<Tiles>();
  const Levels& levels = g.levels;
  if (c.out(0).count() == 0) return;
  const float* const x = g.numbers_at >= 0 ? rounded_x(c, g) : c.in(kX).as<float>();
  float* const y = c.out(0).as<float>();
  const LevelRows w = level_rows(c, g);
  const int64_t nr = g.table->nr, tiles_m = g.tiles_m(), k = levels.k;
  for_tiles(c, tiles_m * g.tiles_n(), g.lanes, Slot::kBytes, [&](int64_t index, float* memory) {
    const Slot slot(memory);
    const int64_t i0 = index % tiles_m * g.tile_m, j0 = index / tiles_m * kTileN;
    const int64_t rows = std::min(g.tile_m, g.m - i0), columns = std::min(kTileN, levels.n - j0);
    const Epilogue e = epilogue_at(c, g, i0, j0);
    for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, k - k0);
      for (int64_t j = 0; j < columns; ++j) {
        if (!kSavesCode && j0 + j + kRowsAhead < levels.n)
          levels.expect(w, j0 + j + kRowsAhead, k0, k0 + piece);
        levels.widen(*g.loops, w, j0 + j, k0, k0 + piece, slot.rows + j * piece);
      }
      g.table->pack(piece, columns, slot.rows, 1, piece, slot.panels, piece * nr);
      g.table->sweep({.rows = rows,
                      .columns = columns,
                      .k = piece,
                      .left = rows,
                      .a = x + i0 * k + k0,
                      .a_row = k,
                      .a_col = 1,
                      .panels = slot.panels,
                      .panel_step = piece * nr,
                      .y = y + i0 * levels.n + j0,
                      .y_row = levels.n,
                      .add = k0 > 0,
                      .epilogue = k0 + kDepthPiece >= k && !e.empty() ? &e : nullptr});
    }
  });
}

// -- Widened tiles of the weight as it is ---------------------------------------------------------

struct MatmulTiles : QuantizedLinear {
  explicit MatmulTiles(QuantizedLinear shared) : QuantizedLinear(std::move(shared)) {}

  int64_t tile_m = 1, lanes = 1;

  int64_t tiles_m() const { return ceil_div(m, tile_m); }
  int64_t tiles_k() const { return ceil_div(levels.k, kTileN); }
};

Status prepare_matmul(PrepareContext& c) {
  const int64_t m = x_rows(c), tile_m = std::clamp<int64_t>(m, 1, kTileM);
  const int64_t tiles = ceil_div(m, tile_m) * ceil_div(c.attrs().integer("width"), kTileN);
  const int64_t lanes = tile_lanes(c, tiles);
  MatmulTiles g(quantized_matmul(c, slot_step(tile_workspace(lanes, Slot::kBytes))));
  g.tile_m = tile_m;
  g.lanes = lanes;
  c.set_workspace(g.workspace);
  c.make_state(std::move(g));
  return {};
}

void run_matmul(const RunContext& c) noexcept {
  const auto& g = c.state<MatmulTiles>();
  const Levels& levels = g.levels;
  if (c.out(0).count() == 0) return;
  const float* const x = c.in(kX).as<float>();
  float* const y = c.out(0).as<float>();
  const LevelRows w = level_rows(c, g);
  const int64_t nr = g.table->nr, tiles_m = g.tiles_m(), n = levels.n, k = levels.k;
  for_tiles(c, tiles_m * g.tiles_k(), g.lanes, Slot::kBytes, [&](int64_t index, float* memory) {
    const Slot slot(memory);
    const int64_t i0 = index % tiles_m * g.tile_m, j0 = index / tiles_m * kTileN;
    const int64_t rows = std::min(g.tile_m, g.m - i0), columns = std::min(kTileN, k - j0);
    for (int64_t n0 = 0; n0 == 0 || n0 < n; n0 += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, n - n0);
      for (int64_t r = 0; r < piece; ++r)
        levels.widen(*g.loops, w, n0 + r, j0, j0 + columns, slot.rows + r * columns);
      g.table->pack(piece, columns, slot.rows, columns, 1, slot.panels, piece * nr);
      g.table->sweep({.rows = rows,
                      .columns = columns,
                      .k = piece,
                      .left = rows,
                      .a = x + i0 * n + n0,
                      .a_row = n,
                      .a_col = 1,
                      .panels = slot.panels,
                      .panel_step = piece * nr,
                      .y = y + i0 * k + j0,
                      .y_row = k,
                      .add = n0 > 0});
    }
  });
}

// -- Widened rows ---------------------------------------------------------------------------------

enum : int { kTableLevels, kTableScales, kIndices, kTableOffsets };

Status prepare_embedding(PrepareContext& c) {
  const Tensor &levels = c.in(kTableLevels), &scales = c.in(kTableScales);
  c.make_state(Levels{.packing = *parse_packing(c.attrs().string("packing")),
                      .n = scales.shape[0],
                      .k = c.attrs().integer("width"),
                      .group = c.attrs().integer("group"),
                      .groups = scales.shape[1],
                      .byte_rows = levels.shape[0],
                      .row_bytes = levels.shape[1]});
  return {};
}

void run_embedding(const RunContext& c) noexcept {
  const auto& levels = c.state<Levels>();
  LevelRows w;
  w.levels = c.in(kTableLevels).as<const int8_t>();
  set_scales(w, c.in(kTableScales).dtype, c.in(kTableScales).data);
  if (c.has(kTableOffsets)) w.offsets = c.in(kTableOffsets).as<const float>();
  w.row_bytes = levels.row_bytes;
  w.groups = levels.groups;
  w.n = levels.n;
  const int64_t* const indices = c.in(kIndices).as<const int64_t>();
  const int64_t count = c.in(kIndices).count();
  for (int64_t i = 0; i < count; ++i)
    if (indices[i] < 0 || indices[i] >= levels.n) return c.fail("an index is out of range");
  const LowBitsTable& table = low_bits_table();
  float* const y = c.out(0).as<float>();
  c.parallel_for(count, grain_of(levels.k), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      levels.widen(table, w, indices[i], 0, levels.k, y + i * levels.k);
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "quantized_linear",
     .name = "rounded_gemv",
     .accepts = takes_rounded_rows,
     .prepare = prepare_rounded_rows,
     .run = run_rounded_rows,
     .strided = kStridedWeight},
    {.op = "quantized_linear",
     .name = "rounded_gemm",
     .accepts = takes_rounded_tiles,
     .prepare = prepare_rounded_tiles,
     .run = run_rounded_tiles,
     .strided = kStridedWeight},
    {.op = "quantized_linear",
     .name = "gemv",
     .accepts = takes_rows,
     .prepare = prepare_rows,
     .run = run_rows,
     .strided = kStridedWeight},
    {.op = "quantized_linear",
     .name = "gemm",
     .prepare = prepare_tiles,
     .run = run_tiles,
     .strided = kStridedWeight},
    {.op = "quantized_matmul",
     .name = "gemm",
     .prepare = prepare_matmul,
     .run = run_matmul,
     .strided = kStridedWeight},
    {.op = "quantized_embedding",
     .name = "rows",
     .prepare = prepare_embedding,
     .run = run_embedding},
};

}  // namespace

std::span<const KernelDef> low_bits() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
