// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise/special_functions.h"

#include <cstdint>
#include <limits>

#ifdef _WIN32
// Its headers hide these constants in standard C++.
extern "C" {
double _j0(double);
double _j1(double);
double _y0(double);
double _y1(double);
}
#endif

namespace hg::kernels {
namespace {
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The C library's Bessel functions.
#ifdef _WIN32
double j0(double x) { return _j0(x); }
double j1(double x) { return _j1(x); }
double y0(double x) { return _y0(x); }
double y1(double x) { return _y1(x); }
#else
using ::j0;
using ::j1;
using ::y0;
using ::y1;
#endif
}  // namespace

// M. Giles, Approximating the erfinv function, 2010; then two Newton steps.
double erfinv(double y) {
  if (!(std::abs(y) <= 1)) return kNaN;
  if (std::abs(y) == 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  const double rest = 1 - std::abs(y);
  double w = -std::log(rest * (1 + std::abs(y)));
  double p;
  if (w < 5) {
    w -= 2.5;
    constexpr double kCentral[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                   -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                   -0.00417768164,  0.246640727,    1.50140941};
    p = kCentral[0];
    for (int i = 1; i < 9; ++i) p = p * w + kCentral[i];
  } else {
    w = std::sqrt(w) - 3;
    constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                -0.00367342844,  0.00573950773,  -0.0076224613,
                                0.00943887047,   1.00167406,     2.83297682};
    p = kTail[0];
    for (int i = 1; i < 9; ++i) p = p * w + kTail[i];
  }
  double x = p * std::abs(y);
  for (int step = 0; step < 4; ++step) {
    // Newton's method for erf(x) = y, in the tail for log erfc(x) = log(1 - y), which is nearly a
    // parabola.
    const double c = std::erfc(x);
    const double error = std::abs(y) < 0.5 ? std::erf(x) - std::abs(y) : -std::log(c / rest) * c;
    x -= error / (2 * std::numbers::inv_sqrtpi * std::exp(-x * x));
  }
  return std::copysign(x, y);
}

// Recurrence up to 10, then the asymptotic series; reflection for negative x.
double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::trunc(x)) return kNaN;
    const double rest = x - std::trunc(x);  // tan has period 1 here
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * rest);
  }
  double result = 0;
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  const double z = 1 / (x * x);
  // Bernoulli numbers over 2k: Abramowitz and Stegun 6.3.18
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 -
                           z * (1.0 / 252 -
                                z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return result + std::log(x) - 0.5 / x - series;
}

double log_gamma(double x) {
#if defined(__GLIBC__)
  int sign = 0;
  return ::lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}

double erfcx(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  const double z = 1 / (2 * x * x);  // Abramowitz and Stegun 7.1.23
  return std::numbers::inv_sqrtpi / x * (1 - z * (1 - 3 * z * (1 - 5 * z)));
}

namespace {

// e^-x I_order(x) for x >= 0: the power series up to 30, then Abramowitz and Stegun 9.7.1.
double scaled_i(int order, double x) {
  if (x < 30) {
    const double q = x * x / 4;
    double term = order == 0 ? 1 : x / 2, sum = term;
    for (int k = 1; term > sum * 1e-17 && k < 200; ++k) {
      term *= q / (k * static_cast<double>(k + order));
      sum += term;
    }
    return sum * std::exp(-x);
  }
  const double mu = 4.0 * order * order;
  double term = 1, sum = 1;
  for (int k = 1; k < 30 && std::abs(term) > 1e-17; ++k) {
    term *= -(mu - (2 * k - 1) * (2 * k - 1)) / (k * 8 * x);
    sum += term;
  }
  return std::isinf(x) ? 0 : sum / std::sqrt(2 * std::numbers::pi * x);
}

// K_order(x) for 0 < x <= 1: the power series (Abramowitz and Stegun 9.6.11).
double small_k(int order, double x) {
  const double q = x * x / 4;
  double psi = -std::numbers::egamma;  // of k + 1
  double term = order == 0 ? 1 : x / 2, i_sum = 0, psi_sum = 0;
  for (int k = 0; k < 20; ++k) {
    i_sum += term;
    psi_sum += term * (order == 0 ? psi : psi + 0.5 / (k + 1));
    psi += 1.0 / (k + 1);
    term *= q / ((k + 1) * static_cast<double>(k + 1 + order));
  }
  const double log_half = std::log(x) - std::numbers::ln2;
  return order == 0 ? psi_sum - log_half * i_sum : 1 / x + log_half * i_sum - psi_sum;
}

// e^x K_order(x) for x > 0: the series up to 1; from 30 on Abramowitz and Stegun 9.7.2; between
// them the integral of e^(-x (cosh t - 1)) cosh(order t) over t > 0 with the trapezoidal rule.
double scaled_k(int order, double x) {
  if (x < 0 || x != x) return kNaN;
  if (x == 0) return std::numeric_limits<double>::infinity();
  if (x <= 1) return small_k(order, x) * std::exp(x);
  double sum = 1;
  if (x >= 30) {
    const double mu = 4.0 * order * order;
    double term = 1;
    for (int k = 1; k < 30 && std::abs(term) > 1e-17; ++k) {
      term *= (mu - (2 * k - 1) * (2 * k - 1)) / (k * 8 * x);
      sum += term;
    }
    return std::isinf(x) ? 0 : sum * std::sqrt(std::numbers::pi / 2 / x);
  }
  constexpr double kStep = 1.0 / 32;
  sum = 0.5;
  for (int i = 1; i < 4096; ++i) {
    const double t = i * kStep;
    const double term =
        std::exp(-x * 2 * std::sinh(t / 2) * std::sinh(t / 2)) * std::cosh(order * t);
    sum += term;
    if (term < sum * 1e-18) break;
  }
  return sum * kStep;
}

}  // namespace

