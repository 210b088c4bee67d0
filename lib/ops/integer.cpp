// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of 8-bit integers in quantized models. The i32 sums may be scaled and
// rounded to 8 bits.
#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

bool is_byte(DType dtype) { return dtype == u8 || dtype == i8; }
bool is_one(const TensorType& t) { return t.rank() == 0; }
bool is_list_of(const InferContext& c, const TensorType& t, const Dim& size) {
  return t.rank() == 1 && c.require_equal(t.shape[0], size);
}

// What is added to the sums and how they are rounded. The inputs from `bias` on are the bias, and
// the scale and zero point of the result. Each may have one number per element of the dim of size
// `size`.
Status infer_result(InferContext& c, int bias, const Dim& size, Shape shape) {
  const int scale = bias + 1, zero = bias + 2;
  if (given(c, bias) && (c.in(bias).dtype != i32 || !is_list_of(c, c.in(bias), size)))
    return c.fail("bias must be i32[", size, "], but is ", c.in(bias));
  if (given(c, scale) &&
      (c.in(scale).dtype != f32 || (!is_one(c.in(scale)) && !is_list_of(c, c.in(scale), size))))
    return c.fail("scale must be f32 and one number or [", size, "], but is ", c.in(scale));
  DType dtype = given(c, scale) ? f32 : i32;
  if (given(c, zero)) {
    if (!given(c, scale)) return c.fail("the result has a zero point, but no scale");
    if (!is_byte(c.in(zero).dtype) || !is_one(c.in(zero)))
      return c.fail("the result's zero point must be one number of u8 or i8, but is ", c.in(zero));
    dtype = c.in(zero).dtype;
  }
  c.out(0) = {dtype, std::move(shape)};
  return {};
}

// The zero point of operand i is one number, or one per element of its dim `dim`: a list, or a
// tensor in which the other of the last two dims is 1.
bool fits_zero(const InferContext& c, int i, int dim) {
  const TensorType &x = c.in(i), &zero = c.in(i + 2);
  if (zero.dtype != x.dtype) return false;
  if (is_one(zero) || zero.rank() == 1)
    return is_one(zero) || is_list_of(c, zero, x.shape[static_cast<size_t>(dim)]);
  bool same = zero.rank() == x.rank();
  for (int d = 0; same && d < x.rank(); ++d) {
    const bool gone = d >= x.rank() - 2 && d != dim;
    same = c.require_equal(zero.shape[static_cast<size_t>(d)],
                           gone ? Dim(1) : x.shape[static_cast<size_t>(d)]);
  }
  return same;
}

// a: [..., m, k], b: [..., k, n] -> [..., m, n]
Status matmul_integer_infer(InferContext& c) {
  const TensorType &a = c.in(0), &b = c.in(1);
  if (!is_byte(a.dtype) || !is_byte(b.dtype))
    return c.fail("a and b must be u8 or i8, but are ", a.dtype, " and ", b.dtype);
  if (a.rank() < 2 || b.rank() < 2)
    return c.fail("both tensors need at least two dims: a is ", a.shape, ", b is ", b.shape);
  if (!c.require_equal(a.shape.back(), b.shape[b.shape.size() - 2]))
    return c.fail("inner sizes differ: a is ", a.shape, ", b is ", b.shape);
  if (given(c, 2) && !fits_zero(c, 0, a.rank() - 2))
    return c.fail("a is ", a, ", its zero point ", c.in(2));
  if (given(c, 3) && !fits_zero(c, 1, b.rank() - 1))
    return c.fail("b is ", b, ", its zero point ", c.in(3));
  Result<Shape> shape = broadcast(Shape(a.shape.begin(), a.shape.end() - 2),
                                  Shape(b.shape.begin(), b.shape.end() - 2));
  if (!shape.ok())
    return c.fail("batch sizes do not broadcast: a is ", a.shape, ", b is ", b.shape);
  shape->push_back(a.shape[a.shape.size() - 2]);
  shape->push_back(b.shape.back());
  return infer_result(c, 4, b.shape.back(), *std::move(shape));
}

