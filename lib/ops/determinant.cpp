// SPDX-License-Identifier: Apache-2.0
// The derivatives of the determinant, which are polynomials in the elements of the matrix. By the
// singular values they are right for singular matrices too, and for equal singular values.
#include "hg/op.h"
#include "hg/ops/compare.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/matrices.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using term::identity, term::product, term::transpose_last, term::widen;

Value wide(const Value& x) { return x.dtype() == f64 ? x : cast(x, f64); }
Value prod_last(const Value& x) {
  return x.graph()->call("prod", {x}, {{"dim", {-1}}, {"keepdim", true}});
}

// x = u diag(s) vh, s in descending order. Only the two least values may be 0 where products of all
// s but one or two are not 0.
struct Factors {
  explicit Factors(const Value& x) {
    Graph& g = *x.graph();
    const std::vector<Value> parts = g.calls("svd", {x});
    u = parts[0], s = parts[1], vh = parts[2];
    const Dim n = x.dim(-1);
    const Value places = g.call("arange", {}, {{"end", n}});
    const Value count = term::integer(g, n, {1}), one = term::number(s, 1);
    is_last = eq(places, count - 1.0);
    is_second = eq(places, count - 2.0);
    const Value rest = where(logical_or(is_last, is_second), one, s);
    last = prod_last(where(is_last, s, one));
    second = prod_last(where(is_second, s, one));
    all_others = prod_last(rest);
    inverse = reciprocal(where(eq(rest, term::number(s, 0)), one, rest));
    sign = widen(g.call("det", {u}) * g.call("det", {vh}), 0);  // [..., 1]
  }
  // The products of all s but those that `without` selects, times `scale`, 1 / s of the latter
  // beyond the two least.
  Value products(const Value& without_last, const Value& without_second, const Value& scale) const {
    const Value one = term::number(s, 1);
    const auto fit = [&](const Value& x) { return scale.rank() > s.rank() ? widen(x, 0) : x; };
    return fit(all_others) * where(without_last, one, fit(last)) *
           where(without_second, one, fit(second)) * scale;
  }
  Value u, s, vh, is_last, is_second, last, second, all_others, inverse, sign;
};

Status det_grad_infer(InferContext& c) {
  HG_TRY(check_matrix_shape(c, 0, true));
  c.out(0) = c.in(0);
  return {};
}
Status det_grad_grad_infer(InferContext& c) {
  HG_TRY(check_matrix_shape(c, 0, true));
  if (!c.require_equal(c.in(1), c.in(0)))
    return c.fail("dy must be ", c.in(0), ", but is ", c.in(1));
  c.out(0) = c.in(0);
  return {};
}

// y = det(u) det(vh) u diag(products of the other s) vh, which is det(x) x^-T. The CPU has a
// kernel.
Status det_grad_expand(ExpandContext& c) {
  const Factors f(wide(c.in(0)));
  const Value others = f.products(f.is_last, f.is_second, f.inverse) * f.sign;
  c.set_out(0, cast(product(f.u * widen(others, 1), f.vh), c.in(0).dtype()));
  return {};
}
Status det_grad_of(GradContext& c) {
  c.set_grad(0, c.graph().call("det_grad_grad", {c.in(0), c.dout(0)}));
  return {};
}

// With h = u^T dy vh^T and p[a, b] the product of all s but s[a] and s[b], p[a, a] = 0:
// dx = det(u) det(vh) u (diag(p diag(h)) - p h^T) vh
Status det_grad_grad_expand(ExpandContext& c) {
  const Factors f(wide(c.in(0)));
  const Value one = identity(f.s, f.s.dim(-1));
  const Value h = product(product(transpose_last(f.u), wide(c.in(1))), transpose_last(f.vh));
  const auto either = [](const Value& is) { return logical_or(widen(is, 1), widen(is, 0)); };
  const Value p = f.products(either(f.is_last), either(f.is_second),
                             widen(f.inverse, 1) * widen(f.inverse, 0)) *
                  (1.0 - one);
  const Value diagonal = product(p, widen(sum(h * one, {-1}), 0));
  const Value middle = (one * diagonal - p * transpose_last(h)) * widen(f.sign, 1);
  c.set_out(0, cast(product(product(f.u, middle), f.vh), c.in(0).dtype()));
  return {};
}
// With c = det_grad(x), the op is (c sum(c dy) - c dy^T c) / det(x): symmetric in dy and its own
// direction; NaN for singular x in the direction of x.
Status det_grad_grad_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value x = c.in(0), dy = c.in(1), d = c.dout(0);
  if (c.needs(1)) c.set_grad(1, g.call("det_grad_grad", {x, d}));
  if (!c.needs(0)) return {};
  const auto total = [](const Value& v) { return sum(v, {-2, -1}, true); };
  const Value y = g.call("det_grad", {x}), yt = transpose_last(y);
  const Value det = widen(widen(g.call("det", {x}), 0), 0);
  const Value dy_part = total(y * dy), d_part = total(y * d);
  const Value of_y =
      (dy * d_part + d * dy_part - product(product(d, yt), dy) - product(product(dy, yt), d)) / det;
  c.set_grad(0, g.call("det_grad_grad", {x, of_y}) - total(c.out(0) * d) / det * y);
  return {};
}

constexpr OpDef kOps[] = {
    {.signature = "det_grad(x) -> y",
     .infer = det_grad_infer,
     .grad = det_grad_of,
     .expand = det_grad_expand,
     .traits = kInternal},
    {.signature = "det_grad_grad(x, dy) -> dx",
     .infer = det_grad_grad_infer,
     .grad = det_grad_grad_grad,
     .expand = det_grad_grad_expand,
     .traits = kInternal},
};

}  // namespace

std::span<const OpDef> determinant() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
