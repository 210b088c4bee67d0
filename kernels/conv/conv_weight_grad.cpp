// SPDX-License-Identifier: Apache-2.0
// The gradient of a convolution's weight in f32 as a matrix product: dw[o, c kernel] = sum over the
// images of dy[o, pixels] patches[c kernel, pixels]^T. A task handles some columns of dw and sums
// over all images in order.
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_patches.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPiece = 128;  // pixels, of several images if those are smaller
constexpr int64_t kTile = 64;    // columns of dw

struct WeightGrad {
  ConvShape s;
  const GemmTable* table = nullptr;
  int64_t depth = 0, tiles = 0;  // columns of dw, tasks of a group
  int64_t images = 1;            // of a piece
  int64_t lanes = 1, slot_bytes = 0;
};

bool accepts(const PrepareContext& c) {
  return c.out(0).dtype == f32 && c.in(0).shape[1] > c.attrs().integer("groups");
}

Status prepare(PrepareContext& c) {
  WeightGrad g;
  g.s = conv_weight_grad_shape(c.in(0), c.in(1), c.attrs());
  g.table = &gemm_table();
  g.depth = g.s.group_c() * g.s.kernel_size();
  g.tiles = ceil_div(g.depth, kTile);
  const int64_t size = std::max<int64_t>(1, g.s.out_size());
  g.images = std::clamp<int64_t>(kPiece / size, 1, std::max<int64_t>(1, g.s.n));
  g.lanes = tile_lanes(c, g.s.groups * g.tiles);
  // Patches, the same as panels, and the rows of dy of several images side by side.
  g.slot_bytes = (2 * kTile * kPiece + (g.images > 1 ? g.s.group_o() * kPiece : 0)) * 4;
  c.set_workspace(tile_workspace(g.lanes, g.slot_bytes));
  c.make_state(g);
  return {};
}

void run(const RunContext& c) noexcept {
  const WeightGrad& g = c.state<WeightGrad>();
  const ConvShape& s = g.s;
  const float* x = c.in(0).as<float>();
  const float* dy = c.in(1).as<float>();
  float* dw = c.out(0).as<float>();
  const int mr = g.table->mr, nr = g.table->nr;
  const int64_t rows = s.group_o(), size = s.out_size();
  if (s.n == 0 || size == 0) {
    std::fill(dw, dw + c.out(0).count(), 0.0f);
    return;
  }
  for_tiles(c, s.groups * g.tiles, g.lanes, g.slot_bytes, [&](int64_t index, float* slot) {
    const int64_t group = index / g.tiles, first = index % g.tiles * kTile;
    const int64_t columns = std::min(kTile, g.depth - first);
    float* patches = slot;  // [columns, kPiece]
    float* panels = slot + kTile * kPiece;
    float* beside = panels + kTile * kPiece;  // [rows, kPiece]
    bool add = false;
    for (int64_t image = 0; image < s.n; image += g.images)
      for (int64_t p0 = 0; p0 < size; p0 += kPiece, add = true) {
        const int64_t images = std::min(g.images, s.n - image);
        const int64_t each = std::min(kPiece, size - p0), piece = images * each;
        for (int64_t j = 0; j < columns; ++j)
          patch_row(s, x + (image * s.c + group * s.group_c()) * s.in_size(), first + j, {p0, each},
                    patches + j * kPiece, images);
        g.table->pack(piece, columns, patches, 1, kPiece, panels, piece * nr);
        const float* from = dy + (image * s.o + group * rows) * size + p0;
        int64_t row_step = size;
        if (images > 1) {
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t k = 0; k < images; ++k)
              std::copy_n(from + (k * s.o + i) * size, each, beside + i * kPiece + k * each);
          from = beside;
          row_step = kPiece;
        }
        const float* panel = panels;
        for (int64_t j = 0; j < columns; j += nr, panel += piece * nr) {
          const int width = static_cast<int>(std::min<int64_t>(nr, columns - j));
          int count;
          for (int64_t i = 0; i < rows; i += count) {
            count = block_rows(rows - i, mr);
            g.table->block({.rows = count,
                            .k = piece,
                            .a = from + i * row_step,
                            .a_row = row_step,
                            .a_col = 1,
                            .y = dw + (group * rows + i) * g.depth + first + j,
                            .y_row = g.depth,
                            .add = add},
                           width, panel);
          }
        }
      }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv_weight_grad", .name = "gemm", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_weight_grad() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
