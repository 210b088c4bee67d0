// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/binary.cpp: arithmetic on two tensors of one dtype. Shapes broadcast.
// Operators + - * / also accept numbers.
#pragma once

#include <cmath>

#include "hg/graph.h"

namespace hg {

// bool: logical or
inline Value add(const Value& a, const Value& b) { return a.graph()->call("add", {a, b}); }
inline Value sub(const Value& a, const Value& b) { return a.graph()->call("sub", {a, b}); }
// bool: logical and
inline Value mul(const Value& a, const Value& b) { return a.graph()->call("mul", {a, b}); }
// floats only
inline Value div(const Value& a, const Value& b) { return a.graph()->call("div", {a, b}); }
// quotient rounded toward minus infinity
inline Value floor_divide(const Value& a, const Value& b) {
  return a.graph()->call("floor_divide", {a, b});
}
// quotient rounded toward zero
inline Value trunc_divide(const Value& a, const Value& b) {
  return a.graph()->call("trunc_divide", {a, b});
}
// remainder with the sign of b
inline Value remainder(const Value& a, const Value& b) {
  return a.graph()->call("remainder", {a, b});
}
// remainder with the sign of a
inline Value fmod(const Value& a, const Value& b) { return a.graph()->call("fmod", {a, b}); }
// a^b
inline Value pow(const Value& a, const Value& b) { return a.graph()->call("pow", {a, b}); }
// NaN if either element is NaN
inline Value maximum(const Value& a, const Value& b) { return a.graph()->call("maximum", {a, b}); }
// NaN if either element is NaN
inline Value minimum(const Value& a, const Value& b) { return a.graph()->call("minimum", {a, b}); }
// ignores NaN: the other element if one is NaN
inline Value fmax(const Value& a, const Value& b) { return a.graph()->call("fmax", {a, b}); }
// ignores NaN: the other element if one is NaN
inline Value fmin(const Value& a, const Value& b) { return a.graph()->call("fmin", {a, b}); }
// angle of the point (x, y) = (b, a)
inline Value atan2(const Value& a, const Value& b) { return a.graph()->call("atan2", {a, b}); }
// sqrt(a^2 + b^2)
inline Value hypot(const Value& a, const Value& b) { return a.graph()->call("hypot", {a, b}); }
// the next float after a in the direction of b
inline Value nextafter(const Value& a, const Value& b) {
  return a.graph()->call("nextafter", {a, b});
}
// |a| with the sign of b
inline Value copysign(const Value& a, const Value& b) {
  return a.graph()->call("copysign", {a, b});
}
// log(e^a + e^b)
inline Value logaddexp(const Value& a, const Value& b) {
  return a.graph()->call("logaddexp", {a, b});
}
// a * log(b); 0 where a is 0
inline Value xlogy(const Value& a, const Value& b) { return a.graph()->call("xlogy", {a, b}); }
inline Value bitwise_and(const Value& a, const Value& b) {
  return a.graph()->call("bitwise_and", {a, b});
}
inline Value bitwise_or(const Value& a, const Value& b) {
  return a.graph()->call("bitwise_or", {a, b});
}
inline Value bitwise_xor(const Value& a, const Value& b) {
  return a.graph()->call("bitwise_xor", {a, b});
}
inline Value bitwise_left_shift(const Value& a, const Value& b) {
  return a.graph()->call("bitwise_left_shift", {a, b});
}
inline Value bitwise_right_shift(const Value& a, const Value& b) {
  return a.graph()->call("bitwise_right_shift", {a, b});
}
inline Value gcd(const Value& a, const Value& b) { return a.graph()->call("gcd", {a, b}); }
inline Value lcm(const Value& a, const Value& b) { return a.graph()->call("lcm", {a, b}); }

// Returns a constant of rank 0 with the dtype of x. The graph fails if x has an integer dtype that
// cannot hold the number.
inline Value number_like(const Value& x, double value) {
  const DType dtype = x.dtype();
  const bool takes_fractions = is_float(dtype) || is_complex(dtype);
  if (!takes_fractions && !(value == std::trunc(value)))
    return x.graph()->fail(
        invalid_argument("the number ", value, " does not fit a tensor of ", dtype));
  return x.graph()->scalar(value, dtype);
}

inline Value operator-(const Value& x) { return x.graph()->call("neg", {x}); }
inline Value operator+(const Value& a, const Value& b) { return add(a, b); }
inline Value operator-(const Value& a, const Value& b) { return sub(a, b); }
inline Value operator*(const Value& a, const Value& b) { return mul(a, b); }
inline Value operator/(const Value& a, const Value& b) { return div(a, b); }
inline Value operator+(const Value& a, double b) { return add(a, number_like(a, b)); }
inline Value operator+(double a, const Value& b) { return add(number_like(b, a), b); }
inline Value operator-(const Value& a, double b) { return sub(a, number_like(a, b)); }
inline Value operator-(double a, const Value& b) { return sub(number_like(b, a), b); }
inline Value operator*(const Value& a, double b) { return mul(a, number_like(a, b)); }
inline Value operator*(double a, const Value& b) { return mul(number_like(b, a), b); }
inline Value operator/(const Value& a, double b) { return div(a, number_like(a, b)); }
inline Value operator/(double a, const Value& b) { return div(number_like(b, a), b); }

}  // namespace hg
