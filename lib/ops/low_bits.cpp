// SPDX-License-Identifier: Apache-2.0
// Products with 8- or 4-bit weights [n, k] that sum over k or, in gradients, over n; recurrent
// layers with such a weight; and rows of one. A weight is level * scale + offset.
// Levels are signed. `group` neighbors along k share a scale and an offset. The offset of a weight
// with a zero point is -zero_point * scale.
#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/fused.h"
#include "lib/ops/terms.h"
#include "lib/table/cell.h"
#include "lib/table/packing.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// A weight [n, k]: levels: i8, scales: f32 or f16 [n, ceil(k / group)]
Status check_weight(InferContext& c, const TensorType& levels, const TensorType& scales,
                    const Dim& k) {
  const std::optional<Packing> packing = parse_packing(c.attrs().string("packing"));
  const Dim group = c.attrs().integer("group");
  if (!packing) return c.fail("packing is '", c.attrs().string("packing"), "'");
  if (levels.dtype != i8 || (scales.dtype != f32 && scales.dtype != f16))
    return c.fail("levels must be i8 and scales f32 or f16, but are ", levels.dtype, " and ",
                  scales.dtype);
  if (levels.rank() != 2 || scales.rank() != 2)
    return c.fail("levels and scales must have 2 dims: levels are ", levels.shape, ", scales ",
                  scales.shape);
  if (!group.is_constant() || group.constant() < 1) return c.fail("group is ", group);
  const Dim& n = scales.shape[0];
  if (!c.require_equal(scales.shape[1], ceildiv(k, group)))
    return c.fail("scales ", scales.shape, " do not fit ", k, " columns in groups of ", group);
  const bool halves_n = *packing == Packing::rows;
  const bool halves_k = *packing == Packing::halves || *packing == Packing::pairs;
  if (!c.require_equal(levels.shape[0], halves_n ? ceildiv(n, 2) : n) ||
      !c.require_equal(levels.shape[1], halves_k ? ceildiv(k, 2) : k))
    return c.fail("levels ", levels.shape, " with packing '", c.attrs().string("packing"),
                  "' do not fit ", n, " rows and ", k, " columns");
  return {};
}

// f32, shaped as scales, or none.
Status check_offsets(InferContext& c, int input, const TensorType& scales) {
  if (given(c, input) && !c.require_equal(c.in(input), {f32, scales.shape}))
    return c.fail("offsets must be f32", scales.shape, ", but are ", c.in(input));
  return {};
}

// A weight that sums over the dim `along` of x, offsets: as scales, bias: [n], residual: as y,
// which is x with n elements along the dim.
Status check_product(InferContext& c, size_t along) {
  HG_TRY(check_activation(c));
  const TensorType &x = c.in(0), &scales = c.in(2);
  HG_TRY(check_weight(c, c.in(1), scales, x.shape[along]));
  const Dim& n = scales.shape[0];
  HG_TRY(check_offsets(c, 3, scales));
  if (given(c, 4) &&
      (c.in(4).dtype != f32 || c.in(4).rank() != 1 || !c.require_equal(c.in(4).shape[0], n)))
    return c.fail("bias must be f32[", n, "], but is ", c.in(4));
  Shape shape = x.shape;
  shape[along] = n;
  if (given(c, 5) && (c.in(5).rank() != x.rank() || !c.require_equal(c.in(5), {f32, shape})))
    return c.fail("residual must be f32", shape, ", but is ", c.in(5));
  c.out(0) = {f32, std::move(shape)};
  return {};
}

// x: [..., k], a weight [n, k]; y: [..., n]
Status quantized_linear_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.dtype != f32 || x.rank() < 1) return c.fail("x must be f32[..., k], but is ", x);
  return check_product(c, x.shape.size() - 1);
}

// x: [images, k, pixels...], a weight [n, k]; y: [images, n, pixels...]
Status quantized_conv_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.dtype != f32 || x.rank() < 3) return c.fail("x must be f32[images, k, ...], but is ", x);
  return check_product(c, 1);
}

// One number per group of columns, repeated: [n, groups] -> [n, k]
Value for_columns(const Value& x, const Dim& group, const Dim& k) {
  const Dim n = x.dim(0), groups = x.dim(1);
  const Value wide = x.graph()->call("expand", {term::reshape(x, {n, groups, 1})},
                                     {{"shape", std::vector<Dim>{n, groups, group}}});
  return x.graph()->call("slice", {term::reshape(wide, {n, groups * group})},
                         {{"dim", 1}, {"start", 0}, {"end", k}});
}

