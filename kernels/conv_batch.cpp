// SPDX-License-Identifier: Apache-2.0
// Convolutions of batches of small images in f32, forward and transposed: the pixels of several
// images are the columns of one matrix product, so that vectors are full.
#include "kernels/conv_patches.h"
#include "kernels/gemm.h"

namespace hg::kernels {
namespace {

constexpr int64_t kColumns = 128;  // of a product, about

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct ConvBatch {
  ConvShape s;
  const GemmTable* table = nullptr;
  const float* packed = nullptr;  // blocks of rows, each [depth, rows]
  int64_t depth = 0, images = 1;  // k; images of a product
  int64_t blocks = 0;             // of rows
  // In the workspace: panels of the patches, packed weights of this run, results of a block.
  int64_t panel_floats = 0, pack_floats = 0, lanes = 1, slot_floats = 0;
};

// Rows of y that are shorter than two vectors waste more than gathering their patches costs.
bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.out(0).count() == 0 || c.attrs().integer("groups") != 1)
    return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  return s.n > 1 && s.out_size() < gemm_table().nr && s.o >= gemm_table().mr && s.c > 0;
}

int64_t block_of(const ConvBatch& g, int64_t index) {  // its first row
  return g.s.o * index / g.blocks;
}

// Blocks as panels of the left side: element p of row r at [p, r].
void pack_block(const ConvBatch& g, const float* weight, int64_t index, float* to) {
  const ConvShape& s = g.s;
  const int64_t first = block_of(g, index), rows = block_of(g, index + 1) - first;
  const int64_t taps = s.kernel_size();
  for (int64_t channel = 0; channel < s.c; ++channel)
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = s.transposed ? weight + (channel * s.o + first + r) * taps
                                       : weight + ((first + r) * s.c + channel) * taps;
      for (int64_t tap = 0; tap < taps; ++tap) to[(channel * taps + tap) * rows + r] = from[tap];
    }
}

Status prepare(PrepareContext& c) {
  ConvBatch g;
  g.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  g.table = &gemm_table();
  g.depth = g.s.c * g.s.kernel_size();
  g.images = std::clamp<int64_t>(kColumns / g.s.out_size(), 1, g.s.n);
  g.blocks = ceil_div(g.s.o, g.table->mr);
  const int64_t columns = ceil_div(g.images * g.s.out_size(), g.table->nr) * g.table->nr;
  if (c.is_constant(1)) {
    const float* weight = c.in(1).as<float>();
    const std::string key = text("conv.batch", g.s.transposed ? ".transposed" : "", g.table->mr);
    g.packed = static_cast<const float*>(c.pack(1, key, g.s.o * g.depth * 4, [&](void* to) {
      for (int64_t i = 0; i < g.blocks; ++i)
        pack_block(g, weight, i, static_cast<float*>(to) + block_of(g, i) * g.depth);
    }));
  }
  g.panel_floats = g.depth * columns;
  g.pack_floats = g.packed == nullptr && g.s.transposed ? g.s.o * g.depth : 0;
  g.slot_floats = (g.table->mr + 1) * columns;
  g.lanes = tile_lanes(c, g.blocks);
  c.set_workspace(tile_workspace(g.lanes, g.slot_floats * 4) +
                  (g.panel_floats + g.pack_floats) * 4);
  c.make_state(std::move(g));
  return {};
}

void run(const RunContext& c) noexcept {
  const ConvBatch& g = c.state<ConvBatch>();
  const ConvShape& s = g.s;
  const GemmTable& table = *g.table;
  const float* x = c.in(0).as<float>();
  const float* weight = c.in(1).as<float>();
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  const int64_t size = s.out_size(), nr = table.nr;
  float* panels =
      reinterpret_cast<float*>(c.workspace<char>() + tile_workspace(g.lanes, g.slot_floats * 4));
  float* own_pack = panels + g.panel_floats;
  for (int64_t image = 0; image < s.n; image += g.images) {
    const int64_t images = std::min(g.images, s.n - image), columns = images * size;
    // A row of patches is at most this long, so it fits on the stack.
    c.parallel_for(g.depth, 64, [&](int64_t begin, int64_t end) {
      float row[kColumns + 64];
      for (int64_t p = begin; p < end; ++p) {
        for (int64_t k = 0; k < images; ++k)
          patch_row(s, x + (image + k) * s.c * s.in_size(), p, {0, size}, row + k * size);
        table.spread(columns, row, panels + p * nr, g.depth * nr);
      }
    });
    for_tiles(c, g.blocks, g.lanes, g.slot_floats * 4, [&](int64_t index, float* slot) {
      const int64_t first = block_of(g, index);
      const int rows = static_cast<int>(block_of(g, index + 1) - first);
      Block block = {.rows = rows, .k = g.depth, .y_row = columns};
      if (g.packed == nullptr && !s.transposed) {
        block.a = weight + first * g.depth;
        block.a_row = g.depth;
        block.a_col = 1;
      } else {
        float* own = own_pack + first * g.depth;
        if (g.packed == nullptr && image == 0) pack_block(g, weight, index, own);
        block.a = g.packed ? g.packed + first * g.depth : own;
        block.a_row = 1;
        block.a_col = rows;
      }
      const float* panel = panels;
      for (int64_t j = 0; j < columns; j += nr, panel += g.depth * nr) {
        block.y = slot + j;
        table.block(block, static_cast<int>(std::min(nr, columns - j)), panel);
      }
      for (int64_t k = 0; k < images; ++k) {
        const int64_t at = ((image + k) * s.o + first) * size;
        for (int64_t r = 0; r < rows; ++r)
          std::copy_n(slot + r * columns + k * size, size, y + at + r * size);
        const Epilogue e = {.activation = s.activation,
                            .row_bias = bias ? bias + first : nullptr,
                            .residual = residual ? residual + at : nullptr};
        if (!e.empty()) table.finish(rows, size, e, y + at, size);
      }
    });
  }
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "batch", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_batch() { return kKernels; }

}  // namespace hg::kernels
