// SPDX-License-Identifier: Apache-2.0
// The gradient of a depthwise convolution's weight in f32, 1-D or 2-D. A task handles one channel
// of dy and sums over all images, in order; x is copied as in kernels/conv/conv_depthwise.cpp.
#include "kernels/conv/conv_weight_depthwise.h"

#include <algorithm>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/conv/padded_rows.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kSlack = 64;       // elements that the inner loop may read beyond the rows
constexpr int64_t kMaxKernel = 256;  // columns

struct WeightDepthwise {
  ConvShape s;
  const PaddedRowsTable* rows = nullptr;
  DepthwiseGradLoop grad = nullptr;
  int64_t phase_width = 0, row_step = 0;  // padded columns of one remainder, and of all
  int64_t tile_y = 1;                     // rows of dy whose x is copied at once
  int64_t offset[kMaxKernel] = {};
  int64_t copy_floats = 0, lanes = 1, slot_bytes = 0;
};

bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.out(0).count() == 0 || c.in(1).count() == 0) return false;
  const ConvShape s = conv_weight_grad_shape(c.in(0), c.in(1), c.attrs());
  return s.group_c() == 1 && s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 &&
         s.padding[0] == 0 && s.kernel[2] <= kMaxKernel;
}

Status prepare(PrepareContext& c) {
  WeightDepthwise w;
  w.s = conv_weight_grad_shape(c.in(0), c.in(1), c.attrs());
  const ConvShape& s = w.s;
  w.rows = &padded_rows_table();
  w.grad = depthwise_grad_loop();
  const int64_t reach_y = (s.kernel[1] - 1) * s.dilation[1];
  const int64_t reach_x = (s.kernel[2] - 1) * s.dilation[2];
  w.phase_width = s.out[2] + reach_x / s.stride[2];
  w.row_step = std::min(s.stride[2], reach_x + 1) * w.phase_width;
  for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
    const int64_t reach = kx * s.dilation[2];
    w.offset[kx] = reach % s.stride[2] * w.phase_width + reach / s.stride[2];
  }
  const int64_t fit =
      std::max<int64_t>(1, (kSharedFirstCacheFloats / w.row_step - reach_y) / s.stride[1]);
  w.tile_y = ceil_div(s.out[1], ceil_div(s.out[1], fit));
  const int64_t rows = (w.tile_y - 1) * s.stride[1] + reach_y + 1;
  w.copy_floats = (rows * w.row_step + kSlack + 15) / 16 * 16;
  w.lanes = tile_lanes(c, s.o);
  w.slot_bytes = w.copy_floats * 4 + s.kernel_size() * 8;
  c.set_workspace(tile_workspace(w.lanes, w.slot_bytes));
  c.make_state(w);
  return {};
}

void run(const RunContext& c) noexcept {
  const WeightDepthwise& w = c.state<WeightDepthwise>();
  const ConvShape& s = w.s;
  const float* x = c.in(0).as<float>();
  const float* dy = c.in(1).as<float>();
  float* dw = c.out(0).as<float>();
  for_tiles(c, s.o, w.lanes, w.slot_bytes, [&](int64_t o, float* slot) {
    double* sums = reinterpret_cast<double*>(slot + w.copy_floats);
    std::fill_n(sums, s.kernel_size(), 0.0);
    w.rows->clear(w.copy_floats, slot);
    for (int64_t image = 0; image < s.n; ++image) {
      const float* plane = x + (image * s.c + o / s.group_o()) * s.in_size();
      for (int64_t first = 0; first < s.out[1]; first += w.tile_y) {
        const int64_t rows = std::min(w.tile_y, s.out[1] - first);
        const int64_t met = (rows - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
        for (int64_t row = 0; row < met; ++row) {
          const int64_t in_y = first * s.stride[1] - s.padding[1] + row;
          float* to = slot + row * w.row_step;
          if (in_y < 0 || in_y >= s.in[1])
            w.rows->clear(w.row_step, to);
          else
            w.rows->pad_row(plane + in_y * s.in[2], s.in[2], s.padding[2], s.stride[2],
                            w.row_step / w.phase_width, w.phase_width, to);
        }
        w.grad({.rows = rows,
                .columns = s.out[2],
                .kernel_y = s.kernel[1],
                .kernel_x = s.kernel[2],
                .row_stride = s.stride[1],
                .row_dilation = s.dilation[1],
                .x = slot,
                .x_row = w.row_step,
                .offset = w.offset,
                .dy = dy + ((image * s.o + o) * s.out[1] + first) * s.out[2],
                .sums = sums});
      }
    }
    for (int64_t k = 0; k < s.kernel_size(); ++k)
      dw[o * s.kernel_size() + k] = static_cast<float>(sums[k]);
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv_weight_grad",
     .name = "depthwise",
     .accepts = accepts,
     .prepare = prepare,
     .run = run},
};

}  // namespace

std::span<const KernelDef> conv_weight_depthwise() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
