// SPDX-License-Identifier: Apache-2.0
// Elementwise functions of one tensor.
#include "hg/ops/unary.h"

#include <numbers>

#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "lib/ops/pointwise.h"
#include "lib/ops/row.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// Gradients. x is the input, y the output, dy the gradient of y; each returns dx.
using Formula = Value (*)(const Value& x, const Value& y, const Value& dy);

template <Formula formula>
Status unary_grad(GradContext& c) {
  c.set_grad(0, formula(c.in(0), c.out(0), c.dout(0)));
  return {};
}

using V = const Value&;
Value neg_dx(V, V, V dy) { return -dy; }
Value abs_dx(V x, V, V dy) { return dy * sign(x); }
Value sqrt_dx(V, V y, V dy) { return dy / (y * 2.0); }
Value rsqrt_dx(V, V y, V dy) { return dy * -0.5 * (y * y * y); }
Value reciprocal_dx(V, V y, V dy) { return -dy * (y * y); }
Value exp_dx(V, V y, V dy) { return dy * y; }
Value exp2_dx(V, V y, V dy) { return dy * y * std::numbers::ln2; }
Value expm1_dx(V, V y, V dy) { return dy * (y + 1.0); }
Value log_dx(V x, V, V dy) { return dy / x; }
Value log2_dx(V x, V, V dy) { return dy / (x * std::numbers::ln2); }
Value log10_dx(V x, V, V dy) { return dy / (x * std::numbers::ln10); }
Value log1p_dx(V x, V, V dy) { return dy / (x + 1.0); }
Value sin_dx(V x, V, V dy) { return dy * cos(x); }
Value cos_dx(V x, V, V dy) { return -dy * sin(x); }
Value tan_dx(V, V y, V dy) { return dy * (y * y + 1.0); }
Value asin_dx(V x, V, V dy) { return dy * rsqrt(1.0 - x * x); }
Value acos_dx(V x, V, V dy) { return -dy * rsqrt(1.0 - x * x); }
Value atan_dx(V x, V, V dy) { return dy / (x * x + 1.0); }
Value sinh_dx(V x, V, V dy) { return dy * cosh(x); }
Value cosh_dx(V x, V, V dy) { return dy * sinh(x); }
Value tanh_dx(V, V y, V dy) { return dy * (1.0 - y * y); }
Value asinh_dx(V x, V, V dy) { return dy * rsqrt(x * x + 1.0); }
Value acosh_dx(V x, V, V dy) { return dy * rsqrt(x * x - 1.0); }
Value atanh_dx(V x, V, V dy) { return dy / (1.0 - x * x); }
// d erf = 2 / sqrt(pi) e^(-x^2)
Value erf_dx(V x, V, V dy) { return dy * (exp(-(x * x)) * (2 * std::numbers::inv_sqrtpi)); }
Value erfc_dx(V x, V, V dy) { return dy * (exp(-(x * x)) * (-2 * std::numbers::inv_sqrtpi)); }
// d erfinv = sqrt(pi) / 2 e^(y^2)
Value erfinv_dx(V, V y, V dy) { return dy * (exp(y * y) * (0.5 / std::numbers::inv_sqrtpi)); }
Value lgamma_dx(V x, V, V dy) { return dy * digamma(x); }
Value digamma_dx(V x, V, V dy) { return dy * x.graph()->call("polygamma", {x}, {{"n", 1}}); }
Value sigmoid_dx(V, V y, V dy) { return dy * (y * (1.0 - y)); }
// d sinc = (cos(pi x) - sinc(x)) / x, which cancels near 0: there, its power series
Value sinc_dx(V x, V y, V dy) {
  const Value near = lt(abs(x), number_like(x, 0.05)), one = number_like(x, 1);
  const Value u = where(near, x * std::numbers::pi, number_like(x, 0)), t = u * u;
  const Value series =
      u * std::numbers::pi *
      ((((t * (-1.0 / 3991680) + 1.0 / 45360) * t - 1.0 / 840) * t + 1.0 / 30) * t - 1.0 / 3);
  return dy * where(near, series, (cos(x * std::numbers::pi) - y) / where(near, one, x));
}
// dy where x is finite
Value nan_to_num_dx(V x, V, V dy) { return where(isfinite(x), dy, number_like(dy, 0)); }

// y = x x
Status square_expand(ExpandContext& c) {
  c.set_out(0, c.in(0) * c.in(0));
  return {};
}
// y = x - trunc(x)
Status frac_expand(ExpandContext& c) {
  c.set_out(0, c.in(0) - trunc(c.in(0)));
  return {};
}

