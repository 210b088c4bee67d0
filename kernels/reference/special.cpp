// SPDX-License-Identifier: Apache-2.0
// Special functions, from their integrals and sums.
#include <cmath>
#include <numbers>

#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

// The integral of f over [low, high] by Simpson's rule.
template <class F>
double integral(double low, double high, const F& f) {
  constexpr int kParts = 20000;
  const double step = (high - low) / kParts;
  double sum = f(low) + f(high);
  for (int i = 1; i < kParts; ++i) sum += (i % 2 == 1 ? 4 : 2) * f(low + i * step);
  return sum * step / 3;
}
// Abramowitz and Stegun 9.6.19, 9.6.24
double i_scaled(int n, double x) {
  return integral(
             0, std::numbers::pi,
             [&](double t) { return std::exp(x * std::cos(t) - std::abs(x)) * std::cos(n * t); }) /
         std::numbers::pi;
}
double k_scaled(int n, double x) {
  return integral(0, 12,
                  [&](double t) { return std::exp(-x * (std::cosh(t) - 1)) * std::cosh(n * t); });
}
double i0e(double x) { return i_scaled(0, x); }
double i1e(double x) { return i_scaled(1, x); }
double i0(double x) { return i_scaled(0, x) * std::exp(std::abs(x)); }
double i1(double x) { return i_scaled(1, x) * std::exp(std::abs(x)); }
double k0e(double x) { return k_scaled(0, x); }
double k1e(double x) { return k_scaled(1, x); }
double k0(double x) { return k_scaled(0, x) * std::exp(-x); }
double k1(double x) { return k_scaled(1, x) * std::exp(-x); }
double erfcx(double x) { return std::exp(x * x) * std::erfc(x); }
// The sum up to 1e5, and the integral of the rest from the middle of its first term.
double zeta(double s, double q) {
  constexpr int kTerms = 100000;
  double sum = 0;
  for (int k = 0; k < kTerms; ++k) sum += std::pow(k + q, -s);
  return sum + std::pow(kTerms + q - 0.5, 1 - s) / (s - 1);
}
// With t = u^(1 / a), which is smooth at 0: the integral of e^-t t^(a - 1) over [0, x]
double igamma(double a, double x) {
  const double whole =
      integral(0, std::pow(x, a), [&](double u) { return std::exp(-std::pow(u, 1 / a)); });
  return whole / a / std::tgamma(a);
}
double igammac(double a, double x) { return 1 - igamma(a, x); }

constexpr Row kRows[] = {
    {"erfcx", unary<erfcx>},    {"bessel_i0", unary<i0>},   {"bessel_i0e", unary<i0e>},
    {"bessel_i1", unary<i1>},   {"bessel_i1e", unary<i1e>}, {"bessel_k0", unary<k0>},
    {"bessel_k0e", unary<k0e>}, {"bessel_k1", unary<k1>},   {"bessel_k1e", unary<k1e>},
    {"zeta", binary<zeta>},     {"igamma", binary<igamma>}, {"igammac", binary<igammac>},
};

}  // namespace

std::span<const Row> special() { return kRows; }

}  // namespace hg::reference::rows
