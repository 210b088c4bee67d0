// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of f32 or halves (each channel of y reads one channel of x), 1-D and 2-D.
// A few rows of a plane of x at a time are copied with zero padding. Columns with equal remainder
// modulo the stride become adjacent, so the inner loop has neither borders nor strides. The padding
// is the same for all channels and is written once for a tile of several channels. Transposed
// convolutions run as convolutions with stride 1 of x with zeros between its elements, and with the
// flipped weight.
#include "kernels/conv/conv_depthwise.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/conv/half_numbers.h"
#include "kernels/conv/padded_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kSlack = 64;       // elements that the inner loop may read beyond the rows
constexpr int64_t kMaxKernel = 256;  // columns
// With fewer elements, the loop would read data that is still on its way to the cache. The next
// channel is then copied before this one is summed.
constexpr int64_t kSmallCopy = 1024;
constexpr int64_t kTile = 32768;  // elements of y in a tile, approximately
// Outputs per channel of x. More run as a product, which reads the patches once for several
// outputs.
constexpr int64_t kMostOutputs = 8;

struct Depthwise {
  ConvShape s;                                           // of the convolution that is computed
  ConvShape::Spatial x = {1, 1, 1}, x_step = {1, 1, 1};  // size of a plane, distance of elements
  const PaddedRowsTable* rows = nullptr;
  DepthwiseLoop plane = nullptr;
  const GemmTable* gemm = nullptr;
  int64_t phase_width = 0, row_step = 0;  // padded columns of one remainder, and of all
  int64_t tile_y = 1, tiles_y = 1, tile_o = 1, tiles_o = 1;
  bool steps_by_two = false;  // columns stay in order, and are read in pairs
  int64_t in_rows = 0;        // padded rows of x that a tile reads
  int64_t offset[kMaxKernel] = {};
  int64_t copy_floats = 0, copies = 1;
  HalfNumbers images;              // of x and y
  const float* widened = nullptr;  // the weights of halves
  // Of halves, in a slot, in floats: the rows of x, the residual and the sums of a channel.
  int64_t wide_at = 0, residual_at = 0, sums_at = 0;
  int64_t lanes = 1, slot_bytes = 0;
};

bool accepts(const PrepareContext& c) {
  if (!is_f32_or_packed_half(c) || c.out(0).count() == 0) return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  for (const size_t d : {1, 2})
    if (s.transposed &&
        (s.group_o() != 1 || s.in[d] == 0 || s.padding[d] > (s.kernel[d] - 1) * s.dilation[d]))
      return false;
  return s.group_c() == 1 && s.group_o() <= kMostOutputs && s.kernel[0] == 1 && s.in[0] == 1 &&
         s.out[0] == 1 && s.padding[0] == 0 && s.kernel[2] <= kMaxKernel;
}

