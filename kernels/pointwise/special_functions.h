// SPDX-License-Identifier: Apache-2.0
// Special functions that <cmath> lacks, in double.
#pragma once

#include <cmath>
#include <numbers>

#include "hg/words.h"

namespace hg::kernels {

double erfinv(double y);     // erf(erfinv(y)) = y; +-inf at +-1, NaN beyond
double digamma(double x);    // d/dx log|gamma(x)|
double log_gamma(double x);  // log|gamma(x)|; does not change the C library's signgam
double erfcx(double x);      // e^(x^2) erfc(x)

// Bessel functions. Those with e are scaled: i by e^-|x|, k by e^x.
double bessel_i0(double x);
double bessel_i0e(double x);
double bessel_i1(double x);
double bessel_i1e(double x);
double bessel_k0(double x);
double bessel_k0e(double x);
double bessel_k1(double x);
double bessel_k1e(double x);
double bessel_j0(double x);
double bessel_j1(double x);
double bessel_y0(double x);
double bessel_y1(double x);

double zeta(double s, double q);     // sum over k >= 0 of (k + q)^-s
double igamma(double a, double x);   // regularized lower incomplete gamma function
double igammac(double a, double x);  // 1 - igamma(a, x)

// The polynomial of degree n (rounded toward zero; 0 for negative degrees) at x.
double polynomial(PolynomialKind kind, double x, double n);

// sin(pi x) / (pi x), 1 at 0
template <class T>
T sinc(T x) {
  if (x == T(0)) return T(1);
  const T angle = std::numbers::pi_v<T> * x;
  return std::sin(angle) / angle;
}

}  // namespace hg::kernels
