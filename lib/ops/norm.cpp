// SPDX-License-Identifier: Apache-2.0
// Softmax and normalizations. The norms are composites with fused kernels. Their gradient is that
// of the expansion, or an op of norm_grad.cpp.
#include "hg/op.h"
#include "lib/graph/real.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

Status softmax_infer(InferContext& c) {
  if (!is_float(c.in(0).dtype)) return c.fail("x must be a float tensor, but is ", c.in(0).dtype);
  HG_TRY(c.axis("dim", c.in(0).rank()).status());
  c.out(0) = c.in(0);
  return {};
}

Dims axis_or_none(int rank, int axis) { return rank == 0 ? Dims{} : Dims{Dim(axis)}; }

// dx = y (dy - sum(y dy))
Status softmax_grad(GradContext& c) {
  const Value y = c.out(0), dy = c.dout(0);
  HG_TRY_ASSIGN(const int axis, c.axis("dim", y.rank()));
  const Value along = sum(mul(y, dy), axis_or_none(y.rank(), axis), true);
  c.set_grad(0, mul(y, sub(dy, along)));
  return {};
}

// dx = dy - exp(y) sum(dy)
Status log_softmax_grad(GradContext& c) {
  const Value y = c.out(0), dy = c.dout(0);
  HG_TRY_ASSIGN(const int axis, c.axis("dim", y.rank()));
  const Value along = sum(dy, axis_or_none(y.rank(), axis), true);
  c.set_grad(0, sub(dy, mul(op("exp", y), along)));
  return {};
}

// If given, weight and bias must have x's dtype and the shape `want`.
Status check_affine(const InferContext& c, int first, int last, const Shape& want) {
  const TensorType& x = c.in(0);
  if (!is_float(x.dtype)) return c.fail("x must be a float tensor, but is ", x.dtype);
  for (int i = first; i <= last; ++i) {
    if (!given(c, i)) continue;
    const TensorType& t = c.in(i);
    if (t.dtype != x.dtype) return c.fail("x is ", x.dtype, ", input ", i, " is ", t.dtype);
    bool same = t.shape.size() == want.size();
    for (size_t k = 0; same && k < want.size(); ++k) same = c.require_equal(t.shape[k], want[k]);
    if (!same) return c.fail("input ", i, " must be ", want, ", but is ", t.shape);
  }
  return {};
}

// The norm runs over the trailing dims, whose sizes are `normalized_shape`.
Status trailing_infer(InferContext& c, int last_affine) {
  const std::span<const Dim> listed = c.attrs().integers("normalized_shape");
  const Shape want(listed.begin(), listed.end());
  const Shape& shape = c.in(0).shape;
  bool fits = !want.empty() && want.size() <= shape.size();
  for (size_t i = 0; fits && i < want.size(); ++i)
    fits = c.require_equal(want[i], shape[shape.size() - want.size() + i]);
  if (!fits) return c.fail("x ", shape, " does not end in normalized_shape ", want);
  HG_TRY(check_affine(c, 1, last_affine, want));
  c.out(0) = c.in(0);
  return {};
}
Status layer_norm_infer(InferContext& c) { return trailing_infer(c, 2); }

// The gradient op `name` of a norm with the inputs x, weight and bias.
void fused_grad(GradContext& c, std::string_view name, const NamedAttrs& attrs) {
  const std::vector<Value> d =
      c.graph().calls(name, {c.in(0), input_or_none(c, 1), c.dout(0)}, attrs);
  if (d.size() != 3) return;
  for (int i = 0; i < 3; ++i)
    if (given(c, i)) c.set_grad(i, d[i]);
}
Status layer_norm_grad(GradContext& c) {
  fused_grad(
      c, "layer_norm_grad",
      {{"normalized_shape", c.attrs().raw("normalized_shape")}, {"eps", c.attrs().real("eps")}});
  return {};
}
Status rms_norm_infer(InferContext& c) { return trailing_infer(c, 1); }

Dims trailing_dims(const ExpandContext& c) {
  Dims dims;
  const int count = static_cast<int>(c.attrs().integers("normalized_shape").size());
  for (int i = c.in(0).rank() - count; i < c.in(0).rank(); ++i) dims.emplace_back(i);
  return dims;
}

// (x - mean) / sqrt(mean((x - mean)^2) + eps) over `dims`
Value standardized(const Value& x, const Dims& dims, const Real& eps) {
  const Value centred = sub(x, mean(x, dims, true));
  return mul(centred, op("rsqrt", add(mean(mul(centred, centred), dims, true), eps.like(x))));
}

