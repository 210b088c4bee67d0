// SPDX-License-Identifier: Apache-2.0
// Elementwise special functions: Bessel functions, zeta, incomplete gamma, orthogonal polynomials.
#include "hg/ops/special.h"

#include <cmath>

#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"
#include "lib/ops/pointwise.h"
#include "lib/ops/row.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// y = e^(x^2) erfc(x): dx = dy (2 x y - 2 / sqrt(pi)), which cancels for large x: there, its
// asymptotic series
Status erfcx_grad(GradContext& c) {
  constexpr double kScale = 0.56418958354775628694808;  // 1 / sqrt(pi)
  const Value x = c.in(0), far = gt(x, number_like(x, 30));
  const Value r = reciprocal(where(far, x, number_like(x, 30))), t = r * r;
  const Value series =
      t * -kScale * ((((t * (945.0 / 16) - 105.0 / 8) * t + 15.0 / 4) * t - 1.5) * t + 1.0);
  c.set_grad(0, c.dout(0) * where(far, series, x * c.out(0) * 2.0 - 2 * kScale));
  return {};
}
// d I0 = I1; d (e^-|x| I0) = e^-|x| I1 - sign(x) y
Status i0_grad(GradContext& c) {
  c.set_grad(0, c.dout(0) * c.graph().call("bessel_i1", {c.in(0)}));
  return {};
}
Status i0e_grad(GradContext& c) {
  const Value x = c.in(0);
  c.set_grad(0, c.dout(0) * (c.graph().call("bessel_i1e", {x}) - sign(x) * c.out(0)));
  return {};
}
// I1 / x, times e^-|x| if scaled; y is I1 so scaled. Near 0, where derivatives of the quotient
// cancel, the power series of I1 / x.
Value i1_over_x(const Value& x, const Value& y, bool scaled) {
  const Value near = lt(abs(x), number_like(x, 0.25));
  const Value small = where(near, x, number_like(x, 0)), t = small * small * 0.25;
  Value series = t * (1.0 / 172800) + 1.0 / 5760;
  for (const double term : {1.0 / 288, 1.0 / 24, 1.0 / 4, 1.0 / 2}) series = series * t + term;
  if (scaled) series = series * exp(-abs(small));
  return where(near, series, y / where(near, number_like(x, 1), x));
}
// d I1 = I0 - I1 / x; d (e^-|x| I1) = e^-|x| I0 - y sign(x) - y / x
Status i1_grad(GradContext& c) {
  const Value x = c.in(0), y = c.out(0);
  c.set_grad(0, c.dout(0) * (c.graph().call("bessel_i0", {x}) - i1_over_x(x, y, false)));
  return {};
}
Status i1e_grad(GradContext& c) {
  const Value x = c.in(0), y = c.out(0);
  const Value slope = c.graph().call("bessel_i0e", {x}) - y * sign(x) - i1_over_x(x, y, true);
  c.set_grad(0, c.dout(0) * slope);
  return {};
}

// y = psi^(n)(x): the digamma function for n = 0, else (-1)^(n + 1) n! zeta(n + 1, x)
Status polygamma_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const int64_t n = c.attrs().integer("n").constant();
  if (n == 0) {
    c.set_out(0, digamma(x));
    return {};
  }
  const double order = static_cast<double>(n);
  const double factorial = std::exp(std::lgamma(order + 1));
  const double scale = (n % 2 == 0 ? -1 : 1) * (n < 20 ? std::round(factorial) : factorial);
  c.set_out(0, zeta(number_like(x, order + 1), x) * scale);
  return {};
}
Status polygamma_infer(InferContext& c) {
  const Dim n = c.attrs().integer("n");
  if (!n.is_constant() || n.constant() < 0) return c.fail("n must be at least 0, but is ", n);
  return infer_float_unary(c);
}
// dx = dy psi^(n + 1)(x)
Status polygamma_grad(GradContext& c) {
  c.set_grad(0, c.dout(0) * polygamma(c.in(0), c.attrs().integer("n") + 1));
  return {};
}