// Elementwise functions of one tensor. The result has x's shape, and x's dtype unless stated
// otherwise. Functions that are not exact on integers require floats.
constexpr OpDef kOps[] = {
    // -x
    unary_row<kKeepsFinite>("neg(x) -> y", infer_number_unary, unary_grad<neg_dx>),
    // |x|
    unary_row("abs(x) -> y", infer_number_unary, unary_grad<abs_dx>),
    // -1, 0 or 1; 0 for NaN
    unary_row("sign(x) -> y", infer_number_unary, nullptr),
    // Square root.
    unary_row("sqrt(x) -> y", infer_float_unary, unary_grad<sqrt_dx>),
    // 1 / sqrt(x)
    unary_row("rsqrt(x) -> y", infer_float_unary, unary_grad<rsqrt_dx>),
    // 1 / x
    unary_row("reciprocal(x) -> y", infer_float_unary, unary_grad<reciprocal_dx>),
    // e^x
    unary_row("exp(x) -> y", infer_float_unary, unary_grad<exp_dx>),
    // 2^x
    unary_row("exp2(x) -> y", infer_float_unary, unary_grad<exp2_dx>),
    // e^x - 1
    unary_row("expm1(x) -> y", infer_float_unary, unary_grad<expm1_dx>),
    // Natural logarithm.
    unary_row("log(x) -> y", infer_float_unary, unary_grad<log_dx>),
    // Logarithm to base 2.
    unary_row("log2(x) -> y", infer_float_unary, unary_grad<log2_dx>),
    // Logarithm to base 10.
    unary_row("log10(x) -> y", infer_float_unary, unary_grad<log10_dx>),
    // log(1 + x)
    unary_row("log1p(x) -> y", infer_float_unary, unary_grad<log1p_dx>),
    // Sine.
    unary_row("sin(x) -> y", infer_float_unary, unary_grad<sin_dx>),
    // Cosine.
    unary_row("cos(x) -> y", infer_float_unary, unary_grad<cos_dx>),
    // Tangent.
    unary_row("tan(x) -> y", infer_float_unary, unary_grad<tan_dx>),
    // Inverse sine.
    unary_row("asin(x) -> y", infer_float_unary, unary_grad<asin_dx>),
    // Inverse cosine.
    unary_row("acos(x) -> y", infer_float_unary, unary_grad<acos_dx>),
    // Inverse tangent.
    unary_row("atan(x) -> y", infer_float_unary, unary_grad<atan_dx>),
    // Hyperbolic sine.
    unary_row("sinh(x) -> y", infer_float_unary, unary_grad<sinh_dx>),
    // Hyperbolic cosine.
    unary_row("cosh(x) -> y", infer_float_unary, unary_grad<cosh_dx>),
    // Hyperbolic tangent.
    unary_row("tanh(x) -> y", infer_float_unary, unary_grad<tanh_dx>),
    // Inverse hyperbolic sine.
    unary_row("asinh(x) -> y", infer_float_unary, unary_grad<asinh_dx>),
    // Inverse hyperbolic cosine.
    unary_row("acosh(x) -> y", infer_float_unary, unary_grad<acosh_dx>),
    // Inverse hyperbolic tangent.
    unary_row("atanh(x) -> y", infer_float_unary, unary_grad<atanh_dx>),
    // Error function.
    unary_row("erf(x) -> y", infer_float_unary, unary_grad<erf_dx>),
    // 1 - erf(x)
    unary_row("erfc(x) -> y", infer_float_unary, unary_grad<erfc_dx>),
    // Inverse of erf.
    unary_row("erfinv(x) -> y", infer_float_unary, unary_grad<erfinv_dx>),
    // log |gamma(x)|
    unary_row("lgamma(x) -> y", infer_float_unary, unary_grad<lgamma_dx>),
    // Derivative of lgamma.
    unary_row("digamma(x) -> y", infer_float_unary, unary_grad<digamma_dx>),
    // 1 / (1 + e^-x)
    unary_row("sigmoid(x) -> y", infer_float_unary, unary_grad<sigmoid_dx>),
    // sin(pi x) / (pi x)
    unary_row("sinc(x) -> y", infer_float_unary, unary_grad<sinc_dx>),
    // Rounds toward minus infinity.
    unary_row("floor(x) -> y", infer_float_unary, nullptr),
    // Rounds toward infinity.
    unary_row("ceil(x) -> y", infer_float_unary, nullptr),
    // Rounds toward zero.
    unary_row("trunc(x) -> y", infer_float_unary, nullptr),
    // Rounds to this number of decimals, ties to even.
    unary_row("round(x, decimals: int = 0) -> y", infer_float_unary, nullptr),
    // Replaces NaN and infinities. By default, infinities become the largest finite numbers.
    unary_row("nan_to_num(x, nan: float = 0.0, posinf: float?, neginf: float?) -> y",
              infer_float_unary, unary_grad<nan_to_num_dx>),
    // Whether x is NaN: bool.
    unary_row("isnan(x) -> y", infer_test_unary, nullptr),
    // Whether x is an infinity: bool.
    unary_row("isinf(x) -> y", infer_test_unary, nullptr),
    // Whether x is neither NaN nor an infinity: bool.
    unary_row("isfinite(x) -> y", infer_test_unary, nullptr),
    // Whether the sign bit is set: bool. True for -0.0.
    unary_row("signbit(x) -> y", infer_test_unary, nullptr),
    // x == 0: bool.
    unary_row("logical_not(x) -> y", infer_test_unary, nullptr),
    // Integers and bool only.
    unary_row("bitwise_not(x) -> y", infer_bit_unary, nullptr),
    // x * x
    {.signature = "square(x) -> y",
     .infer = infer_number_unary,
     .expand = square_expand,
     .traits = kElementwise},
    // x - trunc(x)
    {.signature = "frac(x) -> y",
     .infer = infer_float_unary,
     .expand = frac_expand,
     .traits = kElementwise},
};

}  // namespace

std::span<const OpDef> unary() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
