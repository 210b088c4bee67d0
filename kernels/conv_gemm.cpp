// SPDX-License-Identifier: Apache-2.0
// Convolutions in f32 as matrix products: y[o, pixels] = weight[o, c kernel] patches[c kernel,
// pixels]. The patches exist only as panels of one tile of pixels and one piece of c kernel; 1x1
// kernels read x itself.
#include <algorithm>

#include "kernels/conv_shape.h"
#include "kernels/gemm.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPiece = 256;    // of c kernel
constexpr int64_t kMaxTile = 256;  // pixels of a tile

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct ConvGemm {
  ConvShape s;
  const GemmTable* table = nullptr;
  const float* packed = nullptr;  // [groups][pieces of k][blocks of rows][piece][rows]
  bool plain = false;             // the patches are x
  int64_t depth = 0;              // k: group_c kernel_size
  int64_t tile = 0, tiles = 0;    // pixels of a tile, tiles of an image's group
  int64_t lanes = 1, slot_bytes = 0;
};

bool accepts(const PrepareContext& c) {
  return c.out(0).dtype == f32 && !c.attrs().flag("transposed");
}

Status prepare(PrepareContext& c) {
  ConvGemm g;
  g.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = g.s;
  g.table = &gemm_table();
  g.depth = s.group_c() * s.kernel_size();
  g.plain = s.kernel_size() == 1 && s.in == s.out && s.padding == ConvShape::Spatial{0, 0, 0};
  const int64_t rows = s.group_o(), nr = g.table->nr, depth = g.depth;
  // Tiles of about kMaxTile pixels; more and narrower ones while an image is all there is.
  const int64_t panels = std::max<int64_t>(1, ceil_div(s.out_size(), nr));
  int64_t tiles = ceil_div(panels * nr, kMaxTile);
  const int64_t others = std::max<int64_t>(1, s.n * s.groups);
  while (tiles * others < 16 && tiles < panels && panels / tiles * nr * depth * rows > 800000)
    ++tiles;
  g.tile = ceil_div(panels, tiles) * nr;
  g.tiles = ceil_div(panels * nr, g.tile);
  if (c.is_constant(1) && rows > 0 && depth > 0) {
    const float* weight = c.in(1).as<float>();
    const int mr = g.table->mr;
    g.packed = static_cast<const float*>(
        c.pack(1, mr == 12 ? "conv.a12" : "conv.a6", s.o * depth * 4, [&](void* to) {
          for (int64_t group = 0; group < s.groups; ++group)
            for (int64_t k0 = 0; k0 < depth; k0 += kPiece)
              pack_rows(rows, std::min(kPiece, depth - k0), weight + group * rows * depth + k0,
                        depth, 1, mr, static_cast<float*>(to) + (group * depth + k0) * rows);
        }));
  }
  g.lanes = tile_lanes(c, others * g.tiles);
  // Panels of a piece, and one row of patches.
  g.slot_bytes = (g.tile * std::min(kPiece, depth) + g.tile) * 4;
  c.set_workspace(tile_workspace(g.lanes, g.slot_bytes));
  c.make_state(std::move(g));
  return {};
}

// The output pixels [first, first + columns) of an image, row by row.
struct Pixels {
  int64_t first, columns;
};

// One row of patches: what the kernel element (kz, ky, kx) of a channel meets at each pixel.
void patch_row(const ConvShape& s, const float* plane, int64_t kz, int64_t ky, int64_t kx,
               const Pixels& pixels, float* to) {
  const int64_t width = s.out[2], stride = s.stride[2];
  const int64_t shift = kx * s.dilation[2] - s.padding[2];
  // Output columns whose input column exists.
  const int64_t low = shift >= 0 ? 0 : std::min(width, ceil_div(-shift, stride));
  const int64_t room = s.in[2] - shift;
  const int64_t high = room <= 0 ? 0 : std::min(width, ceil_div(room, stride));
  int64_t at = pixels.first;
  const int64_t end = pixels.first + pixels.columns;
  while (at < end) {
    const int64_t row = at / width, x0 = at % width;
    const int64_t x1 = std::min(width, x0 + end - at);
    const int64_t in_z = row / s.out[1] * s.stride[0] - s.padding[0] + kz * s.dilation[0];
    const int64_t in_y = row % s.out[1] * s.stride[1] - s.padding[1] + ky * s.dilation[1];
    if (in_z < 0 || in_z >= s.in[0] || in_y < 0 || in_y >= s.in[1]) {
      std::fill(to, to + (x1 - x0), 0.0f);
    } else {
      const float* from = plane + (in_z * s.in[1] + in_y) * s.in[2];
      const int64_t a = std::clamp(low, x0, x1), b = std::clamp(high, a, x1);
      std::fill(to, to + (a - x0), 0.0f);
      if (stride == 1)
        std::copy(from + a + shift, from + b + shift, to + (a - x0));
      else
        for (int64_t x = a; x < b; ++x) to[x - x0] = from[x * stride + shift];
      std::fill(to + (b - x0), to + (x1 - x0), 0.0f);
    }
    to += x1 - x0;
    at += x1 - x0;
  }
}

