// SPDX-License-Identifier: Apache-2.0
// Functions of two floats for the cases that faster forms do not cover. Shared by kernels for one
// dtype and generic kernels.
#pragma once

#include <cmath>

namespace hg::kernels {

// a - n b with the divisor's sign, for a whole n.
template <class T>
T remainder(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

// The steps of c10::div_floor_floating, whose rounding is visible in results.
template <class T>
T floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T result = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) result -= 1;
  if (result == 0) return std::copysign(T(0), a / b);
  const T whole = std::floor(result);
  return result - whole > T(0.5) ? whole + 1 : whole;
}

// log(e^a + e^b)
template <class T>
T logaddexp(T a, T b) {
  if (std::isinf(a) && a == b) return a;
  const T top = a != a || a > b ? a : b;
  return top + std::log1p(std::exp(-std::abs(a - b)));
}

}  // namespace hg::kernels