// x: [n, c, spatial...], weight: [out, c / groups, kernel...]. For size s, kernel k, begin b, end
// e, dilation d, the new size is floor((s + b + e - d (k - 1) - 1) / stride) + 1.
Status conv_integer_infer(InferContext& c) {
  const TensorType &x = c.in(0), &weight = c.in(1);
  const int dims = x.rank() - 2;
  if (!is_byte(x.dtype) || !is_byte(weight.dtype))
    return c.fail("x and weight must be u8 or i8, but are ", x.dtype, " and ", weight.dtype);
  if (dims < 1 || dims > 3 || weight.rank() != x.rank())
    return c.fail("x must be [n, c, spatial...] with one to three spatial dims and weight [out, ",
                  "c / groups, kernel...]: x is ", x.shape, ", weight is ", weight.shape);
  if (given(c, 2) && (c.in(2).dtype != x.dtype || !is_one(c.in(2))))
    return c.fail("x is ", x.dtype, ", its zero point ", c.in(2), " instead of one number of that");
  if (given(c, 3) && (c.in(3).dtype != weight.dtype ||
                      (!is_one(c.in(3)) && !is_list_of(c, c.in(3), weight.shape[0]))))
    return c.fail("weight is ", weight, ", its zero point ", c.in(3));
  Dims stride, dilation, padding;
  HG_TRY_ASSIGN(stride, per_dim(c.attrs(), "stride", dims));
  HG_TRY_ASSIGN(dilation, per_dim(c.attrs(), "dilation", dims));
  const std::span<const Dim> listed = c.attrs().integers("padding");
  if (listed.size() == static_cast<size_t>(2 * dims)) {
    padding.assign(listed.begin(), listed.end());
  } else {
    HG_TRY_ASSIGN(padding, per_dim(c.attrs(), "padding", dims));
    padding.insert(padding.end(), padding.begin(), padding.begin() + dims);
  }
  const Dim groups = c.attrs().integer("groups");
  if (!c.require_at_least(groups, 1)) return c.fail("groups is ", groups, ", not positive");
  if (!c.require_equal(x.shape[1], weight.shape[1] * groups))
    return c.fail("x has ", x.shape[1], " channels, weight ", weight.shape, " with ", groups,
                  " groups takes ", weight.shape[1] * groups);
  if (weight.shape[0].is_constant() && groups.is_constant() &&
      weight.shape[0].constant() % groups.constant() != 0)
    return c.fail(weight.shape[0], " channels do not divide into ", groups, " groups");
  Shape shape = {x.shape[0], weight.shape[0]};
  Dim elements = x.shape[1];
  for (size_t i = 0; i < static_cast<size_t>(dims); ++i) {
    const Dim &size = x.shape[i + 2], &kernel = weight.shape[i + 2];
    const Dim &begin = padding[i], &end = padding[i + static_cast<size_t>(dims)];
    if (!c.require_at_least(kernel, 1))
      return c.fail("weight ", weight.shape, " has an empty kernel");
    if (!c.require_at_least(stride[i], 1)) return c.fail("stride is ", stride[i], ", not positive");
    if (!c.require_at_least(dilation[i], 1))
      return c.fail("dilation is ", dilation[i], ", not positive");
    if (!c.require_at_least(begin, 0) || !c.require_at_least(end, 0))
      return c.fail("padding is ", begin, " and ", end, ", but must not be negative");
    const Dim whole = size + begin + end;
    const Dim room = whole - dilation[i] * (kernel - 1) - 1;
    if (!c.require_at_least(room, 0))
      return c.fail("the kernel reaches over ", dilation[i] * (kernel - 1) + 1, " elements, x has ",
                    whole, " with its padding");
    elements = elements * whole;
    shape.push_back(floordiv(room, stride[i]) + 1);
  }
  // Kernels store images with their padding.
  constexpr int64_t kMost = int64_t{1} << 44;
  if (elements.is_constant() && elements.constant() > kMost)
    return c.fail("an image with its padding has ", elements, " elements");
  return infer_result(c, 4, weight.shape[0], std::move(shape));
}

