// SPDX-License-Identifier: Apache-2.0
// f64 convolutions as matrix products: y[o, pixels] = weight[o, patch] patches[patch, pixels]. A
// tile has the output channels of a group and some pixels of an image.
#include <algorithm>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_patches.h"
#include "kernels/gemm/gemm_panels.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPixels = 128;  // of a tile
constexpr int64_t kRows = 128;

struct ConvDouble {
  ConvShape s;
  int64_t lanes = 1, slot_bytes = 0;

  int64_t tiles_m() const { return ceil_div(s.group_o(), kRows); }
  int64_t tiles_n() const { return ceil_div(s.out_size(), kPixels); }
  int64_t depth() const { return s.group_c() * s.kernel_size(); }
};

// The slot of a tile: panels of patches, a row of patches, and a piece of transposed weights.
constexpr int64_t kPanels = kDepthPiece * kPixels;
constexpr int64_t kSlot = kPanels + kPixels + kRows * kDepthPiece;

constexpr int64_t kFewChannels = 4;  // of y: plain loops then take less time

bool accepts(const PrepareContext& c) {
  return c.out(0).dtype == f64 && c.out(0).count() > 0 &&
         c.out(0).shape[1] / c.attrs().integer("groups") >= kFewChannels;
}

Status prepare(PrepareContext& c) {
  ConvDouble g{conv_shape(c.in(0), c.in(1), c.out(0), c.attrs())};
  g.lanes = tile_lanes(c, g.s.n * g.s.groups * g.tiles_m() * g.tiles_n());
  g.slot_bytes = kSlot * 8;
  c.set_workspace(tile_workspace(g.lanes, g.slot_bytes));
  c.make_state(std::move(g));
  return {};
}

// Elements [k0, k0 + piece) of the weights of some output channels of a group, as [rows, piece].
void pack_transposed(const ConvShape& s, const double* weight, int64_t o, int64_t rows, int64_t k0,
                     int64_t piece, double* to) {
  const int64_t taps = s.kernel_size();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = k0; k < k0 + piece; ++k)
      *to++ = weight[(k / taps * s.group_o() + o + r) * taps + k % taps];
}

void run(const RunContext& c) noexcept {
  const ConvDouble& g = c.state<ConvDouble>();
  const ConvShape& s = g.s;
  const PanelProducts<double>& table = double_panels();
  const double* bias = c.has(2) ? c.in(2).as<double>() : nullptr;
  const double* residual = c.has(3) ? c.in(3).as<double>() : nullptr;
  const int64_t tiles_m = g.tiles_m(), tiles_n = g.tiles_n(), depth = g.depth();
  const int64_t width = table.columns, size = s.out_size();
  const int64_t tiles = s.n * s.groups * tiles_m * tiles_n;
  for_tiles(c, tiles, g.lanes, g.slot_bytes, [&](int64_t index, float* slot) {
    auto* const panels = reinterpret_cast<double*>(slot);
    double* const row = panels + kPanels;
    double* const packed = row + kPixels;
    const int64_t image = index / (s.groups * tiles_m * tiles_n);
    const int64_t group = index / (tiles_m * tiles_n) % s.groups;
    const int64_t o = index / tiles_n % tiles_m * kRows, rows = std::min(kRows, s.group_o() - o);
    const int64_t first = index % tiles_n * kPixels;
    const Pixels pixels = {first, std::min(kPixels, size - first)};
    const double* const x =
        c.in(0).as<double>() + (image * s.c + group * s.group_c()) * s.in_size();
    const double* const weight =
        c.in(1).as<double>() + group * s.group_c() * s.group_o() * s.kernel_size();
    const int64_t channel = group * s.group_o() + o;
    const int64_t offset = (image * s.o + channel) * size + first;
    double* const y = c.out(0).as<double>() + offset;
    for (int64_t k0 = 0; k0 == 0 || k0 < depth; k0 += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, depth - k0);
      for (int64_t p = 0; p < piece; ++p) {
        patch_row(s, x, k0 + p, pixels, row);
        std::fill(row + pixels.columns, row + kPixels, 0.0);
        for (int64_t j = 0; j < pixels.columns; j += width)
          std::copy_n(row + j, width, panels + j * piece + p * width);
      }
      if (s.transposed) pack_transposed(s, weight, o, rows, k0, piece, packed);
      for (int64_t j = 0; j < pixels.columns; j += width)
        for (int64_t i = 0; i < rows; i += 4)
          table.block({.rows = std::min<int64_t>(4, rows - i),
                       .columns = std::min(width, pixels.columns - j),
                       .k = piece,
                       .a = s.transposed ? packed + i * piece : weight + (o + i) * depth + k0,
                       .a_row = s.transposed ? piece : depth,
                       .a_col = 1,
                       .panel = panels + j * piece,
                       .y = y + i * size + j,
                       .y_row = size,
                       .add = k0 > 0});
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < pixels.columns; ++j) {
        double sum = y[i * size + j];
        if (bias) sum += bias[channel + i];
        if (residual) sum += residual[offset + i * size + j];
        y[i * size + j] = activate(s.activation, sum);
      }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "gemm_double", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_double() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