Status prepare(PrepareContext& c) {
  Depthwise w;
  w.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = w.s;
  w.rows = &padded_rows_table();
  w.plane = depthwise_loop();
  w.gemm = &gemm_table();
  const int64_t reach_y = (s.kernel[1] - 1) * s.dilation[1];
  const int64_t reach_x = (s.kernel[2] - 1) * s.dilation[2];
  w.x = s.in;
  if (s.transposed) {
    w.x_step = std::exchange(w.s.stride, {1, 1, 1});
    for (const size_t d : {1, 2}) w.s.in[d] = (w.x[d] - 1) * w.x_step[d] + 1;
    w.s.padding[1] = reach_y - s.padding[1];
    w.s.padding[2] = reach_x - s.padding[2];
  }
  w.phase_width = s.out[2] + reach_x / s.stride[2];
  w.row_step = std::min(s.stride[2], reach_x + 1) * w.phase_width;
  for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
    const int64_t reach = kx * s.dilation[2];
    w.offset[kx] = reach % s.stride[2] * w.phase_width + reach / s.stride[2];
  }
  using Spatial = ConvShape::Spatial;
  w.steps_by_two = s.stride == Spatial{1, 2, 2} && s.dilation == Spatial{1, 1, 1} &&
                   s.kernel[1] == s.kernel[2] && (s.kernel[1] == 3 || s.kernel[1] == 5);
  if (w.steps_by_two) {
    w.phase_width = w.row_step = 2 * (s.out[2] - 1) + s.kernel[2];
    std::iota(w.offset, w.offset + s.kernel[2], 0);
  }
  // Multiples of 4 rows, which the inner loop computes together.
  const int64_t fit =
      std::max<int64_t>(4, (kSharedFirstCacheFloats / w.row_step - reach_y) / s.stride[1]);
  w.tiles_y = ceil_div(s.out[1], fit);
  w.tile_y = std::min(s.out[1], ceil_div(ceil_div(s.out[1], w.tiles_y), 4) * 4);
  w.tiles_y = ceil_div(s.out[1], w.tile_y);
  w.in_rows = (w.tile_y - 1) * s.stride[1] + reach_y + 1;
  const int64_t most = std::max<int64_t>(1, kTile / (w.tile_y * s.out[2]));
  w.tiles_o = std::max(ceil_div(s.o, most), std::min<int64_t>(s.o, ceil_div(8, s.n * w.tiles_y)));
  w.tile_o = ceil_div(s.o, w.tiles_o);
  w.tiles_o = ceil_div(s.o, w.tile_o);
  w.lanes = tile_lanes(c, s.n * w.tiles_o * w.tiles_y);
  w.copy_floats = (w.in_rows * w.row_step + kSlack + 15) / 16 * 16;
  w.copies = w.copy_floats <= kSmallCopy ? 2 : 1;
  w.slot_bytes = (w.copies * w.copy_floats + (s.transposed ? s.kernel_size() : 0)) * 4;
  w.images = HalfNumbers(c.out(0).dtype);
  if (w.images) {
    const int64_t tile = w.tile_y * s.out[2];
    w.wide_at = w.copies * w.copy_floats;
    w.residual_at = w.wide_at + std::min(w.in_rows, s.in[1]) * s.in[2];
    w.sums_at = w.residual_at + (c.has(3) ? tile : 0);
    w.slot_bytes = (w.sums_at + tile) * 4;
    w.widened = w.images.pack_widened(c, s.o * s.kernel_size());
    if (!w.widened) return c.fail("has no memory for its weights");
  }
  c.set_workspace(tile_workspace(w.lanes, w.slot_bytes));
  c.make_state(w);
  return {};
}

// The rows [first, ...) of the padded x. `to` is cleared, or holds another channel with the same
// zeros. Halves are widened in `wide`; their convolutions are not transposed.
template <class T>
void copy_plane(const Depthwise& w, const T* x, int64_t first, int64_t rows,
                [[maybe_unused]] float* wide, float* to) {
  const ConvShape& s = w.s;
  if constexpr (std::is_same_v<T, float>)
    if (s.transposed) {
      const int64_t skipped = std::max<int64_t>(0, first - s.padding[1]);
      for (int64_t i = ceil_div(skipped, w.x_step[1]); i < w.x[1]; ++i) {
        const int64_t row = i * w.x_step[1] + s.padding[1] - first;
        if (row >= rows) break;
        for (int64_t j = 0; j < w.x[2]; ++j)
          to[row * w.row_step + s.padding[2] + j * w.x_step[2]] = x[i * w.x[2] + j];
      }
      return;
    }
  const int64_t begin = std::max<int64_t>(0, s.padding[1] - first);
  const int64_t end = std::min(rows, s.in[1] + s.padding[1] - first);
  if (begin >= end) return;
  const T* const kept = x + (first + begin - s.padding[1]) * s.in[2];
  const float* from = wide;
  if constexpr (std::is_same_v<T, float>)
    from = kept;
  else
    w.images.widen((end - begin) * s.in[2], kept, wide);
  to += begin * w.row_step;
  if (s.stride[2] == 1 || w.steps_by_two) {
    const int64_t columns = std::min(s.in[2], w.row_step - s.padding[2]);
    return w.rows->copy_rows(end - begin, columns, from, s.in[2], to + s.padding[2], w.row_step);
  }
  for (int64_t row = begin; row < end; ++row, from += s.in[2], to += w.row_step)
    w.rows->pad_row(from, s.in[2], s.padding[2], s.stride[2], w.row_step / w.phase_width,
                    w.phase_width, to);
}

