// SPDX-License-Identifier: Apache-2.0
// Special functions that <cmath> lacks, in double.
#pragma once

#include <cmath>
#include <numbers>

namespace hg::kernels {

double erfinv(double y);     // erf(erfinv(y)) = y; +-inf at +-1, NaN beyond
double digamma(double x);    // d/dx log|gamma(x)|
double log_gamma(double x);  // log|gamma(x)|; does not touch the C library's signgam

// sin(pi x) / (pi x), 1 at 0
template <class T>
T sinc(T x) {
  if (x == T(0)) return T(1);
  const T angle = std::numbers::pi_v<T> * x;
  return std::sin(angle) / angle;
}

}  // namespace hg::kernels
