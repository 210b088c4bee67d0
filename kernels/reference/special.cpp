// SPDX-License-Identifier: Apache-2.0
// Special functions, from their integrals and sums.
#include <cmath>
#include <numbers>
#include <string>

#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

constexpr int kParts = 20000;   // of an integral
constexpr int kTerms = 100000;  // of a sum

// The integral of f over [low, high] with Simpson's rule.
template <class F>
double integral(double low, double high, const F& f) {
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
  double sum = 0;
  for (int k = 0; k < kTerms; ++k) sum += std::pow(k + q, -s);
  return sum + std::pow(kTerms + q - 0.5, 1 - s) / (s - 1);
}
// Abramowitz and Stegun 6.5.29
double igamma(double a, double x) {
  double sum = 0;
  for (int k = 0; k < 150; ++k) sum += std::exp((a + k) * std::log(x) - x - std::lgamma(a + k + 1));
  return sum;
}
double igammac(double a, double x) { return 1 - igamma(a, x); }

// Abramowitz and Stegun 9.1.22
double j(int n, double x) {
  return integral(0, std::numbers::pi,
                  [&](double t) { return std::cos(n * t - x * std::sin(t)); }) /
         std::numbers::pi;
}
double y(int n, double x) {
  const double sign = n % 2 == 0 ? 1 : -1;
  return (integral(0, std::numbers::pi,
                   [&](double t) { return std::sin(x * std::sin(t) - n * t); }) -
          integral(0, 9,
                   [&](double t) {
                     return (std::exp(n * t) + sign * std::exp(-n * t)) *
                            std::exp(-x * std::sinh(t));
                   })) /
         std::numbers::pi;
}
double j0(double x) { return j(0, x); }
double j1(double x) { return j(1, x); }
double y0(double x) { return y(0, x); }
double y1(double x) { return y(1, x); }

double factorial(double n) { return std::round(std::tgamma(n + 1)); }
double choose(double n, double k) { return factorial(n) / factorial(k) / factorial(n - k); }

// Explicit sums and trigonometric forms: Abramowitz and Stegun 22.3. |x| <= 1, small degrees.
double polynomial_value(const std::string& kind, double x, int n) {
  if (n < 0) return 0;
  const bool shifted = kind.substr(0, 8) == "shifted_";
  const double t = std::acos(shifted ? 2 * x - 1 : x);
  if (kind.back() == 't') return std::cos(n * t);
  if (kind.back() == 'u') return std::sin((n + 1) * t) / std::sin(t);
  if (kind.back() == 'v') return std::cos((n + 0.5) * t) / std::cos(t / 2);
  if (kind.back() == 'w') return std::sin((n + 0.5) * t) / std::sin(t / 2);
  double sum = 0;
  for (int m = 0; m <= n; ++m) {
    const double sign = m % 2 == 0 ? 1 : -1;
    if (kind == "laguerre_l") sum += choose(n, m) * sign * std::pow(x, m) / factorial(m);
    if (2 * m > n) continue;
    const double falling = factorial(n) / factorial(m) / factorial(n - 2 * m);
    if (kind == "hermite_h") sum += sign * falling * std::pow(2 * x, n - 2 * m);
    if (kind == "hermite_he") sum += sign * falling * std::pow(x, n - 2 * m) / std::exp2(m);
    if (kind == "legendre_p")
      sum += sign * choose(n, m) * choose(2 * n - 2 * m, n) * std::pow(x, n - 2 * m) / std::exp2(n);
  }
  return sum;
}
void polynomial(const Call& c) {
  const Broadcast x(c.in[0], c.out[0].shape), n(c.in[1], c.out[0].shape);
  const std::string& kind = c.attrs.string("kind");
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = polynomial_value(kind, x.at(i), static_cast<int>(n.at(i)));
}

// Abramowitz and Stegun 6.3.16, 6.4.10; the rest of the first sum as an integral.
double polygamma(double x, const KernelAttrs& attrs) {
  const auto n = static_cast<int>(attrs.integer("n"));
  if (n > 0) return (n % 2 == 0 ? -1 : 1) * factorial(n) * zeta(n + 1, x);
  double sum = -std::numbers::egamma + std::log((kTerms + x - 0.5) / (kTerms + 0.5));
  for (int k = 0; k < kTerms; ++k) sum += (x - 1) / ((k + 1.0) * (k + x));
  return sum;
}

// This many terms per element.
template <int terms>
double terms_of(const Call& c) {
  return 10.0 * terms * static_cast<double>(c.out[0].count());
}
constexpr auto kOfIntegral = terms_of<kParts>, kOfTwoIntegrals = terms_of<2 * kParts>,
               kOfSum = terms_of<kTerms>;

constexpr Row kRows[] = {
    {"erfcx", unary_loop<erfcx>},
    {"bessel_i0", unary_loop<i0>, kOfIntegral},
    {"bessel_i0e", unary_loop<i0e>, kOfIntegral},
    {"bessel_i1", unary_loop<i1>, kOfIntegral},
    {"bessel_i1e", unary_loop<i1e>, kOfIntegral},
    {"bessel_k0", unary_loop<k0>, kOfIntegral},
    {"bessel_k0e", unary_loop<k0e>, kOfIntegral},
    {"bessel_k1", unary_loop<k1>, kOfIntegral},
    {"bessel_k1e", unary_loop<k1e>, kOfIntegral},
    {"polynomial", polynomial},
    {"zeta", binary_loop<zeta>, kOfSum},
    {"igamma", binary_loop<igamma>, terms_of<150>},
    {"igammac", binary_loop<igammac>, terms_of<150>},
    {"bessel_j0", unary_loop<j0>, kOfIntegral},
    {"bessel_j1", unary_loop<j1>, kOfIntegral},
    {"bessel_y0", unary_loop<y0>, kOfTwoIntegrals},
    {"bessel_y1", unary_loop<y1>, kOfTwoIntegrals},
    {"polygamma", unary_loop_with_attrs<polygamma>, kOfSum},
};

}  // namespace

std::span<const Row> special() { return kRows; }

}  // namespace hg::reference::rows