// Panels of the patches [k0, k0 + piece) of a group.
void pack_patches(const ConvGemm& g, const float* x, int64_t k0, int64_t piece,
                  const Pixels& pixels, float* panels, float* row) {
  const ConvShape& s = g.s;
  if (g.plain) {
    g.table->pack(piece, pixels.columns, x + k0 * s.in_size() + pixels.first, s.in_size(), 1,
                  panels, piece * g.table->nr);
    return;
  }
  int64_t kx = k0 % s.kernel[2], ky = k0 / s.kernel[2] % s.kernel[1];
  int64_t kz = k0 / (s.kernel[1] * s.kernel[2]) % s.kernel[0], channel = k0 / s.kernel_size();
  for (int64_t p = 0; p < piece; ++p) {
    patch_row(s, x + channel * s.in_size(), kz, ky, kx, pixels, row);
    g.table->spread(pixels.columns, row, panels + p * g.table->nr, piece * g.table->nr);
    if (++kx < s.kernel[2]) continue;
    kx = 0;
    if (++ky < s.kernel[1]) continue;
    ky = 0;
    if (++kz < s.kernel[0]) continue;
    kz = 0;
    ++channel;
  }
}

void run(const RunContext& c) noexcept {
  const ConvGemm& g = c.state<ConvGemm>();
  const ConvShape& s = g.s;
  const float* x = c.in(0).as<float>();
  const float* weight = c.in(1).as<float>();
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  const int mr = g.table->mr, nr = g.table->nr;
  const int64_t rows = s.group_o(), size = s.out_size(), depth = g.depth;
  if (size == 0 || rows == 0) return;
  for_tiles(c, s.n * s.groups * g.tiles, g.lanes, g.slot_bytes, [&](int64_t index, float* slot) {
    const int64_t image = index / (s.groups * g.tiles), group = index / g.tiles % s.groups;
    const int64_t first = index % g.tiles * g.tile;
    const Pixels pixels = {first, std::min(g.tile, size - first)};
    const int64_t offset = (image * s.o + group * rows) * size + first;
    const float* tile_x = x + (image * s.c + group * s.group_c()) * s.in_size();
    for (int64_t k0 = 0; k0 == 0 || k0 < depth; k0 += kPiece) {
      const int64_t piece = std::min(kPiece, depth - k0);
      const bool last = k0 + kPiece >= depth;
      pack_patches(g, tile_x, k0, piece, pixels, slot, slot + g.tile * std::min(kPiece, depth));
      const float* panel = slot;
      for (int64_t j = 0; j < pixels.columns; j += nr, panel += piece * nr) {
        const int columns = static_cast<int>(std::min<int64_t>(nr, pixels.columns - j));
        const float* packed = g.packed ? g.packed + (group * depth + k0) * rows : nullptr;
        int count;
        for (int64_t i = 0; i < rows; i += count) {
          count = block_rows(rows - i, mr);
          float* to = y + offset + i * size + j;
          if (packed)
            g.table->block(count, columns, piece, packed + i * piece, 1, count, panel, to, size,
                           k0 > 0);
          else
            g.table->block(count, columns, piece, weight + (group * rows + i) * depth + k0, depth,
                           1, panel, to, size, k0 > 0);
          if (!last) continue;
          const Epilogue e = {.activation = s.activation,
                              .row_bias = bias ? bias + group * rows + i : nullptr,
                              .residual = residual ? residual + offset + i * size + j : nullptr};
          if (!e.empty()) g.table->finish(count, columns, e, to, size);
        }
      }
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "gemm", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_gemm() { return kKernels; }

}  // namespace hg::kernels
