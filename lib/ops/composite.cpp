// SPDX-License-Identifier: Apache-2.0
// Composites of several families: gates, similarities and distances.
#include <cmath>

#include "hg/op.h"
#include "lib/graph/real.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// a sigmoid(b), where a and b are the halves of x along dim
Status glu(ExpandContext& c) {
  const Value x = c.in(0);
  HG_TRY_ASSIGN(const int axis, c.axis("dim", x.rank()));
  if (x.rank() == 0 || (x.dim(axis).is_constant() && x.dim(axis).constant() % 2 != 0))
    return invalid_argument("glu: dim ", axis, " of ", x.shape(), " does not divide by 2");
  const Dim half = floordiv(x.dim(axis), 2);
  const Value a = term::slice(x, axis, 0, half), b = term::slice(x, axis, half, x.dim(axis));
  // The halves of an odd size would differ, and could broadcast or be empty.
  c.set_out(0, a * sigmoid(term::reshape(b, a.shape())));
  return {};
}

// x where x > 0, else weight x; weight has one element, or one per channel (dim 1)
Status prelu(ExpandContext& c) {
  const Value x = c.in(0);
  Value weight = c.in(1);
  if (weight.rank() == 1 && !(weight.dim(0) == Dim(1)) && x.rank() > 1) {
    if (!guard_equal(c, weight.dim(0), x.dim(1)))
      return invalid_argument("prelu: weight is ", weight.shape(), ", x is ", x.shape());
    Shape shape(x.rank(), Dim(1));
    shape[1] = weight.dim(0);
    weight = term::reshape(weight, shape);
  } else if (weight.rank() == 1 && x.rank() == 0) {
    weight = term::reshape(weight, {});
  }
  c.set_out(0, where(gt(x, term::number(x, 0)), x, weight * x));
  return {};
}

// sum(x1 x2) / (max(|x1|, eps) max(|x2|, eps)) over dim
Status cosine_similarity(ExpandContext& c) {
  Result<Shape> shape = broadcast(c.in(0).shape(), c.in(1).shape());
  if (!shape.ok())
    return invalid_argument("cosine_similarity: ", c.in(0).shape(), " and ", c.in(1).shape(),
                            " do not broadcast");
  const Value a = term::expand(c.in(0), *shape), b = term::expand(c.in(1), *shape);
  HG_TRY_ASSIGN(const int axis, c.axis("dim", a.rank()));
  const Real eps = real(c, "eps");
  const Dims over = a.rank() == 0 ? Dims{} : Dims{axis};
  // The square root of the larger square has gradient 0 at 0.
  auto unit = [&](const Value& x) {
    const Value square = hg::sum(x * x, over, true);
    return x / sqrt(maximum(square, (eps * eps).like(square)));
  };
  c.set_out(0, hg::sum(unit(a) * unit(b), over));
  return {};
}

// |x1 - x2 + eps|_p over the last dim
Status pairwise_distance(ExpandContext& c) {
  const Value d = c.in(0) - c.in(1) + real(c, "eps");
  const bool keepdim = c.attrs().flag("keepdim");
  const Dims over = d.rank() == 0 ? Dims{} : Dims{-1};
  const Real p = real(c, "p");
  Value y;
  if (p.is(0)) {
    y = hg::sum(cast(ne(d, term::number(d, 0)), d.dtype()), over, keepdim);
  } else if (p.is(1)) {
    y = hg::sum(abs(d), over, keepdim);
  } else if (p.is(2)) {
    y = sqrt(hg::sum(d * d, over, keepdim));
  } else if (!p.is_known()) {
    y = call_with(c.graph(), "norm", {d}, {{"ord", p}}, {{"dim", over}, {"keepdim", keepdim}});
  } else if (std::isinf(p.known())) {
    y = p.known() > 0 ? amax(abs(d), over, keepdim) : amin(abs(d), over, keepdim);
  } else {
    const Value total = hg::sum(pow(abs(d), p.like(d)), over, keepdim);
    y = pow(total, (1 / p).like(total));
  }
  c.set_out(0, y);
  return {};
}

constexpr OpDef kOps[] = {
    // a * sigmoid(b), where a and b are the halves of x along dim.
    {.signature = "glu(x, dim: int = -1) -> y", .expand = glu},
    // x > 0 ? x : weight * x. weight: [1], or [channels] for dim 1 of x.
    {.signature = "prelu(x, weight) -> y", .expand = prelu},
    // sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps)) along dim. Shapes broadcast.
    {.signature = "cosine_similarity(x1, x2, dim: int = 1, eps: float = 1e-8) -> y",
     .expand = cosine_similarity},
    // The p-norm of x1 - x2 + eps over the last dim. Shapes broadcast.
    {.signature = "pairwise_distance(x1, x2, p: float = 2.0, eps: float = 1e-6, keepdim: bool = "
                  "false) -> y",
     .expand = pairwise_distance},
};

}  // namespace

std::span<const OpDef> composite() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
