// SPDX-License-Identifier: Apache-2.0
// matmul_integer and conv_integer: shaders/integer.comp, whose outputs and positions are a
// product's rows and columns.
#include <algorithm>

#include "kernels/integer/conv_integer.h"
#include "lib/device/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

struct Integers {
  int x = 0, w = 1;  // inputs; their zero points are the second next ones
  int64_t outputs = 0, positions = 0, channels = 0;
  kernels::ConvShape::Spatial in = {1, 1, 1}, out = {1, 1, 1}, kernel = {1, 1, 1};
  kernels::ConvShape::Spatial stride = {1, 1, 1}, padding = {0, 0, 0}, dilation = {1, 1, 1};
  int64_t x_channel = 0, w_output = 0, w_channel = 0;
  kernels::ConvShape::Spatial x_step = {0, 0, 0}, w_step = {0, 0, 0};
  int64_t x_zero_step = 0, w_zero_step = 0;
  bool by_position = false;
  Sizes batch, x_batch, w_batch, y_batch, x_zero_batch, w_zero_batch, places;
};

bool is_list(const PrepareContext& c, int i) { return c.has(i) && c.in(i).rank() == 1; }

template <bool dot>
Status add_integers(PrepareContext& c, const Integers& g) {
  const Tensor &x = c.in(g.x), &w = c.in(g.w);
  const int64_t outputs = g.outputs >= 8 ? 8 : g.outputs >= 4 ? 4 : 1;
  const int64_t blocks = (g.outputs + outputs - 1) / outputs;
  Dispatch dispatch;
  dispatch.code = shader(dot ? "integer_dot" : "integer");
  dispatch.specialise({outputs, x.dtype == DType::i8, w.dtype == DType::i8, c.has(g.x + 2),
                       c.has(g.w + 2), c.has(4), c.has(5),
                       !c.has(6)                    ? 0
                       : c.in(6).dtype == DType::u8 ? 1
                                                    : 2,
                       g.by_position});
  // An absent or empty operand is not read.
  const auto operand = [&](int i) {
    return c.has(i) && c.in(i).count() > 0 ? Operand::in(c, i) : Operand::out(c, 0);
  };
  dispatch.operands = {Operand::out(c, 0), operand(g.x), operand(g.w)};
  for (const int i : {g.x + 2, g.w + 2, 4, 5, 6}) dispatch.operands.push_back(operand(i));
  Words words;
  words.u(g.outputs).u(blocks).u(g.positions).u(g.channels);
  for (const auto* three : {&g.in, &g.out, &g.kernel, &g.stride, &g.padding, &g.dilation})
    for (const int64_t size : *three) words.u(size);
  words.u(g.x_channel);
  for (const int64_t step : g.x_step) words.u(step);
  words.u(g.w_output).u(g.w_channel);
  for (const int64_t step : g.w_step) words.u(step);
  words.u(g.positions).u(g.x_zero_step).u(g.w_zero_step).u(1).u(is_list(c, 5)).u(g.batch.rank());
  for (const Sizes* list :
       {&g.batch, &g.x_batch, &g.w_batch, &g.y_batch, &g.x_zero_batch, &g.w_zero_batch, &g.places})
    words.all(*list);
  dispatch.params = words.words();
  dispatch.groups = {(g.positions + 63) / 64, blocks, g.batch.count()};
  return add(c, std::move(dispatch));
}

// The strides along the batch dims of a tensor [batch..., a, b], broadcast to `batch`.
Sizes batch_strides(const Tensor& tensor, const Sizes& batch) {
  Sizes strides(batch.rank(), 0);
  const int lead = batch.rank() + 2 - tensor.rank();
  for (int d = 0; d < tensor.rank() - 2; ++d)
    if (tensor.shape[d] != 1) strides[lead + d] = tensor.strides[d];
  return strides;
}

template <bool dot>
Status prepare_matmul(PrepareContext& c) {
  const Tensor &a = c.in(0), &b = c.in(1), &y = c.out(0);
  if (y.count() == 0) return {};
  const int rank = y.rank();
  Integers g;
  g.x = 1;
  g.w = 0;
  g.outputs = y.shape[rank - 2];
  g.positions = y.shape[rank - 1];
  g.channels = a.shape.back();
  g.in[2] = g.out[2] = g.positions;
  g.x_channel = b.strides[b.rank() - 2];
  g.x_step[2] = b.strides[b.rank() - 1];
  g.w_output = a.strides[a.rank() - 2];
  g.w_channel = a.strides[a.rank() - 1];
  g.by_position = true;
  g.batch = Sizes(rank - 2, 0);
  for (int d = 0; d < rank - 2; ++d) g.batch[d] = y.shape[d];
  g.x_batch = batch_strides(b, g.batch);
  g.w_batch = batch_strides(a, g.batch);
  g.x_zero_batch = g.w_zero_batch = g.places = g.y_batch = Sizes(rank - 2, 0);
  for (int d = 0; d < rank - 2; ++d) g.y_batch[d] = y.strides[d];
  if (c.has(2) && c.in(2).rank() > 0) {
    const Tensor& zero = c.in(2);
    g.w_zero_step = zero.strides[std::max(0, zero.rank() - 2)];
    if (zero.rank() > 1) g.w_zero_batch = batch_strides(zero, g.batch);
  }
  if (c.has(3) && c.in(3).rank() > 0) {
    const Tensor& zero = c.in(3);
    g.x_zero_step = zero.strides.back();
    if (zero.rank() > 1) g.x_zero_batch = batch_strides(zero, g.batch);
  }
  return add_integers<dot>(c, g);
}

template <bool dot>
Status prepare_conv(PrepareContext& c) {
  const Tensor &x = c.in(0), &weight = c.in(1);
  if (c.out(0).count() == 0) return {};
  const kernels::ConvShape s = kernels::conv_integer_shape(c);
  Integers g;
  g.outputs = s.group_o();
  g.positions = s.out_size();
  g.channels = s.group_c();
  g.in = s.in;
  g.out = s.out;
  g.kernel = s.kernel;
  g.stride = s.stride;
  g.padding = s.padding;
  g.dilation = s.dilation;
  g.x_channel = x.strides[1];
  g.w_output = weight.strides[0];
  g.w_channel = weight.strides[1];
  for (int d = 2; d < x.rank(); ++d) {
    const auto to = static_cast<size_t>(d + 3 - x.rank());
    g.x_step[to] = x.strides[d];
    g.w_step[to] = weight.strides[d];
  }
  g.w_zero_step = is_list(c, 3);
  g.batch = {s.n, s.groups};
  g.x_batch = {x.strides[0], s.group_c() * x.strides[1]};
  g.w_batch = {0, s.group_o() * weight.strides[0]};
  g.y_batch = {s.o * s.out_size(), s.group_o() * s.out_size()};
  g.x_zero_batch = {0, 0};
  g.w_zero_batch = {0, is_list(c, 3) ? s.group_o() : 0};
  g.places = {0, s.group_o()};
  return add_integers<dot>(c, g);
}

bool has_dot(const PrepareContext& c) { return c.device()->integer_dot; }

constexpr KernelDef kKernels[] = {
    kernel_row("matmul_integer", "dot", has_dot, prepare_matmul<true>, 3),
    kernel_row("matmul_integer", "loop", nullptr, prepare_matmul<false>, 3),
    kernel_row("conv_integer", "dot", has_dot, prepare_conv<true>, 3),
    kernel_row("conv_integer", "loop", nullptr, prepare_conv<false>, 3),
};

}  // namespace

std::span<const KernelDef> integer() { return kKernels; }

}  // namespace hg::vulkan