// The weight [n, k] in f32; `offsets` may be none.
Value widened(ExpandContext& c, Value levels, const Value& scales, const Value& offsets,
              const Dim& k) {
  Graph& g = c.graph();
  const Packing packing = *parse_packing(c.attrs().string("packing"));
  const Dim n = scales.dim(0), group = c.attrs().integer("group");
  if (packing != Packing::bytes) {
    // Shifts of i8 preserve the sign.
    const Value four = g.scalar(int64_t{4}, i8);
    const Value low =
        term::op("bitwise_right_shift", term::op("bitwise_left_shift", levels, four), four);
    const Value high = term::op("bitwise_right_shift", levels, four);
    const Dim rows = levels.dim(0), bytes = levels.dim(1);
    if (packing == Packing::pairs) {
      const Shape column = {rows, bytes, 1};
      levels =
          g.call("concat", {term::reshape(low, column), term::reshape(high, column)}, {{"dim", 2}});
      levels = term::reshape(levels, {rows, bytes * Dim(2)});
    } else {
      levels = g.call("concat", {low, high}, {{"dim", packing == Packing::rows ? 0 : 1}});
    }
    const bool by_row = packing == Packing::rows;
    levels =
        g.call("slice", {levels}, {{"dim", by_row ? 0 : 1}, {"start", 0}, {"end", by_row ? n : k}});
  }
  const auto floats = [&](const Value& x) {
    return x.dtype() == f32 ? x : g.call("cast", {x}, {{"dtype", f32}});
  };
  const Value weight = floats(levels) * for_columns(floats(scales), group, k);
  return offsets ? weight + for_columns(offsets, group, k) : weight;
}

Status quantized_linear_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const Value weight = widened(c, c.in(1), c.in(2), input_or_none(c, 3), x.dim(-1));
  c.set_out(0, c.graph().call("linear", {x, weight, input_or_none(c, 4), input_or_none(c, 5)},
                              {{"activation", c.attrs().string("activation")}}));
  return {};
}

Status quantized_conv_expand(ExpandContext& c) {
  const Value x = c.in(0);
  Value weight = widened(c, c.in(1), c.in(2), input_or_none(c, 3), x.dim(1));
  Shape shape(static_cast<size_t>(x.rank()), Dim(1));
  shape[0] = weight.dim(0);
  shape[1] = weight.dim(1);
  c.set_out(
      0, c.graph().call("conv",
                        {x, term::reshape(weight, shape), input_or_none(c, 4), input_or_none(c, 5)},
                        {{"activation", c.attrs().string("activation")}}));
  return {};
}

// x: [..., n], a weight [n, width], offsets: as scales; y: [..., width]
Status quantized_matmul_infer(InferContext& c) {
  const TensorType &x = c.in(0), &scales = c.in(2);
  if (x.dtype != f32 || x.rank() < 1) return c.fail("x must be f32[..., n], but is ", x);
  const Dim width = c.attrs().integer("width");
  HG_TRY(check_weight(c, c.in(1), scales, width));
  HG_TRY(check_offsets(c, 3, scales));
  if (!c.require_equal(x.shape.back(), scales.shape[0]))
    return c.fail("inner sizes differ: x is ", x.shape, ", scales are ", scales.shape);
  Shape shape = x.shape;
  shape.back() = width;
  c.out(0) = {f32, std::move(shape)};
  return {};
}

Status quantized_matmul_expand(ExpandContext& c) {
  const Value weight =
      widened(c, c.in(1), c.in(2), input_or_none(c, 3), c.attrs().integer("width"));
  c.set_out(0, c.graph().call("matmul", {c.in(0), weight}));
  return {};
}

// Of sums of so many products for each element.
double product_flops(const Sizes& counted, int64_t summed) {
  return 2.0 * static_cast<double>(counted.count()) * static_cast<double>(summed);
}
double quantized_linear_flops(std::span<const Sizes> in, std::span<const Sizes> out,
                              const AttrReader&) {
  return product_flops(out[0], in[0].back());
}
double quantized_conv_flops(std::span<const Sizes> in, std::span<const Sizes> out,
                            const AttrReader&) {
  return product_flops(out[0], in[0][1]);
}
double quantized_scan_flops(std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
  return product_flops(in[0], in[4].back());
}

// A weight [n, width], indices: i64 of any shape, offsets: as scales; y: [indices..., width]
Status quantized_embedding_infer(InferContext& c) {
  const Dim width = c.attrs().integer("width");
  HG_TRY(check_weight(c, c.in(0), c.in(1), width));
  HG_TRY(check_offsets(c, 3, c.in(1)));
  if (c.in(2).dtype != i64) return c.fail("indices must be i64, but are ", c.in(2).dtype);
  c.out(0) = {f32, c.in(2).shape};
  c.out(0).shape.push_back(width);
  return {};
}

Status quantized_embedding_expand(ExpandContext& c) {
  const Value weight =
      widened(c, c.in(0), c.in(1), input_or_none(c, 3), c.attrs().integer("width"));
  c.set_out(0, c.graph().call("embedding", {weight, c.in(2)}));
  return {};
}