void run(const RunContext& c) noexcept {
  const Depthwise& w = c.state<Depthwise>();
  const ConvShape& s = w.s;
  const float* x = c.in(0).as<float>();
  const float* weight = w.images ? w.widened : c.in(1).as<float>();
  const auto* const half_x = c.in(0).as<uint16_t>();
  const auto* const half_bias = c.has(2) ? c.in(2).as<uint16_t>() : nullptr;
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  const int64_t size = s.out_size();
  for_tiles(c, s.n * w.tiles_o * w.tiles_y, w.lanes, w.slot_bytes, [&](int64_t index, float* slot) {
    const int64_t image = index / (w.tiles_o * w.tiles_y);
    // Rows are the outer index, as neighboring convolutions divide pixels among lanes.
    const int64_t first = index / w.tiles_o % w.tiles_y * w.tile_y;
    const int64_t o_begin = index % w.tiles_o * w.tile_o;
    const int64_t o_end = std::min(s.o, o_begin + w.tile_o);
    const int64_t rows = std::min(w.tile_y, s.out[1] - first);
    w.rows->clear(w.copies * w.copy_floats, slot);
    // Outputs of one channel share the copy of the channel.
    const auto copy_of = [&](int64_t o) {
      return slot + o / s.group_o() % w.copies * w.copy_floats;
    };
    const auto copy = [&](int64_t o) {
      if (o >= o_end || (o != o_begin && o % s.group_o() != 0)) return;
      const int64_t plane = (image * s.c + o / s.group_o()) * ConvShape::product(w.x);
      const int64_t in_rows = w.in_rows - (w.tile_y - rows) * s.stride[1];
      if (w.images)
        copy_plane(w, half_x + plane, first * s.stride[1], in_rows, slot + w.wide_at, copy_of(o));
      else
        copy_plane(w, x + plane, first * s.stride[1], in_rows, nullptr, copy_of(o));
    };
    if (w.copies == 2) copy(o_begin);
    for (int64_t o = o_begin; o < o_end; ++o) {
      copy(o + w.copies - 1);
      const int64_t at = (image * s.o + o) * size + first * s.out[2];
      const int64_t count = rows * s.out[2];
      const float* own_residual = residual ? residual + at : nullptr;
      float* sums = y + at;
      float own_bias = 0;
      if (w.images) {
        sums = slot + w.sums_at;
        if (residual) {
          w.images.widen(count, c.in(3).as<uint16_t>() + at, slot + w.residual_at);
          own_residual = slot + w.residual_at;
        }
        if (half_bias) w.images.widen(1, half_bias + o, &own_bias);
      } else if (bias) {
        own_bias = bias[o];
      }
      const float* taps = weight + o * s.kernel_size();
      if (s.transposed) {
        float* reversed = slot + w.copies * w.copy_floats;
        std::reverse_copy(taps, taps + s.kernel_size(), reversed);
        taps = reversed;
      }
      w.plane({.rows = rows,
               .columns = s.out[2],
               .kernel_y = s.kernel[1],
               .kernel_x = s.kernel[2],
               .row_stride = s.stride[1],
               .row_dilation = s.dilation[1],
               .x = copy_of(o),
               .x_row = w.row_step,
               .steps_by_two = w.steps_by_two,
               .offset = w.offset,
               .weight = taps,
               .bias = own_bias,
               .residual = own_residual,
               .activation = s.activation,
               .y = sums});
      if (!is_clamp(s.activation)) w.gemm->finish(1, count, {.activation = s.activation}, sums, 0);
      if (w.images) w.images.narrow(count, sums, c.out(0).as<uint16_t>() + at);
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "depthwise", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_depthwise() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