// The convolution, with the channels of its result and, unless they are few, those of x last.
template <bool kEntry>
Status conv_integer_channels_last_expand(ExpandContext& c) {
  if (c.in(0).rank() != 4)
    return invalid_argument(c.attrs().op().name(), ": x must have four dims, but is ",
                            c.in(0).shape());
  const auto permuted = [&](const Value& x, Dims dims) {
    return c.graph().call("permute", {x}, {{"dims", std::move(dims)}});
  };
  std::vector<Value> inputs = {kEntry ? c.in(0) : permuted(c.in(0), {0, 3, 1, 2}), c.in(1)};
  for (int i = 2; i < 7; ++i) inputs.push_back(input_or_none(c, i));
  NamedAttrs attrs;
  for (const std::string_view name : {"stride", "padding", "dilation"})
    attrs.push_back({name, c.attrs().raw(name)});
  c.set_out(0, permuted(c.graph().call("conv_integer", inputs, attrs), {0, 2, 3, 1}));
  return {};
}

double matmul_integer_flops(std::span<const Sizes> in, std::span<const Sizes> out,
                            const AttrReader&) {
  return 2.0 * static_cast<double>(out[0].count()) * static_cast<double>(in[0].back());
}

double conv_integer_flops(std::span<const Sizes> in, std::span<const Sizes> out,
                          const AttrReader&) {
  double weights = 1;  // weights per element
  for (int i = 1; i < in[1].rank(); ++i) weights *= static_cast<double>(in[1][i]);
  return 2 * weights * static_cast<double>(out[0].count());
}

constexpr OpDef kOps[] = {
    // Sums of (a - a_zero) * (b - b_zero), as i32 that wraps around. a: [..., m, k], b: [..., k, n]
    // -> [..., m, n]. Batch dims broadcast.
    //
    // - a_zero: one number, or one per row of a, [m] or [..., m, 1]; b_zero: one number, or [n] or
    //   [..., 1, n]. Zero points have the dtypes of their operands.
    // - bias: i32 [n], added to the sums.
    // - scale: f32, one number or [n]. If given, the result is f32: the sums, rounded to f32, times
    //   the scale.
    // - zero: u8 or i8. The scaled sums are rounded (ties to even), shifted by zero and clamped to
    //   its dtype.
    // C++: hg/ops/integer.h
    {.signature = "matmul_integer(a, b, a_zero?, b_zero?, bias?, scale?, zero?) -> y",
     .infer = matmul_integer_infer,
     .traits = kNoGradient,
     .flops = matmul_integer_flops},
    // Convolution of 8-bit integers, i32. x: [n, c, spatial...] with one to three spatial dims,
    // weight: [out, c / groups, kernel...]. Each list has one number per spatial dim, or one number
    // for all of them.
    //
    // - x_zero: one number; weight_zero: one number, or one per output channel. Zero points have
    //   the dtypes of their operands.
    // - bias: i32 [out]. scale, zero: those of matmul_integer, per output channel.
    // - padding: filled with x_zero; both sides, or [begins..., ends...].
    // C++: hg/ops/integer.h
    {.signature = "conv_integer(x, weight, x_zero?, weight_zero?, bias?, scale?, zero?, "
                  "stride: int[] = [1], padding: int[] = [0], dilation: int[] = [1], "
                  "groups: int = 1) -> y",
     .infer = conv_integer_infer,
     .traits = kNoGradient,
     .flops = conv_integer_flops},
    // Created by the pass channels_last: x is [n, h, w, c], y [n, h, w, out].
    {.signature = "conv_integer_channels_last(x, weight, x_zero?, weight_zero?, bias?, scale?, "
                  "zero?, stride: int[] = [1], padding: int[] = [0], dilation: int[] = [1]) -> y",
     .expand = conv_integer_channels_last_expand<false>,
     .traits = kInternal,
     .flops = conv_integer_flops},
    // The same from x: [n, c, h, w], of few channels.
    {.signature = "conv_integer_to_channels_last(x, weight, x_zero?, weight_zero?, bias?, scale?, "
                  "zero?, stride: int[] = [1], padding: int[] = [0], dilation: int[] = [1]) -> y",
     .expand = conv_integer_channels_last_expand<true>,
     .traits = kInternal,
     .flops = conv_integer_flops},
};

}  // namespace

std::span<const OpDef> integer() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
