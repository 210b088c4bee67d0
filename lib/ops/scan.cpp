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
  if (!is_float(c.in(0).dtype)) return c.fail("x must be floats, but is ", c.in(0).dtype);
  return infer_same(c);
}
Status infer_linear_scan(InferContext& c) {
  const TensorType &a = c.in(0), &b = c.in(1);
  if (!is_float(b.dtype) || a.dtype != b.dtype || a.rank() != b.rank())
    return c.fail("a and b must be floats of one shape, but are ", a, " and ", b);
  for (int d = 0; d < a.rank(); ++d)
    if (!c.require_equal(a.shape[static_cast<size_t>(d)], b.shape[static_cast<size_t>(d)]))
      return c.fail("a and b must have one shape, but are ", a, " and ", b);
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
// x moved by one along dim, forwards or backwards; `fill` enters.
Value moved(const Value& x, int dim, bool forwards, double fill) {
  std::vector<Dim> pads(2 * static_cast<size_t>(x.rank()), Dim(0));
  pads[static_cast<size_t>(2 * dim + (forwards ? 0 : 1))] = 1;
  const Dim from = forwards ? 0 : 1;
  Graph& g = *x.graph();
  const Value wide = g.call("pad", {x}, {{"pads", pads}, {"value", fill}});
  return g.call("slice", {wide}, {{"dim", dim}, {"start", from}, {"end", from + x.dim(dim)}});
}
// Rank 0: dx = dy. dx_k is the product before k times s_k, where s_k = dy_k + x_(k+1) s_(k+1). This
// is right at zeros, also in derivatives of it.
Status cumprod_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  if (x.rank() == 0) {
    c.set_grad(0, dy);
    return {};
  }
  HG_TRY_ASSIGN(const int dim, c.axis("dim", x.rank()));
  const Value sums =
      flipped(linear_scan(flipped(moved(x, dim, false, 0), dim), flipped(dy, dim), dim), dim);
  const Value before = moved(c.out(0), dim, true, 1), zero = number_like(x, 0);
  const Value counts = logical_or(isfinite(sums), ne(before, zero));  // not 0 times infinity
  c.set_grad(0, where(counts, before * sums, zero));
  return {};
}
// The gradient of b is g_k = dy_k + a_(k+1) g_(k+1), that of a is g_k y_(k-1).
Status linear_scan_grad(GradContext& c) {
  const Value a = c.in(0), dy = c.dout(0);
  if (a.rank() == 0) {
    c.set_grad(0, number_like(a, 0));
    c.set_grad(1, dy);
    return {};
  }
  HG_TRY_ASSIGN(const int dim, c.axis("dim", a.rank()));
  const Value sums =
      flipped(linear_scan(flipped(moved(a, dim, false, 0), dim), flipped(dy, dim), dim), dim);
  if (c.needs(0)) c.set_grad(0, sums * moved(c.out(0), dim, true, 0));
  if (c.needs(1)) c.set_grad(1, sums);
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
    // y_k = a_k y_(k-1) + b_k along dim, from y_0 = b_0; summed in f64. Floats of one shape. a_k =
    // 0
    // starts anew, also after infinities.
    row("linear_scan(a, b, dim: int) -> y", infer_linear_scan, linear_scan_grad),
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
