// SPDX-License-Identifier: Apache-2.0
// Running reductions along one dim.
#include "hg/ops/scan.h"

#include <cmath>

#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"
#include "lib/ops/pointwise.h"
#include "lib/ops/row.h"
#include "lib/ops/sort.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

Status infer_same(InferContext& c) {
  HG_TRY(c.axis("dim", c.in(0).rank()).status());
  c.out(0) = c.in(0);
  return {};
}
Status infer_cumulative_total(InferContext& c) {
  HG_TRY(infer_same(c));
  if (!is_float(c.in(0).dtype)) c.out(0).dtype = i64;
  return {};
}
Status infer_cumulative_floats(InferContext& c) {
  if (!is_float(c.in(0).dtype)) return c.fail("x must be floats, it is ", c.in(0).dtype);
  return infer_same(c);
}
Status infer_cumulative_extreme(InferContext& c) {
  HG_TRY(infer_same(c));
  c.out(1) = {i64, c.in(0).shape};
  return {};
}

Value flipped(const Value& x, const Dim& dim) {
  return x.rank() == 0 ? x : x.graph()->call("flip", {x}, {{"dims", std::vector<Dim>{dim}}});
}
int dim_of(const GradContext& c) { return static_cast<int>(c.attrs().integer("dim").constant()); }
// y_i = sum over k >= i of x_k
Value reverse_cumsum(const Value& x, int dim) { return flipped(cumsum(flipped(x, dim), dim), dim); }

// dx_i = sum over k >= i of dy_k
Status cumsum_grad(GradContext& c) {
  c.set_grad(0, reverse_cumsum(c.dout(0), dim_of(c)));
  return {};
}
// Rank 0: dx = dy. Before the first 0: dx_i = sum over k >= i of dy_k y_k / x_i. At the first 0,
// the products omit it. After it, all products are 0, also if x is infinite.
Status cumprod_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  const int dim = dim_of(c);
  if (x.rank() == 0) {
    c.set_grad(0, dy);
    return {};
  }
  const Value zero = number_like(x, 0), one = number_like(x, 1);
  const Value is_zero = eq(x, zero);
  const Value zeros = cumsum(cast(is_zero, x.dtype()), dim);
  const Value first = logical_and(is_zero, eq(zeros, one));
  const auto sums = [&](const Value& count, const Value& products) {
    return reverse_cumsum(where(eq(zeros, count), dy * products, zero), dim);
  };
  const Value before = sums(zero, c.out(0)) / where(is_zero, one, x);
  const Value at_first = sums(one, cumprod(where(first, one, x), dim));
  c.set_grad(0, where(eq(zeros, zero), before, where(first, at_first, zero)));
  return {};
}
// Rank 0: dx = dy. dx_i = e^x_i sum over k >= i of dy_k e^-y_k, computed with logarithms,
// separately for positive and negative dy. Logarithms of dy have no derivative at 0, where forward
// mode takes it, so derivatives are those of the formula itself, unless it overflows.
Status logcumsumexp_grad(GradContext& c) {
  const Value x = c.in(0), y = c.out(0), dy = c.dout(0);
  const int dim = dim_of(c);
  if (x.rank() == 0) {
    c.set_grad(0, dy);
    return {};
  }
  const Value zero = number_like(x, 0), nothing = number_like(x, -HUGE_VAL);
  const auto part = [&](const Value& chosen, const Value& size) {
    const Value logs = where(chosen, log(where(chosen, size, number_like(x, 1))) - y, nothing);
    return exp(flipped(logcumsumexp(flipped(logs, dim), dim), dim) + x);
  };
  const Value stable = part(gt(dy, zero), dy) - part(lt(dy, zero), -dy);
  const auto detached = [&](const Value& value) { return c.graph().call("detach", {value}); };
  const Value most = detached(
      c.graph().call("logsumexp", {x}, {{"dim", std::vector<Dim>{Dim(dim)}}, {"keepdim", true}}));
  // In f64, whose range holds the largest differences of f32.
  const auto wide = [](const Value& value) { return cast(value, f64); };
  const Value direct =
      cast(exp(wide(x) - wide(most)) * reverse_cumsum(wide(dy) * exp(wide(most) - wide(y)), dim),
           x.dtype());
  c.set_grad(0, where(isfinite(direct), detached(stable) + (direct - detached(direct)), stable));
  return {};
}

// Cumulative ops along one dim, in x's shape.
constexpr OpDef kOps[] = {
    // Cumulative sum. Integers and bool return i64.
    row("cumsum(x, dim: int) -> y", infer_cumulative_total, cumsum_grad),
    // Cumulative product. Integers and bool return i64.
    row("cumprod(x, dim: int) -> y", infer_cumulative_total, cumprod_grad),
    // Largest element so far and its index (i64; the last of equal ones). NaN from the first NaN
    // on.
    row("cummax(x, dim: int) -> values, indices", infer_cumulative_extreme, pick_grad),
    // Smallest element so far and its index (i64; the last of equal ones). NaN from the first NaN
    // on.
    row("cummin(x, dim: int) -> values, indices", infer_cumulative_extreme, pick_grad),
    // log of the cumulative sum of e^x. Floats only.
    row("logcumsumexp(x, dim: int) -> y", infer_cumulative_floats, logcumsumexp_grad),
};

}  // namespace

std::span<const OpDef> scan() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