// y = (x - mean) / sqrt(var + eps) * weight + bias
Status layer_norm_expand(ExpandContext& c) {
  Value y = standardized(widened(c.in(0)), trailing_dims(c), real(c, "eps"));
  if (given(c, 1)) y = mul(y, widened(c.in(1)));
  if (given(c, 2)) y = add(y, widened(c.in(2)));
  c.set_out(0, cast(y, c.in(0).dtype()));
  return {};
}

// y = x / sqrt(mean(x^2) + eps) * weight
Status rms_norm_expand(ExpandContext& c) {
  const Value x = widened(c.in(0));
  const Value square = mean(mul(x, x), trailing_dims(c), true);
  Value y = mul(x, op("rsqrt", add(square, real(c, "eps").like(x))));
  if (given(c, 1)) y = mul(y, widened(c.in(1)));
  c.set_out(0, cast(y, c.in(0).dtype()));
  return {};
}

// A vector over the channels, shaped to broadcast with [n, c, ...].
Value per_channel(const Value& v, int rank) {
  Shape shape(rank, Dim(1));
  shape[1] = v.dim(0);
  return reshape(v, std::move(shape));
}

Status group_norm_infer(InferContext& c) {
  const Shape& shape = c.in(0).shape;
  if (shape.size() < 2) return c.fail("x must be [n, c, ...], but is ", shape);
  const Dim groups = c.attrs().integer("groups");
  if (!c.require_at_least(groups, 1)) return c.fail("groups is ", groups, ", not positive");
  if (shape[1].is_constant() && groups.is_constant() &&
      shape[1].constant() % groups.constant() != 0)
    return c.fail(shape[1], " channels do not divide into ", groups, " groups");
  HG_TRY(check_affine(c, 1, 2, {shape[1]}));
  c.out(0) = c.in(0);
  return {};
}

// As layer_norm over the channels of a group and all positions; weight and bias are per channel.
Status group_norm_expand(ExpandContext& c) {
  const Value x = widened(c.in(0));
  const Dim groups = c.attrs().integer("groups");
  Dim each = floordiv(x.dim(1), groups);
  for (int i = 2; i < x.rank(); ++i) each = each * x.dim(i);
  Value y = standardized(reshape(x, {x.dim(0), groups, each}), {2}, real(c, "eps"));
  y = reshape(y, x.shape());
  if (given(c, 1)) y = mul(y, per_channel(widened(c.in(1)), x.rank()));
  if (given(c, 2)) y = add(y, per_channel(widened(c.in(2)), x.rank()));
  c.set_out(0, cast(y, c.in(0).dtype()));
  return {};
}

Status batch_norm_infer(InferContext& c) {
  const Shape& shape = c.in(0).shape;
  if (shape.size() < 2) return c.fail("x must be [n, c, ...], but is ", shape);
  if (!c.attrs().flag("training") && !(given(c, 3) && given(c, 4)))
    return c.fail("running_mean and running_var are needed outside of training");
  if (given(c, 3) != given(c, 4))
    return c.fail("running_mean and running_var must be given together");
  HG_TRY(check_affine(c, 1, 4, {shape[1]}));
  c.out(0) = c.in(0);
  c.out(1) = {c.in(0).dtype, {shape[1]}};
  c.out(2) = {c.in(0).dtype, {shape[1]}};
  return {};
}

// Whether all dims except `except` are nonzero, as a scalar; an empty Value if this is known.
Value has_elements(const Value& x, int except) {
  Dim open = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (i == except) continue;
    if (x.dim(i) == Dim(0)) return x.graph()->scalar(0.0, boolean);
    if (!x.dim(i).is_constant()) open = open * x.dim(i);
  }
  if (open == Dim(1)) return {};
  return op("any", expand(x.graph()->scalar(1.0, boolean), {open}));
}

