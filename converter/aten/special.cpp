// SPDX-License-Identifier: Apache-2.0
// Special functions.
#include "hg/ops/special.h"

#include <cmath>
#include <numbers>

#include "converter/aten/pointwise.h"
#include "hg/ops/compare.h"
#include "hg/ops/factory.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

// Returns the argument of a function of one tensor, named x in some schemas.
Value promoted_self(Call& call) {
  return call.promoted({call.find("self") != nullptr ? "self" : "x"}, true)[0];
}

template <const char* op>
void unary_op(Call& call) {
  call.returns(call.graph().call(op, {promoted_self(call)}));
}
constexpr char kErfcx[] = "erfcx", kI0[] = "bessel_i0", kI0e[] = "bessel_i0e", kI1[] = "bessel_i1";
constexpr char kI1e[] = "bessel_i1e", kK0[] = "bessel_k0", kK0e[] = "bessel_k0e";
constexpr char kK1[] = "bessel_k1", kK1e[] = "bessel_k1e", kJ0[] = "bessel_j0";
constexpr char kJ1[] = "bessel_j1", kY0[] = "bessel_y0", kY1[] = "bessel_y1";

void zeta_of(Call& call) {
  const Values v = call.promoted({"self", "other"}, true);
  call.returns(hg::zeta(v[0], v[1]));
}
void igamma_of(Call& call) {
  const Values v = call.promoted({"self", "other"}, true);
  call.returns(hg::igamma(v[0], v[1]));
}
void igammac_of(Call& call) {
  const Values v = call.promoted({"self", "other"}, true);
  call.returns(hg::igammac(v[0], v[1]));
}
void polygamma_of(Call& call) {
  if (call.number("n") < 0) call.refuse("n", "must be at least 0");
  call.returns(hg::polygamma(promoted_self(call), call.size("n")));
}
// Log of the multivariate gamma function: p (p - 1) / 4 log pi + sum over j < p of lgamma(x - j /
// 2).
void mvlgamma_by_data(Call& call) {
  const Dim p = call.size("p");
  call.graph().guard(1, Relation::le, p, "an order of mvlgamma");
  const Value x = promoted_self(call), order = hg::cast(call.tensor("p"), x.dtype());
  Shape each = x.shape();
  each.emplace_back(1);
  const Value steps = arange(call.graph(), 0, max(p, 1), 1, x.dtype()) * 0.5;
  const Value parts = sum(lgamma(reshape(x, each) - steps), {x.rank()});
  call.returns(parts + order * (order - 1) * (std::log(std::numbers::pi) / 4));
}
void mvlgamma(Call& call) {
  if (call.is_of_data("p")) return mvlgamma_by_data(call);
  const int64_t p = call.number("p");
  if (p < 1) call.refuse("p", "must be at least 1");
  const Value x = promoted_self(call);
  const double scale = static_cast<double>(p * (p - 1)) / 4;
  Value y = lgamma(x) + scale * std::log(std::numbers::pi);
  for (int64_t j = 1; j < p; ++j) y = y + lgamma(x - static_cast<double>(j) / 2);
  call.returns(y);
}
// -x log x; 0 at 0; -inf for x < 0.
void entr(Call& call) {
  const Value x = promoted_self(call);
  const Value inside = -xlogy(x, x);
  call.returns(hg::where(lt(x, number_like(x, 0)), number_like(x, -HUGE_VAL), inside));
}
// The normal distribution: erfc(-x / sqrt 2) / 2, its logarithm, and its inverse.
void ndtr(Call& call) {
  const Value x = promoted_self(call);
  call.returns(erfc(x * (-std::numbers::sqrt2 / 2)) * 0.5);
}
void log_ndtr(Call& call) {
  const Value x = promoted_self(call);
  const Value t = x * (std::numbers::sqrt2 / 2);
  const Value low = lt(x, number_like(x, -1));
  const Value t_low = hg::where(low, t, number_like(x, -1)),
              t_high = hg::where(low, number_like(x, 0), t);
  const Value tail = log(erfcx(-t_low) * 0.5) - t_low * t_low;
  call.returns(hg::where(low, tail, log1p(erfc(t_high) * -0.5)));
}
// sqrt(2) erfinv(2p - 1). Near 0 this loses all digits. There, solves log Phi(y) = log p with
// Newton's method, starting from the first terms of the asymptotic series, with Phi(y) = e^(-y^2 /
// 2) erfcx(-y / sqrt(2)) / 2.
void ndtri(Call& call) {
  const Value x = promoted_self(call);
  const Value p = convert::cast(x, f64), half = number_like(p, 0.5);
  const Value is_low = logical_and(lt(p, number_like(p, 1e-5)), ne(p, number_like(p, 0)));
  const Value high = erfinv(hg::where(is_low, half, p) * 2.0 - 1.0) * std::numbers::sqrt2;
  const Value log_p = log(hg::where(is_low, p, number_like(p, 1e-6)));
  Value y = -sqrt(log_p * -2.0 - log(log_p * -2.0) - std::log(2 * std::numbers::pi));
  for (int step = 0; step < 3; ++step) {
    const Value e = erfcx(y * (-std::numbers::sqrt2 / 2));
    y = y -
        (log(e * 0.5) - y * y * 0.5 - log_p) * e / (std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  }
  call.returns(convert::cast(hg::where(is_low, y, high), x.dtype()));
}
// x = m 2^e with m in [0.5, 1). Tiny numbers are scaled by a power of two first. Corrects the
// result if log2 rounds across an integer.
void frexp(Call& call) {
  const Value given = call.tensor("self");
  if (!is_float(given.dtype())) call.refuse("self", str_cat("is ", given.dtype()));
  const Value x = convert::cast(given, f64);
  const auto real = [&](double value) { return number_like(x, value); };
  const Value is_tiny = lt(abs(x), real(0x1p-960));
  const Value usual = logical_and(isfinite(x), ne(x, real(0)));
  const Value y = hg::where(usual, hg::where(is_tiny, x * 0x1p100, x), real(1));
  const Value e = floor(log2(abs(y))) + 1.0;
  const Value m = y * exp2(-e);
  const Value large = ge(abs(m), real(1)), small = lt(abs(m), real(0.5));
  const Value mantissa = hg::where(large, m * 0.5, hg::where(small, m * 2.0, m));
  const Value exponent = e + hg::where(large, real(1), hg::where(small, real(-1), real(0))) -
                         hg::where(is_tiny, real(100), real(0));
  call.returns(Values{convert::cast(hg::where(usual, mantissa, x), given.dtype()),
                      convert::cast(hg::where(usual, exponent, real(0)), i32)});
}
// x log(1 + y); 0 if x is 0 and y is not NaN.
void xlog1py(Call& call) {
  const Values v = call.promoted({"self", "other"}, true);
  const Value zero = number_like(v[0], 0);
  const Value flat = logical_and(eq(v[0], zero), logical_not(isnan(v[1])));
  const Value safe = hg::where(flat, zero, v[1]);
  call.returns(hg::where(flat, zero, v[0] * log1p(safe)));
}
// sin(x) / x; 1 at 0 and 0 at infinity.
void spherical_bessel_j0(Call& call) {
  const Value x = promoted_self(call);
  const Value is_zero = eq(x, number_like(x, 0)), one = number_like(x, 1);
  const Value some = hg::where(is_zero, one, x), y = hg::sin(some) / some;
  call.returns(hg::where(hg::isinf(x), number_like(x, 0), hg::where(is_zero, one, y)));
}

// special_chebyshev_polynomial_t becomes "chebyshev_t".
void polynomial_of(Call& call) {
  std::string kind(op_name(call));
  const size_t at = kind.find("_polynomial");
  kind.erase(at, std::string_view("_polynomial").size());
  call.returns(call.graph().call("polynomial", call.promoted({"x", "n"}, true), {{"kind", kind}}));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {"aten::frexp", frexp},
    {"aten::special_erfcx", unary_op<kErfcx>},
    {"aten::i0", unary_op<kI0>},
    {"aten::special_i0", unary_op<kI0>},
    {"aten::special_i0e", unary_op<kI0e>},
    {"aten::special_i1", unary_op<kI1>},
    {"aten::special_i1e", unary_op<kI1e>},
    {"aten::special_modified_bessel_i0", unary_op<kI0>},
    {"aten::special_modified_bessel_i1", unary_op<kI1>},
    {"aten::special_modified_bessel_k0", unary_op<kK0>},
    {"aten::special_modified_bessel_k1", unary_op<kK1>},
    {"aten::special_scaled_modified_bessel_k0", unary_op<kK0e>},
    {"aten::special_scaled_modified_bessel_k1", unary_op<kK1e>},
    {"aten::special_bessel_j0", unary_op<kJ0>},
    {"aten::special_bessel_j1", unary_op<kJ1>},
    {"aten::special_bessel_y0", unary_op<kY0>},
    {"aten::special_bessel_y1", unary_op<kY1>},
    {"aten::special_zeta", zeta_of},
    {"aten::igamma", igamma_of},
    {"aten::special_gammainc", igamma_of},
    {"aten::igammac", igammac_of},
    {"aten::special_gammaincc", igammac_of},
    {"aten::polygamma", polygamma_of},
    {"aten::special_polygamma", polygamma_of},
    {"aten::mvlgamma", mvlgamma},
    {"aten::special_multigammaln", mvlgamma},
    {"aten::special_entr", entr},
    {"aten::special_ndtr", ndtr},
    {"aten::special_log_ndtr", log_ndtr},
    {"aten::special_ndtri", ndtri},
    {"aten::special_xlog1py", xlog1py},
    {"aten::special_spherical_bessel_j0", spherical_bessel_j0},
    {"aten::special_chebyshev_polynomial_t", polynomial_of},
    {"aten::special_chebyshev_polynomial_u", polynomial_of},
    {"aten::special_chebyshev_polynomial_v", polynomial_of},
    {"aten::special_chebyshev_polynomial_w", polynomial_of},
    {"aten::special_shifted_chebyshev_polynomial_t", polynomial_of},
    {"aten::special_shifted_chebyshev_polynomial_u", polynomial_of},
    {"aten::special_shifted_chebyshev_polynomial_v", polynomial_of},
    {"aten::special_shifted_chebyshev_polynomial_w", polynomial_of},
    {"aten::special_hermite_polynomial_h", polynomial_of},
    {"aten::special_hermite_polynomial_he", polynomial_of},
    {"aten::special_laguerre_polynomial_l", polynomial_of},
    {"aten::special_legendre_polynomial_p", polynomial_of},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> special() { return kTable; }

}  // namespace hg::convert::rows