double bessel_i0e(double x) { return scaled_i(0, std::abs(x)); }
double bessel_i0(double x) { return scaled_i(0, std::abs(x)) * std::exp(std::abs(x)); }
double bessel_i1e(double x) { return std::copysign(scaled_i(1, std::abs(x)), x); }
double bessel_i1(double x) { return bessel_i1e(x) * std::exp(std::abs(x)); }
double bessel_k0e(double x) { return scaled_k(0, x); }
double bessel_k0(double x) { return scaled_k(0, x) * std::exp(-x); }
double bessel_k1e(double x) { return scaled_k(1, x); }
double bessel_k1(double x) { return scaled_k(1, x) * std::exp(-x); }
// Oscillating functions have no value at infinity, as in PyTorch. The C library returns their
// limit.
double bessel_j0(double x) { return std::isinf(x) ? kNaN : j0(x); }
double bessel_j1(double x) { return std::isinf(x) ? kNaN : j1(x); }
double bessel_y0(double x) { return x < 0 || std::isinf(x) ? kNaN : y0(x); }
double bessel_y1(double x) { return x < 0 || std::isinf(x) ? kNaN : y1(x); }

// Euler-Maclaurin: ten terms of the sum, then the integral and corrections.
double zeta(double s, double q) {
  if (s == 1) return std::numeric_limits<double>::infinity();
  if (s < 1 || s != s || q != q) return kNaN;
  if (q <= 0) {
    if (q == std::floor(q)) return std::numeric_limits<double>::infinity();
    if (s != std::floor(s)) return kNaN;
  }
  double sum = 0;
  double a = q;
  int terms = 0;
  for (; terms < 10 || a <= 9; ++terms, a += 1) sum += std::pow(a, -s);
  sum += std::pow(a, 1 - s) / (s - 1) + 0.5 * std::pow(a, -s);
  // B_2k / (2k)! s (s + 1) ... (s + 2k - 2) a^(-s - 2k + 1)
  constexpr double kBernoulli[] = {1.0 / 12,         -1.0 / 720,     1.0 / 30240,
                                   -1.0 / 1209600,   1.0 / 47900160, -691.0 / 1307674368000,
                                   1.0 / 74724249600};
  double factor = s, power = std::pow(a, -s - 1);
  for (int k = 0; k < 7; ++k) {
    sum += kBernoulli[k] * factor * power;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2);
    power /= a * a;
  }
  return sum;
}

namespace {

// x^a e^-x / gamma(a)
double gamma_weight(double a, double x) { return std::exp(a * std::log(x) - x - log_gamma(a)); }

// The series for x < a + 1: Abramowitz and Stegun 6.5.29.
double lower_gamma(double a, double x) {
  double term = 1 / a, sum = term;
  for (int k = 1; k < 100000 && term > sum * 1e-17; ++k) {
    term *= x / (a + k);
    sum += term;
  }
  return sum * gamma_weight(a, x);
}
// The continued fraction for larger x, by Lentz's algorithm: Abramowitz and Stegun 6.5.31.
double upper_gamma(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, h = d;
  for (int k = 1; k < 100000; ++k) {
    const double n = -k * (k - a);
    b += 2;
    d = n * d + b;
    if (std::abs(d) < kTiny) d = kTiny;
    c = b + n / c;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1 / d;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-16) break;
  }
  return h * gamma_weight(a, x);
}

