// SPDX-License-Identifier: Apache-2.0
// Operators + - * / on two tensors of one dtype, whose shapes broadcast, or on a tensor and a
// number.
#pragma once

#include <cmath>

#include "hg/graph.h"
#include "hg/ops/binary.h"

namespace hg {

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