// d igamma / dx = x^(a - 1) e^-x / gamma(a); the gradient of a is not supported
Value gamma_density(const Value& a, const Value& x) {
  return exp((a - 1.0) * log(x) - x - lgamma(a));
}
Status igamma_grad(GradContext& c) {
  if (c.needs(0)) return unsupported("for its first argument");
  if (c.needs(1)) c.set_grad(1, c.dout(0) * gamma_density(c.in(0), c.in(1)));
  return {};
}
Status igammac_grad(GradContext& c) {
  if (c.needs(0)) return unsupported("for its first argument");
  if (c.needs(1)) c.set_grad(1, -c.dout(0) * gamma_density(c.in(0), c.in(1)));
  return {};
}
// d zeta / dq = -s zeta(s + 1, q); the gradient of s is not supported
Status zeta_grad(GradContext& c) {
  if (c.needs(0)) return unsupported("for its first argument");
  const Value s = c.in(0);
  if (c.needs(1)) c.set_grad(1, -c.dout(0) * (s * zeta(s + 1.0, c.in(1))));
  return {};
}

// As in torch, the other Bessel functions and the polynomials have no gradient.

Status polynomial_infer(InferContext& c) {
  const Result<PolynomialKind> kind = parse_polynomial_kind(c.attrs().string("kind"));
  if (!kind.ok()) return c.fail(kind.status().message());
  return infer_float_binary(c);
}

// Floats only.
constexpr OpDef kOps[] = {
    // e^(x^2) erfc(x)
    unary_row("erfcx(x) -> y", infer_float_unary, erfcx_grad),
    // Modified Bessel function of the first kind, order 0.
    unary_row("bessel_i0(x) -> y", infer_float_unary, i0_grad),
    // e^-|x| * bessel_i0(x)
    unary_row("bessel_i0e(x) -> y", infer_float_unary, i0e_grad),
    // Modified Bessel function of the first kind, order 1.
    unary_row("bessel_i1(x) -> y", infer_float_unary, i1_grad),
    // e^-|x| * bessel_i1(x)
    unary_row("bessel_i1e(x) -> y", infer_float_unary, i1e_grad),
    // Modified Bessel function of the second kind, order 0.
    unary_row("bessel_k0(x) -> y", infer_float_unary),
    // e^x * bessel_k0(x)
    unary_row("bessel_k0e(x) -> y", infer_float_unary),
    // Modified Bessel function of the second kind, order 1.
    unary_row("bessel_k1(x) -> y", infer_float_unary),
    // e^x * bessel_k1(x)
    unary_row("bessel_k1e(x) -> y", infer_float_unary),
    // Bessel function of the first kind, order 0.
    unary_row("bessel_j0(x) -> y", infer_float_unary),
    // Bessel function of the first kind, order 1.
    unary_row("bessel_j1(x) -> y", infer_float_unary),
    // Bessel function of the second kind, order 0.
    unary_row("bessel_y0(x) -> y", infer_float_unary),
    // Bessel function of the second kind, order 1.
    unary_row("bessel_y1(x) -> y", infer_float_unary),
    // sum over k >= 0 of (k + q)^-s
    binary_row("zeta(s, q) -> y", infer_float_binary, zeta_grad),
    // Regularized lower incomplete gamma function.
    binary_row("igamma(a, x) -> y", infer_float_binary, igamma_grad),
    // Regularized upper incomplete gamma function.
    binary_row("igammac(a, x) -> y", infer_float_binary, igammac_grad),
    // The polynomial of degree n at x. Both broadcast.
    binary_row("polynomial(x, n, kind: str) -> y", polynomial_infer),
    // The n-th derivative of digamma.
    {.signature = "polygamma(x, n: int) -> y",
     .infer = polygamma_infer,
     .grad = polygamma_grad,
     .expand = polygamma_expand,
     .traits = kElementwise},
};

}  // namespace

std::span<const OpDef> special() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