// gates: [time, batch, count * hidden], a weight [count * hidden, hidden], offsets: as scales, h0:
// [batch, hidden], bias: [count * hidden], c0: as h0, of lstm; y: [time, batch, hidden]; h, c: as
// h0; c of other cells: [0]
Status quantized_scan_infer(InferContext& c) {
  const TensorType &gates = c.in(0), &scales = c.in(2), &h0 = c.in(4);
  const std::optional<Cell> cell = parse_cell(c.attrs().string("cell"));
  if (!cell) return c.fail("cell is '", c.attrs().string("cell"), "'");
  if (gates.dtype != f32 || gates.rank() != 3 || h0.dtype != f32 || h0.rank() != 2)
    return c.fail("gates must be f32[time, batch, gates] and h0 f32[batch, hidden], but are ",
                  gates, " and ", h0);
  HG_TRY(check_weight(c, c.in(1), scales, h0.shape[1]));
  HG_TRY(check_offsets(c, 3, scales));
  const Dim width = h0.shape[1] * gate_count(*cell);
  if (!c.require_equal(gates.shape[1], h0.shape[0]) || !c.require_equal(gates.shape[2], width) ||
      !c.require_equal(scales.shape[0], width))
    return c.fail("sizes do not fit: gates are ", gates.shape, ", scales ", scales.shape,
                  ", h0 is ", h0.shape);
  if (given(c, 5) && (c.in(5).rank() != 1 || !c.require_equal(c.in(5), {f32, {width}})))
    return c.fail("bias must be f32[", width, "], but is ", c.in(5));
  const bool is_lstm = *cell == Cell::lstm;
  if (given(c, 6) != is_lstm)
    return c.fail("c0 is ", is_lstm ? "missing" : "given", ", but the cell is '",
                  c.attrs().string("cell"), "'");
  if (is_lstm && (c.in(6).rank() != 2 || !c.require_equal(c.in(6), h0)))
    return c.fail("c0 must be ", h0, ", but is ", c.in(6));
  c.out(0) = {f32, {gates.shape[0], gates.shape[1], h0.shape[1]}};
  c.out(1) = h0;
  c.out(2) = is_lstm ? h0 : TensorType{f32, {0}};
  return {};
}

Status quantized_scan_expand(ExpandContext& c) {
  Graph& g = c.graph();
  const Value gates = c.in(0), h0 = c.in(4), bias = input_or_none(c, 5);
  const std::string cell = c.attrs().string("cell");
  const Value weight = widened(c, c.in(1), c.in(2), input_or_none(c, 3), h0.dim(1));
  NamedAttrs attrs = {{"reverse", c.attrs().flag("reverse")}};
  std::vector<Value> all;
  if (cell == "lstm") {
    all = g.calls("lstm_scan", {gates, h0, c.in(6), weight, bias}, attrs);
  } else {
    if (cell != "gru") attrs.push_back({"nonlinearity", cell});
    all = g.calls(cell == "gru" ? "gru_scan" : "rnn_scan", {gates, h0, weight, bias}, attrs);
    all.push_back(term::expand(g.scalar(0.0, f32), {Dim(0)}));
  }
  for (int i = 0; i < std::ssize(all); ++i) c.set_out(i, all[static_cast<size_t>(i)]);
  return {};
}

constexpr OpDef kOps[] = {
    // x holds numbers of x_dtype in f32.
    {.signature = "quantized_linear(x, levels, scales, offsets?, bias?, residual?, packing: str, "
                  "group: int, activation: str = \"none\", x_dtype: str = \"f32\") -> y",
     .infer = quantized_linear_infer,
     .expand = quantized_linear_expand,
     .traits = kInternal,
     .flops = quantized_linear_flops},
    // A convolution with kernels of one pixel.
    {.signature = "quantized_conv(x, levels, scales, offsets?, bias?, residual?, packing: str, "
                  "group: int, activation: str = \"none\") -> y",
     .infer = quantized_conv_infer,
     .expand = quantized_conv_expand,
     .traits = kInternal,
     .flops = quantized_conv_flops},
    {.signature = "quantized_matmul(x, levels, scales, offsets?, packing: str, group: int, "
                  "width: int) -> y",
     .infer = quantized_matmul_infer,
     .expand = quantized_matmul_expand,
     .traits = kInternal,
     .flops = quantized_linear_flops},
    {.signature = "quantized_embedding(levels, scales, indices, offsets?, packing: str, "
                  "group: int, width: int) -> y",
     .infer = quantized_embedding_infer,
     .expand = quantized_embedding_expand,
     .traits = kInternal},
    {.signature = "quantized_scan(gates, levels, scales, offsets?, h0, bias?, c0?, cell: str, "
                  "packing: str, group: int, reverse: bool = false) -> y, h, c",
     .infer = quantized_scan_infer,
     .expand = quantized_scan_expand,
     .traits = kInternal | kScan,
     .flops = quantized_scan_flops},
};

}  // namespace

std::span<const OpDef> low_bits() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
