// SPDX-License-Identifier: Apache-2.0
// Gradients of the norms as ops of their own, which read x twice and keep nothing. With z = (x -
// mean) / sqrt(var + eps) and g = dy * weight: dx = (g - mean(g) - z mean(g z)) / sqrt(var + eps),
// dweight = sum(dy z), dbias = sum(dy). Means run over the normalized dims.
#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

// x, weight?, dy -> dx, dweight, dbias
Status infer_with(InferContext& c, Shape affine) {
  const TensorType& x = c.in(0);
  if (!is_float(x.dtype)) return c.fail("x must be a float tensor, but is ", x.dtype);
  if (!c.require_equal(c.in(2), x)) return c.fail("x is ", x, ", dy is ", c.in(2));
  if (c.has(1) && !c.require_equal(c.in(1), {x.dtype, affine}))
    return c.fail("weight must be ", TensorType{x.dtype, affine}, ", but is ", c.in(1));
  c.out(0) = x;
  c.out(1) = c.out(2) = {x.dtype, std::move(affine)};
  return {};
}

Status layer_norm_grad_infer(InferContext& c) {
  const std::span<const Dim> listed = c.attrs().integers("normalized_shape");
  const Shape& x = c.in(0).shape;
  bool fits = !listed.empty() && listed.size() <= x.size();
  for (size_t i = 0; fits && i < listed.size(); ++i)
    fits = c.require_equal(listed[i], x[x.size() - listed.size() + i]);
  if (!fits)
    return c.fail("x ", x, " does not end in normalized_shape ",
                  Shape(listed.begin(), listed.end()));
  return infer_with(c, Shape(listed.begin(), listed.end()));
}

Status batch_norm_grad_infer(InferContext& c) {
  if (c.in(0).rank() < 2) return c.fail("x must be [n, c, ...], but is ", c.in(0).shape);
  return infer_with(c, {c.in(0).shape[1]});
}

// The formulas above; `over` are the normalized dims, `rest` the dims along which weight is
// constant.
Status expand_with(ExpandContext& c, const Dims& over, const Dims& rest, const Shape& affine) {
  const DType dtype = c.in(0).dtype();
  const Value x = widened(c.in(0)), dy = widened(c.in(2));
  const Value centred = sub(x, mean(x, over, true));
  const Value rstd =
      op("rsqrt", add(mean(mul(centred, centred), over, true), number(x, c.attrs().real("eps"))));
  const Value z = mul(centred, rstd);
  const Value g = given(c, 1) ? mul(dy, reshape(widened(c.in(1)), affine)) : dy;
  const Value inner = sub(sub(g, mean(g, over, true)), mul(z, mean(mul(g, z), over, true)));
  c.set_out(0, cast(mul(inner, rstd), dtype));
  const auto total = [&](const Value& v) {
    return cast(rest.empty() ? v : sum(v, rest), dtype);  // an empty list would mean all dims
  };
  c.set_out(1, total(mul(dy, z)));
  c.set_out(2, total(dy));
  return {};
}

Status layer_norm_grad_expand(ExpandContext& c) {
  const int rank = c.in(0).rank();
  const std::span<const Dim> listed = c.attrs().integers("normalized_shape");
  Dims over, rest;
  for (int i = 0; i < rank; ++i)
    (i < rank - static_cast<int>(listed.size()) ? rest : over).emplace_back(i);
  return expand_with(c, over, rest, Shape(listed.begin(), listed.end()));
}

Status batch_norm_grad_expand(ExpandContext& c) {
  Dims all = {0};
  Shape affine(c.in(0).rank(), Dim(1));
  affine[1] = c.in(0).dim(1);
  for (int i = 2; i < c.in(0).rank(); ++i) all.emplace_back(i);
  return expand_with(c, all, all, affine);
}

constexpr OpDef kOps[] = {
    {.signature = "layer_norm_grad(x, weight?, dy, normalized_shape: int[], eps: float = 1e-5) -> "
                  "dx, dweight, dbias",
     .infer = layer_norm_grad_infer,
     .expand = layer_norm_grad_expand,
     .alias = 0b101,
     .traits = kInternal},
    // For batch_norm in training.
    {.signature = "batch_norm_grad(x, weight?, dy, eps: float = 1e-5) -> dx, dweight, dbias",
     .infer = batch_norm_grad_infer,
     .expand = batch_norm_grad_expand,
     .alias = 0b101,
     .traits = kInternal},
};

}  // namespace

std::span<const OpDef> norm_grad() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
