// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions in f32 (each channel of y sees one channel of x), 1-D and 2-D. A plane of
// x is copied once with its zeros around it, the columns of equal remainder modulo the stride side
// by side, so that the inner loop has neither borders nor strides.
#include "kernels/conv_depthwise.h"

#include <algorithm>

#include "kernels/conv_shape.h"
#include "kernels/gemm.h"

namespace hg::kernels {
namespace {

constexpr int64_t kSlack = 64;  // elements that the inner loop may read beyond the plane
constexpr int64_t kMaxTaps = 256;

struct Depthwise {
  ConvShape s;
  const DepthwiseTable* table = nullptr;
  const GemmTable* gemm = nullptr;
  int64_t height = 0;       // padded rows of x
  int64_t phase_width = 0;  // padded columns of one remainder
  int64_t offset[kMaxTaps] = {};
  int64_t lanes = 1, slot_bytes = 0;
};

bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.attrs().flag("transposed") || c.out(0).count() == 0) return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  return s.group_c() == 1 && s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 &&
         s.padding[0] == 0 && s.kernel_size() <= kMaxTaps;
}

Status prepare(PrepareContext& c) {
  Depthwise w;
  w.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = w.s;
  w.table = &depthwise_table();
  w.gemm = &gemm_table();
  w.height = (s.out[1] - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
  w.phase_width = s.out[2] + (s.kernel[2] - 1) * s.dilation[2] / s.stride[2];
  for (int64_t ky = 0; ky < s.kernel[1]; ++ky)
    for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
      const int64_t reach = kx * s.dilation[2];
      w.offset[ky * s.kernel[2] + kx] =
          (ky * s.dilation[1] * s.stride[2] + reach % s.stride[2]) * w.phase_width +
          reach / s.stride[2];
    }
  w.lanes = tile_lanes(c, s.n * s.o);
  w.slot_bytes = (w.height * s.stride[2] * w.phase_width + kSlack) * 4;
  c.set_workspace(tile_workspace(w.lanes, w.slot_bytes));
  c.make_state(w);
  return {};
}

// padded[row, remainder, column] = x[row - padding, column stride + remainder - padding], or 0.
void pad_plane(const Depthwise& w, const float* x, float* to) {
  const ConvShape& s = w.s;
  const int64_t step = s.stride[2] * w.phase_width;
  for (int64_t row = 0; row < w.height; ++row, to += step) {
    const int64_t in_y = row - s.padding[1];
    if (in_y < 0 || in_y >= s.in[1])
      w.table->clear(step, to);
    else
      w.table->pad_row(x + in_y * s.in[2], s.in[2], s.padding[2], s.stride[2], s.stride[2],
                       w.phase_width, to);
  }
  w.table->clear(kSlack, to);
}

void run(const RunContext& c) noexcept {
  const Depthwise& w = c.state<Depthwise>();
  const ConvShape& s = w.s;
  const float* x = c.in(0).as<float>();
  const float* weight = c.in(1).as<float>();
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  const int64_t size = s.out_size(), taps = s.kernel_size();
  const int64_t row_step = s.stride[1] * s.stride[2] * w.phase_width;
  for_tiles(c, s.n * s.o, w.lanes, w.slot_bytes, [&](int64_t index, float* slot) {
    const int64_t o = index % s.o, channel = index / s.o * s.c + o / s.group_o();
    pad_plane(w, x + channel * s.in_size(), slot);
    float* to = y + index * size;
    w.table->plane(s.out[1], s.out[2], taps, slot, row_step, weight + o * taps, w.offset,
                   bias ? bias[o] : 0.0f, to);
    const Epilogue e = {.activation = s.activation,
                        .residual = residual ? residual + index * size : nullptr};
    if (!e.empty()) w.gemm->finish(1, size, e, to, size);
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "depthwise", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_depthwise() { return kKernels; }

}  // namespace hg::kernels