// For a large a, both need many steps and the weight loses digits: a transition of width sqrt(a)
// around x = a. DLMF 8.12.3, 8.12.4 and 8.12.7 with two terms, whose c_k are series in eta. `sign`
// is 1 for the upper function and -1 for the lower.
constexpr double kLargeA = 1e5;
double large_gamma(double a, double x, int sign) {
  const double mu = (x - a) / a;
  if (std::abs(mu) > 40 / std::sqrt(a)) return (mu > 0) == (sign > 0) ? 0 : 1;
  // eta^2 / 2 = mu - log(1 + mu)
  double half_square = 0;
  for (int k = 16; k >= 2; --k) half_square = (k % 2 == 0 ? 1.0 : -1.0) / k + half_square * mu;
  half_square *= mu * mu;
  const double eta = std::copysign(std::sqrt(2 * half_square), mu);
  constexpr double kFirst[] = {-1.0 / 3,   1.0 / 12,        -2.0 / 135, 1.0 / 864,
                               1.0 / 2835, -139.0 / 777600, 1.0 / 25515};
  constexpr double kSecond[] = {-1.0 / 540, -1.0 / 288, 1.0 / 378};
  double first = 0, second = 0;
  for (int k = 6; k >= 0; --k) first = first * eta + kFirst[k];
  for (int k = 2; k >= 0; --k) second = second * eta + kSecond[k];
  const double rest =
      std::exp(-a * half_square) / std::sqrt(2 * std::numbers::pi * a) * (first + second / a);
  return 0.5 * std::erfc(sign * eta * std::sqrt(a / 2)) + sign * rest;
}

}  // namespace

double igamma(double a, double x) {
  if (x < 0 || a < 0 || a != a || x != x) return kNaN;
  if (a == 0) return x > 0 ? 1 : kNaN;
  if (x == 0) return 0;
  if (std::isinf(a)) return std::isinf(x) ? kNaN : 0;
  if (std::isinf(x)) return 1;
  if (a >= kLargeA) return large_gamma(a, x, -1);
  return x < a + 1 ? lower_gamma(a, x) : 1 - upper_gamma(a, x);
}
double igammac(double a, double x) {
  if (x < 0 || a < 0 || a != a || x != x) return kNaN;
  if (a == 0) return x > 0 ? 0 : kNaN;
  if (x == 0) return 1;
  if (std::isinf(a)) return std::isinf(x) ? kNaN : 1;
  if (std::isinf(x)) return 0;
  if (a >= kLargeA) return large_gamma(a, x, 1);
  return x < a + 1 ? 1 - lower_gamma(a, x) : upper_gamma(a, x);
}

// With the recurrences of Abramowitz and Stegun 22.7.
double polynomial(PolynomialKind kind, double x, double degree) {
  if (x != x || degree != degree) return kNaN;
  constexpr double kMost = 1e7;  // beyond this, the recurrence would take too long
  if (degree > kMost) return kNaN;
  const int64_t n = degree <= -1 ? -1 : static_cast<int64_t>(degree);
  using Kind = PolynomialKind;
  if (n < 0) return 0;
  if (kind >= Kind::shifted_chebyshev_t && kind <= Kind::shifted_chebyshev_w) {
    x = 2 * x - 1;
    kind = static_cast<Kind>(static_cast<int>(kind) - 4);
  }
  double last = 1, y = 1;
  switch (kind) {
    case Kind::chebyshev_t:
    case Kind::hermite_he:
    case Kind::legendre_p:
      y = x;
      break;
    case Kind::chebyshev_u:
    case Kind::hermite_h:
      y = 2 * x;
      break;
    case Kind::chebyshev_v:
      y = 2 * x - 1;
      break;
    case Kind::chebyshev_w:
      y = 2 * x + 1;
      break;
    case Kind::laguerre_l:
      y = 1 - x;
      break;
    default:
      return kNaN;
  }
  if (n == 0) return 1;
  for (int64_t k = 1; k < n; ++k) {
    const double m = static_cast<double>(k);
    double next = 2 * x * y - last;  // all Chebyshev polynomials
    if (kind == Kind::hermite_h) next = 2 * x * y - 2 * m * last;
    if (kind == Kind::hermite_he) next = x * y - m * last;
    if (kind == Kind::laguerre_l) next = ((2 * m + 1 - x) * y - m * last) / (m + 1);
    if (kind == Kind::legendre_p) next = ((2 * m + 1) * x * y - m * last) / (m + 1);
    last = y;
    y = next;
  }
  return y;
}

}  // namespace hg::kernels