// y = (x - m) / sqrt(v + eps) * weight + bias, per channel. m and v are the running statistics or,
// in training, those of the batch. Training moves the running statistics by `momentum` toward those
// of the batch, with its unbiased variance. An empty batch leaves them unchanged.
Status batch_norm_expand(ExpandContext& c) {
  const Value x = widened(c.in(0));
  const int rank = x.rank();
  const Value eps = real(c, "eps").like(x);
  const Value weight = widened(input_or_none(c, 1)), bias = widened(input_or_none(c, 2));
  const Value old_mean = widened(input_or_none(c, 3)), old_var = widened(input_or_none(c, 4));
  const DType dtype = c.in(0).dtype();
  if (!c.attrs().flag("training")) {
    Value scale = op("rsqrt", add(old_var, eps));
    if (weight) scale = mul(scale, weight);
    Value y = mul(sub(x, per_channel(old_mean, rank)), per_channel(scale, rank));
    if (bias) y = add(y, per_channel(bias, rank));
    c.set_out(0, cast(y, dtype));
    c.set_out(1, c.in(3));
    c.set_out(2, c.in(4));
    return {};
  }
  Dims dims = {0};
  for (int i = 2; i < rank; ++i) dims.emplace_back(i);
  const Value m = mean(x, dims, true);
  const Value centred = sub(x, m);
  const Value v = mean(mul(centred, centred), dims, true);
  Value y = mul(centred, op("rsqrt", add(v, eps)));
  if (weight) y = mul(y, per_channel(weight, rank));
  if (bias) y = add(y, per_channel(bias, rank));
  c.set_out(0, cast(y, dtype));
  const Real momentum = real(c, "momentum");
  Value new_mean = reshape(m, {x.dim(1)});
  Value new_var =
      c.graph().call("var", {x}, {{"dim", dims}, {"correction", 1.0}, {"keepdim", false}});
  if (given(c, 3)) {
    const Value some = has_elements(x, 1);
    const auto moved = [&](const Value& old, const Value& own) {
      const Value sum = own * momentum + old * (1 - momentum);
      return some ? where(some, sum, old) : sum;
    };
    new_mean = moved(old_mean, new_mean);
    new_var = moved(old_var, new_var);
  }
  c.set_out(1, cast(new_mean, dtype));
  c.set_out(2, cast(new_var, dtype));
  return {};
}

// Outside training, and for gradients of the statistics: the gradient of the expansion.
Status batch_norm_grad(GradContext& c) {
  if (c.attrs().flag("training") && !c.has_dout(1) && !c.has_dout(2))
    fused_grad(c, "batch_norm_grad", {{"eps", c.attrs().real("eps")}});
  return {};
}

constexpr OpDef kOps[] = {
    // exp(x) / sum(exp(x)) along dim.
    {.signature = "softmax(x, dim: int = -1) -> y",
     .infer = softmax_infer,
     .grad = softmax_grad,
     .alias = 1},
    // x - log(sum(exp(x))) along dim.
    {.signature = "log_softmax(x, dim: int = -1) -> y",
     .infer = softmax_infer,
     .grad = log_softmax_grad,
     .alias = 1},
    // (x - mean) / sqrt(var + eps) * weight + bias over the trailing dims, which must have the
    // sizes normalized_shape. weight and bias have that shape.
    {.signature = "layer_norm(x, weight?, bias?, normalized_shape: int[], eps: float = 1e-5) -> y",
     .infer = layer_norm_infer,
     .grad = layer_norm_grad,
     .expand = layer_norm_expand,
     .alias = 1},
    // x / sqrt(mean(x^2) + eps) * weight over the trailing dims.
    {.signature = "rms_norm(x, weight?, normalized_shape: int[], eps: float = 1e-6) -> y",
     .infer = rms_norm_infer,
     .expand = rms_norm_expand,
     .alias = 1},
    // Normalizes the channels of each group together. x: [n, c, ...], weight and bias: [c].
    {.signature = "group_norm(x, weight?, bias?, groups: int, eps: float = 1e-5) -> y",
     .infer = group_norm_infer,
     .expand = group_norm_expand,
     .alias = 1},
    // x: [n, c, ...], all other inputs: [c]. If training, uses batch statistics, and the new
    // running statistics are (1 - momentum) * old + momentum * batch. Otherwise uses the running
    // statistics and returns them. After training, assign new_mean and new_var to the running
    // statistics.
    // C++: BatchNorm batch_norm
    {.signature = "batch_norm(x, weight?, bias?, running_mean?, running_var?, training: bool = "
                  "false, momentum: float = 0.1, eps: float = 1e-5) -> y, new_mean, new_var",
     .infer = batch_norm_infer,
     .grad = batch_norm_grad,
     .expand = batch_norm_expand,
     .alias = 1},
};

}  // namespace

std::span<const OpDef> norm() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
