// SPDX-License-Identifier: Apache-2.0
// Elementwise functions of one tensor.
#include <cmath>
#include <numbers>

#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

// By bisection: erf is increasing.
double erfinv(double y) {
  double low = -6, high = 6;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    // erfc has digits where erf is nearly 1
    const bool is_low = std::abs(y) < 0.5 ? std::erf(middle) < y
                        : y > 0           ? std::erfc(middle) > 1 - y
                                          : std::erfc(-middle) < 1 + y;
    (is_low ? low : high) = middle;
  }
  return (low + high) / 2;
}
// By the recurrence up to 1e4 and two terms of the asymptotic series.
double digamma(double x) {
  double sum = 0;
  for (; x < 1e4; x += 1) sum -= 1 / x;
  return sum + std::log(x) - 0.5 / x - 1 / (12 * x * x);
}
// As in torch, 10^decimals and the products are f32 unless x is f64, so they may overflow.
template <class T>
double round_to(T x, int64_t decimals) {
  const T ten = static_cast<T>(std::pow(10.0, std::abs(static_cast<double>(decimals))));
  if (decimals == 0) return std::nearbyint(x);
  return decimals > 0 ? std::nearbyint(x * ten) / ten : std::nearbyint(x / ten) * ten;
}
void round(const Call& c) {
  const int64_t decimals = c.attrs.integer("decimals");
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    const double x = c.in[0].at(i);
    c.out[0].at(i) =
        c.in[0].dtype == f64 ? round_to(x, decimals) : round_to(static_cast<float>(x), decimals);
  }
}
double nan_to_num(double x, const KernelAttrs& attrs) {
  if (std::isnan(x)) return attrs.real("nan");
  if (std::isinf(x) && x > 0) return attrs.real("posinf");
  if (std::isinf(x)) return attrs.real("neginf");
  return x;
}
double sinc(double x) {
  return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}
void bitwise_not(const Call& c) {
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    const double x = c.in[0].at(i);
    c.out[0].at(i) =
        c.in[0].dtype == boolean ? x == 0 : static_cast<double>(~static_cast<int64_t>(x));
  }
}

// This many steps per element.
template <int steps>
double steps_of(const Call& c) {
  return steps * static_cast<double>(c.out[0].count());
}

constexpr Row kRows[] = {
    {"neg", unary_loop<[](double x) { return -x; }>},
    {"abs", unary_loop<[](double x) { return std::abs(x); }>},
    {"sign", unary_loop<[](double x) { return double(x > 0) - double(x < 0); }>},
    {"sqrt", unary_loop<[](double x) { return std::sqrt(x); }>},
    {"rsqrt", unary_loop<[](double x) { return 1 / std::sqrt(x); }>},
    {"reciprocal", unary_loop<[](double x) { return 1 / x; }>},
    {"exp", unary_loop<[](double x) { return std::exp(x); }>},
    {"exp2", unary_loop<[](double x) { return std::exp2(x); }>},
    {"expm1", unary_loop<[](double x) { return std::expm1(x); }>},
    {"log", unary_loop<[](double x) { return std::log(x); }>},
    {"log2", unary_loop<[](double x) { return std::log2(x); }>},
    {"log10", unary_loop<[](double x) { return std::log10(x); }>},
    {"log1p", unary_loop<[](double x) { return std::log1p(x); }>},
    {"sin", unary_loop<[](double x) { return std::sin(x); }>},
    {"cos", unary_loop<[](double x) { return std::cos(x); }>},
    {"tan", unary_loop<[](double x) { return std::tan(x); }>},
    {"asin", unary_loop<[](double x) { return std::asin(x); }>},
    {"acos", unary_loop<[](double x) { return std::acos(x); }>},
    {"atan", unary_loop<[](double x) { return std::atan(x); }>},
    {"sinh", unary_loop<[](double x) { return std::sinh(x); }>},
    {"cosh", unary_loop<[](double x) { return std::cosh(x); }>},
    {"tanh", unary_loop<[](double x) { return std::tanh(x); }>},
    {"asinh", unary_loop<[](double x) { return std::asinh(x); }>},
    {"acosh", unary_loop<[](double x) { return std::acosh(x); }>},
    {"atanh", unary_loop<[](double x) { return std::atanh(x); }>},
    {"erf", unary_loop<[](double x) { return std::erf(x); }>},
    {"erfc", unary_loop<[](double x) { return std::erfc(x); }>},
    {"erfinv", unary_loop<erfinv>, steps_of<200 * 10>},
    {"lgamma", unary_loop<[](double x) { return std::lgamma(x); }>},
    {"digamma", unary_loop<digamma>, steps_of<10000>},
    {"sigmoid", unary_loop<[](double x) { return 1 / (1 + std::exp(-x)); }>},
    {"sinc", unary_loop<sinc>},
    {"floor", unary_loop<[](double x) { return std::floor(x); }>},
    {"ceil", unary_loop<[](double x) { return std::ceil(x); }>},
    {"trunc", unary_loop<[](double x) { return std::trunc(x); }>},
    {"round", round},
    {"nan_to_num", unary_loop_with_attrs<nan_to_num>},
    {"isnan", unary_loop<[](double x) { return double(std::isnan(x)); }>},
    {"isinf", unary_loop<[](double x) { return double(std::isinf(x)); }>},
    {"isfinite", unary_loop<[](double x) { return double(std::isfinite(x)); }>},
    {"signbit", unary_loop<[](double x) { return double(std::signbit(x)); }>},
    {"logical_not", unary_loop<[](double x) { return double(x == 0); }>},
    {"bitwise_not", bitwise_not},
    {"square", unary_loop<[](double x) { return x * x; }>},
    {"frac", unary_loop<[](double x) { return x - std::trunc(x); }>},
};

}  // namespace

std::span<const Row> unary() { return kRows; }

}  // namespace hg::reference::rows
