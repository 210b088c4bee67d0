// SPDX-License-Identifier: Apache-2.0
#include "kernels/special_functions.h"

#include <limits>

namespace hg::kernels {

// M. Giles, Approximating the erfinv function, 2010; then two steps of Newton.
double erfinv(double y) {
  if (!(std::abs(y) <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (std::abs(y) == 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  double w = -std::log1p(-y * y);
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
  double x = p * y;
  for (int step = 0; step < 2; ++step) {
    // erf(x) - y, from erfc where erf has no digits left
    const double distance = (1 - std::abs(y)) - std::erfc(std::abs(x));
    const double error = std::abs(y) < 0.5 ? std::erf(x) - y : y < 0 ? -distance : distance;
    x -= error / (2 * std::numbers::inv_sqrtpi * std::exp(-x * x));
  }
  return x;
}

// Recurrence up to 10, then the asymptotic series; reflection for negative x.
double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::trunc(x)) return std::numeric_limits<double>::quiet_NaN();
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

}  // namespace hg::kernels
