// SPDX-License-Identifier: Apache-2.0
// Stores a number as an element of a tensor.
#pragma once

#include <cmath>

#include "hg/call.h"
#include "lib/graph/element.h"

namespace hg {

// Writes the number to the single element; returns false if its integer dtype cannot hold it.
inline bool write_number(const Number& number, const Tensor& to) {
  if (to.dtype == i64 && number.kind != f64) {
    *to.as<int64_t>() = number.whole;
    return true;
  }
  const double value = number.real;
  const bool holds_fractions = is_float(to.dtype) || is_complex(to.dtype);
  if (!holds_fractions && !(value == std::floor(value) && std::abs(value) <= 0x1p53)) return false;
  set_element(to, 0, value);
  return holds_fractions || element(to, 0) == value;
}

}  // namespace hg
