// SPDX-License-Identifier: Apache-2.0
// Strided transposed convolutions in f32, 1-D and 2-D, with a constant weight. First one matrix
// product of the weight in its own layout, [o kernel, c], with a few rows of x. Then for each pixel
// of y the sum of its products. Nothing is gathered before the product, and no zeros are
// multiplied.
#include <algorithm>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPixels = 256;        // of x in a task, approximately
constexpr int64_t kLeastRows = 96;      // of a product that is worth packing x for
constexpr int64_t kMostColumns = 1024;  // of x
constexpr int64_t kLeastChannels = 16;  // with fewer, the sums cost more than the product

struct Overlap {
  ConvShape s;
  const GemmTable* table = nullptr;
  const float* packed = nullptr;  // [tasks' output channels][pieces of c][blocks of rows]
  int64_t tile_y = 1, tiles_y = 1, in_rows = 1;  // rows of y in a task; rows of x that it reads
  int64_t tile_o = 1, tiles_o = 1;
  int64_t phase_width = 0;  // of a row of y: places of equal remainder modulo the stride
  int64_t panel_floats = 0, product_floats = 0;
  int64_t lanes = 1, slot_bytes = 0;

  int64_t taps() const { return s.kernel_size(); }
};

bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.out(0).count() == 0 || !c.attrs().flag("transposed") ||
      !c.is_constant(1) || c.low_memory())
    return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  return s.groups == 1 && s.c >= kLeastChannels && s.kernel[0] == 1 && s.in[0] == 1 &&
         s.out[0] == 1 && s.stride[1] * s.stride[2] > 1 && s.in_size() > 0 &&
         s.in[2] <= kMostColumns;
}

// The row of x that contributes to row `y` of y through row ky of the kernel, or -1.
int64_t met_row(const ConvShape& s, int64_t y, int64_t ky) {
  const int64_t scaled = y + s.padding[1] - ky * s.dilation[1];
  if (scaled < 0 || scaled % s.stride[1] != 0) return -1;
  return scaled / s.stride[1] < s.in[1] ? scaled / s.stride[1] : -1;
}

// The first row of x that can contribute to rows of y from `y` on.
int64_t first_met(const ConvShape& s, int64_t y) {
  const int64_t reach = (s.kernel[1] - 1) * s.dilation[1];
  return std::clamp<int64_t>(ceil_div(std::max<int64_t>(0, y + s.padding[1] - reach), s.stride[1]),
                             0, s.in[1]);
}

void pack_weight(const Overlap& w, const float* weight, float* to) {
  const ConvShape& s = w.s;
  const int64_t all = s.o * w.taps();
  for (int64_t o = 0; o < s.o; o += w.tile_o) {
    const int64_t rows = std::min(w.tile_o, s.o - o) * w.taps();
    for (int64_t k = 0; k < s.c; k += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, s.c - k);
      pack_rows(rows, piece, weight + k * all + o * w.taps(), 1, all, w.table->mr, to);
      to += rows * piece;
    }
  }
}

Status prepare(PrepareContext& c) {
  Overlap w;
  w.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = w.s;
  w.table = &gemm_table();
  const int64_t nr = w.table->nr;
  const int64_t fit = std::max<int64_t>(1, kPixels / s.in[2]);  // rows of x
  w.tiles_y = std::min(s.out[1], ceil_div(s.in[1], fit));
  w.tile_y = ceil_div(s.out[1], w.tiles_y);
  w.tiles_y = ceil_div(s.out[1], w.tile_y);
  const int64_t reach = (s.kernel[1] - 1) * s.dilation[1];
  w.in_rows = std::min(s.in[1], (w.tile_y - 1 + reach) / s.stride[1] + 1);
  const int64_t panels = ceil_div(w.in_rows * s.in[2], nr);
  w.tile_o = std::clamp<int64_t>(kSecondCacheFloats / (panels * nr * w.taps()), 1, s.o);
  // Several threads share the output channels if there are few rows.
  while (s.n * w.tiles_y * ceil_div(s.o, w.tile_o) < 8 && w.tile_o * w.taps() >= 2 * kLeastRows)
    w.tile_o = ceil_div(w.tile_o, 2);
  w.tiles_o = ceil_div(s.o, w.tile_o);
  w.tile_o = ceil_div(s.o, w.tiles_o);
  w.tiles_o = ceil_div(s.o, w.tile_o);
  w.phase_width = ceil_div(s.out[2], s.stride[2]);
  w.panel_floats = std::min(kDepthPiece, s.c) * panels * nr;
  w.product_floats = w.tile_o * w.taps() * panels * nr;
  w.packed = static_cast<const float*>(
      c.pack(1, str_cat("conv.overlap", w.table->mr, "/", w.tile_o), s.o * w.taps() * s.c * 4,
             [w, weight = c.in(1).as<float>()](void* to) {
               pack_weight(w, weight, static_cast<float*>(to));
             }));
  if (w.packed == nullptr)
    return out_of_memory(c.label(), ": no memory for ", s.o * w.taps() * s.c * 4,
                         " bytes of packed weights");
  w.lanes = tile_lanes(c, s.n * w.tiles_y * w.tiles_o);
  w.slot_bytes =
      (w.panel_floats + w.product_floats + std::min(s.stride[2], s.out[2]) * w.phase_width) * 4;
  c.set_workspace(tile_workspace(w.lanes, w.slot_bytes));
  c.make_state(w);
  return {};
}

