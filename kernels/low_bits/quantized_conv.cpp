// SPDX-License-Identifier: Apache-2.0
// Convolutions with kernels of one pixel and weights of 8 or 4 bits: y[n, pixels] = weight[n, k]
// x[k, pixels] for each image. Rows of the weight are widened to f32 for a tile of pixels.
#include <algorithm>
#include <utility>

#include "kernels/blocking.h"
#include "kernels/low_bits/quantized_linear.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kTilePixels = 256, kTileRows = 96;
constexpr int64_t kLeastRows = 48;  // output channels that are worth sharing

struct Pixels : QuantizedLinear {
  explicit Pixels(QuantizedLinear shared) : QuantizedLinear(std::move(shared)) {}

  int64_t images = 0, pixels = 0, tiles = 0;  // tiles of an image
  int64_t parts = 1;                          // of the output channels
  int64_t lanes = 1;
};

// Parts of a slot.
struct Slot {
  float *panels, *rows;
  explicit Slot(float* at) : panels(at), rows(panels + kTilePixels * kDepthPiece) {}
  static constexpr int64_t kBytes = (kTilePixels + kTileRows) * kDepthPiece * 4;
};
static_assert(kTilePixels % 64 == 0, "panels of a tile have no more columns than the tile");

Status prepare(PrepareContext& c) {
  const Tensor& y = c.out(0);
  const int64_t images = y.shape[0], n = y.shape[1];
  const int64_t pixels = y.count() == 0 ? 0 : y.count() / images / n;
  const int64_t tiles = images * ceil_div(pixels, kTilePixels);
  // A few more tasks than threads let lanes help each other.
  const int64_t wanted = c.threads() > 1 ? 4 * c.threads() : 1;
  const int64_t parts = std::clamp<int64_t>(ceil_div(wanted, std::max<int64_t>(1, tiles)), 1,
                                            std::max<int64_t>(1, n / kLeastRows));
  const int64_t lanes = tile_lanes(c, tiles * parts);
  // for_tiles uses the start of the workspace.
  Pixels g(quantized_conv_product(c, slot_step(tile_workspace(lanes, Slot::kBytes))));
  g.images = images;
  g.pixels = pixels;
  g.tiles = ceil_div(pixels, kTilePixels);
  g.parts = parts;
  g.lanes = lanes;
  c.set_workspace(g.workspace);
  c.make_state(std::move(g));
  return {};
}

void run(const RunContext& c) noexcept {
  const auto& g = c.state<Pixels>();
  const Levels& levels = g.levels;
  if (c.out(0).count() == 0) return;
  const float* const bias = c.has(kBias) ? c.in(kBias).as<float>() : nullptr;
  const float* const residual = c.has(kResidual) ? c.in(kResidual).as<float>() : nullptr;
  const LevelRows w = level_rows(c, g);
  const int64_t nr = g.table->nr, k = levels.k, n = levels.n;
  const int64_t tasks = g.images * g.tiles * g.parts;
  for_tiles(c, tasks, g.lanes, Slot::kBytes, [&](int64_t index, float* memory) {
    const Slot slot(memory);
    const int64_t part = index % g.parts, tile = index / g.parts % g.tiles;
    const int64_t image = index / g.parts / g.tiles, first = tile * kTilePixels;
    const int64_t columns = std::min(kTilePixels, g.pixels - first);
    const int64_t end = part_begin(n, g.parts, part + 1);
    const float* const x = c.in(kX).as<float>() + image * k * g.pixels + first;
    float* const y = c.out(0).as<float>() + image * n * g.pixels + first;
    for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, k - k0);
      g.table->pack(piece, columns, x + k0 * g.pixels, g.pixels, 1, slot.panels, piece * nr);
      for (int64_t row = part_begin(n, g.parts, part); row < end; row += kTileRows) {
        const int64_t rows = std::min(kTileRows, end - row), at = row * g.pixels;
        for (int64_t r = 0; r < rows; ++r)
          levels.widen(*g.loops, w, row + r, k0, k0 + piece, slot.rows + r * piece);
        Epilogue e;
        e.activation = g.activation;
        if (bias != nullptr) e.row_bias = bias + row;
        if (residual != nullptr) e.residual = residual + (y - c.out(0).as<float>()) + at;
        g.table->sweep({.rows = rows,
                        .columns = columns,
                        .k = piece,
                        .left = rows,
                        .a = slot.rows,
                        .a_row = piece,
                        .a_col = 1,
                        .panels = slot.panels,
                        .panel_step = piece * nr,
                        .y = y + at,
                        .y_row = g.pixels,
                        .add = k0 > 0,
                        .epilogue = k0 + kDepthPiece >= k && !e.empty() ? &e : nullptr});
      }
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "quantized_conv",
     .name = "gemm",
     .prepare = prepare,
     .run = run,
     .strided = kStridedWeight},
};

}  // namespace

std::span<const KernelDef> quantized_conv() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
