// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of images with the channels as last dim, created by the pass
// channels_last: x and y are [n, h, w, c], the weight is [c, 1, kernel...] as in conv. Also
// convolutions that produce such images from x: [n, c, h, w].
#include "lib/graph/internal_op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

Status conv_channels_last_expand(ExpandContext& c) {
  Graph& g = c.graph();
  if (c.in(0).rank() != 4 || c.in(1).rank() != 4 || !(c.in(1).dim(1) == Dim(1)) ||
      !c.require_equal(c.in(1).dim(0), c.in(0).dim(3)))
    return invalid_argument(
        "conv_channels_last: x must be [n, h, w, c] and weight [c, 1, kernel_h,",
        " kernel_w]: x is ", c.in(0).shape(), ", weight is ", c.in(1).shape());
  const auto permuted = [&](const Value& x, Dims dims) {
    return g.call("permute", {x}, {{"dims", std::move(dims)}});
  };
  Value residual = input_or_none(c, 3);
  if (residual) residual = permuted(residual, {0, 3, 1, 2});
  NamedAttrs attrs = {{"groups", c.in(0).dim(3)}};
  for (const std::string_view name : {"stride", "padding", "dilation", "activation"})
    attrs.push_back({name, c.attrs().raw(name)});
  const Value y = g.call(
      "conv", {permuted(c.in(0), {0, 3, 1, 2}), c.in(1), input_or_none(c, 2), residual}, attrs);
  c.set_out(0, permuted(y, {0, 2, 3, 1}));
  return {};
}

Value in_f32(Graph& g, const Value& x) {
  return x.dtype() == f32 ? x : g.call("cast", {x}, {{"dtype", f32}});
}

// A convolution of all channels, in f32.
Status conv_dense_channels_last_expand(ExpandContext& c) {
  Graph& g = c.graph();
  if (c.in(0).rank() != 4)
    return invalid_argument("conv_dense_channels_last: x must be [n, h, w, c], but is ",
                            c.in(0).shape());
  const auto nchw = [&](const Value& x) {
    return x ? g.call("permute", {in_f32(g, x)}, {{"dims", Dims{0, 3, 1, 2}}}) : x;
  };
  NamedAttrs attrs;
  for (const std::string_view name : {"stride", "padding", "dilation", "activation"})
    attrs.push_back({name, c.attrs().raw(name)});
  Value y = g.call(
      "conv", {nchw(c.in(0)), in_f32(g, c.in(1)), input_or_none(c, 2), nchw(input_or_none(c, 3))},
      attrs);
  y = g.call("permute", {y}, {{"dims", Dims{0, 2, 3, 1}}});
  const DType dtype = c.attrs().dtype("dtype");
  c.set_out(0, dtype == f32 ? y : g.call("cast", {y}, {{"dtype", dtype}}));
  return {};
}

// The convolution, with its channels moved last.
Status expand_entry(ExpandContext& c) {
  if (c.in(0).rank() != 4)
    return invalid_argument("conv_to_channels_last: x must be [n, c, h, w], but is ",
                            c.in(0).shape());
  NamedAttrs attrs;
  for (const std::string_view name : {"stride", "padding", "dilation", "activation"})
    attrs.push_back({name, c.attrs().raw(name)});
  Graph& g = c.graph();
  const DType dtype = c.attrs().dtype("dtype");
  const bool is_rounded = dtype == bf16;  // otherwise, all have one dtype
  const Value y = g.call("conv",
                         {is_rounded ? in_f32(g, c.in(0)) : c.in(0),
                          is_rounded ? in_f32(g, c.in(1)) : c.in(1), input_or_none(c, 2)},
                         attrs);
  const Value last = g.call("permute", {y}, {{"dims", Dims{0, 2, 3, 1}}});
  c.set_out(0, is_rounded ? g.call("cast", {last}, {{"dtype", dtype}}) : last);
  return {};
}

double entry_flops(std::span<const Sizes> in, std::span<const Sizes> out, const AttrReader&) {
  return 2.0 * static_cast<double>(in[1][1] * in[1][2] * in[1][3]) *
         static_cast<double>(out[0].count());
}

double conv_channels_last_flops(std::span<const Sizes> in, std::span<const Sizes> out,
                                const AttrReader&) {
  return 2.0 * static_cast<double>(in[1][2] * in[1][3]) * static_cast<double>(out[0].count());
}

constexpr OpDef kOps[] = {
    {.signature = "conv_channels_last(x, weight, bias?, residual?, stride: int[] = [1], "
                  "padding: int[] = [0], dilation: int[] = [1], activation: str = \"none\") -> y",
     .expand = conv_channels_last_expand,
     .traits = kInternal,
     .flops = conv_channels_last_flops},
    // x: [n, h, w, c], weight: [out, c, kernel...], both in f32 or bf16, with a bias of f32; y has
    // the given dtype.
    {.signature = "conv_dense_channels_last(x, weight, bias?, residual?, stride: int[] = [1], "
                  "padding: int[] = [0], dilation: int[] = [1], activation: str = \"none\", "
                  "dtype: dtype = f32) -> y",
     .expand = conv_dense_channels_last_expand,
     .traits = kInternal,
     .flops = entry_flops},
    // With dtype bf16, x and weight are f32 or bf16, with a bias of f32; else all have one dtype.
    {.signature = "conv_to_channels_last(x, weight, bias?, stride: int[] = [1], "
                  "padding: int[] = [0], dilation: int[] = [1], activation: str = \"none\", "
                  "dtype: dtype = f32) -> y",
     .expand = expand_entry,
     .traits = kInternal,
     .flops = entry_flops},
};

}  // namespace

std::span<const OpDef> conv_channels_last() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