// Row `y` of one channel of y; products: [taps, row_step] of the rows of x from `first` on.
void sum_row(const Overlap& w, const float* products, int64_t row_step, int64_t first, int64_t y,
             float* phases, float* to) {
  const ConvShape& s = w.s;
  const int64_t stride = s.stride[2], width = w.phase_width;
  float* const sums = stride == 1 ? to : phases;
  std::fill_n(sums, stride == 1 ? s.out[2] : std::min(stride, s.out[2]) * width, 0.0f);
  for (int64_t ky = 0; ky < s.kernel[1]; ++ky) {
    const int64_t in_y = met_row(s, y, ky);
    if (in_y < 0) continue;
    for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
      // Column i of x contributes to column i stride + shift of y, at position i + step of its
      // phase.
      const int64_t shift = kx * s.dilation[2] - s.padding[2];
      const int64_t phase = (shift % stride + stride) % stride, step = (shift - phase) / stride;
      if (phase >= s.out[2]) continue;
      const int64_t columns = ceil_div(s.out[2] - phase, stride);
      const int64_t begin = std::clamp<int64_t>(-step, 0, s.in[2]);
      const int64_t count = std::min(s.in[2], columns - step) - begin;
      const float* from =
          products + (ky * s.kernel[2] + kx) * row_step + (in_y - first) * s.in[2] + begin;
      float* at = sums + phase * width + begin + step;
      for (int64_t i = 0; i < count; ++i) at[i] += from[i];
    }
  }
  if (stride == 1) return;
  if (stride == 2) {
    const float *even = sums, *odd = sums + width;
    const int64_t pairs = s.out[2] / 2;
    for (int64_t i = 0; i < pairs; ++i) {
      to[2 * i] = even[i];
      to[2 * i + 1] = odd[i];
    }
    if (s.out[2] % 2 != 0) to[2 * pairs] = even[pairs];
    return;
  }
  for (int64_t phase = 0; phase < std::min(stride, s.out[2]); ++phase)
    for (int64_t i = 0, x = phase; x < s.out[2]; ++i, x += stride) to[x] = sums[phase * width + i];
}

void run(const RunContext& c) noexcept {
  const Overlap& w = c.state<Overlap>();
  const ConvShape& s = w.s;
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  const int64_t nr = w.table->nr, taps = w.taps();
  for_tiles(c, s.n * w.tiles_y * w.tiles_o, w.lanes, w.slot_bytes, [&](int64_t task, float* slot) {
    const int64_t o_begin = task % w.tiles_o * w.tile_o;
    const int64_t outs = std::min(w.tile_o, s.o - o_begin), rows = outs * taps;
    const int64_t y_begin = task / w.tiles_o % w.tiles_y * w.tile_y;
    const int64_t y_end = std::min(s.out[1], y_begin + w.tile_y);
    const int64_t image = task / (w.tiles_o * w.tiles_y);
    const int64_t first = first_met(s, y_begin);
    const int64_t end = std::clamp<int64_t>((y_end - 1 + s.padding[1]) / s.stride[1] + 1, first,
                                            std::min(s.in[1], first + w.in_rows));
    const int64_t columns = (end - first) * s.in[2], row_step = ceil_div(columns, nr) * nr;
    float* const products = slot + w.panel_floats;
    float* const phases = products + w.product_floats;
    const float* a = w.packed + o_begin * taps * s.c;
    const float* x = c.in(0).as<float>() + image * s.c * s.in_size() + first * s.in[2];
    for (int64_t k = 0; k < s.c; k += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, s.c - k);
      w.table->pack(piece, columns, x + k * s.in_size(), s.in_size(), 1, slot, piece * nr);
      w.table->sweep({.rows = rows,
                      .columns = columns,
                      .k = piece,
                      .left = rows,
                      .a = a + k * rows,
                      .is_packed = true,
                      .panels = slot,
                      .panel_step = piece * nr,
                      .y = products,
                      .y_row = row_step,
                      .add = k > 0});
    }
    for (int64_t o = o_begin; o < o_begin + outs; ++o) {
      const int64_t at = ((image * s.o + o) * s.out[1] + y_begin) * s.out[2];
      const int64_t count = (y_end - y_begin) * s.out[2];
      float* const y = c.out(0).as<float>() + at;
      for (int64_t row = y_begin; row < y_end; ++row)
        sum_row(w, products + (o - o_begin) * taps * row_step, row_step, first, row, phases,
                y + (row - y_begin) * s.out[2]);
      const Epilogue e = {.activation = s.activation,
                          .row_bias = bias ? bias + o : nullptr,
                          .residual = residual ? residual + at : nullptr};
      if (!e.empty()) w.table->finish(1, count, e, y, count);
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "overlap", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_overlap() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
