// SPDX-License-Identifier: Apache-2.0
// Composites of several families: gates, similarities and distances.
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

// Whether the weight of prelu has one element per channel (dim 1) of x.
bool is_per_channel(const Value& x, const Value& weight) {
  return weight.rank() == 1 && !(weight.dim(0) == Dim(1)) && x.rank() > 1;
}
// The weight of prelu as it broadcasts to x.
Value channel_weight(const Value& x, const Value& weight) {
  if (!is_per_channel(x, weight))
    return weight.rank() == 1 && x.rank() == 0 ? term::reshape(weight, {}) : weight;
  Shape shape(x.rank(), Dim(1));
  shape[1] = weight.dim(0);
  return term::reshape(weight, shape);
}
// x where x > 0, else weight x
Status prelu(ExpandContext& c) {
  const Value x = c.in(0), weight = c.in(1);
  if (is_per_channel(x, weight) && !guard_equal(c, weight.dim(0), x.dim(1)))
    return invalid_argument("prelu: weight is ", weight.shape(), ", x is ", x.shape());
  c.set_out(0, where(gt(x, term::number(x, 0)), x, channel_weight(x, weight) * x));
  return {};
}
// dx = x > 0 ? dy : weight dy; dweight = x >= 0 ? 0 : x dy. At 0 the derivatives of both are 0, as
// in torch.
Status prelu_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0), weight = channel_weight(x, c.in(1));
  const Value zero = term::number(x, 0);
  if (c.needs(0)) {
    const Value slope = where(eq(x, zero), term::op("detach", weight), weight);
    c.set_grad(0, where(gt(x, zero), dy, slope * dy));
  }
  if (c.needs(1)) {
    Dims over;
    for (int d = 0; d < x.rank(); ++d)
      if (d != 1) over.emplace_back(d);
    const Value part = where(ge(x, zero), zero, x * dy);
    c.set_grad(1, is_per_channel(x, c.in(1)) ? hg::sum(part, over) : part);
  }
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
  const Dims over = d.rank() == 0 ? Dims{} : Dims{-1};
  c.set_out(0, call_with(c.graph(), "norm", {d}, {{"ord", real(c, "p")}},
                         {{"dim", over}, {"keepdim", c.attrs().flag("keepdim")}}));
  return {};
}

constexpr OpDef kOps[] = {
    // a * sigmoid(b), where a and b are the halves of x along dim.
    {.signature = "glu(x, dim: int = -1) -> y", .expand = glu},
    // x > 0 ? x : weight * x. weight: [1], or [channels] for dim 1 of x.
    {.signature = "prelu(x, weight) -> y", .grad = prelu_grad, .expand = prelu},
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
