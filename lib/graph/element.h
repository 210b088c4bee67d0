// SPDX-License-Identifier: Apache-2.0
// Reads and writes one element of a contiguous tensor as a number, for any dtype; for complex
// dtypes, the real part. Used for folding, filling and checking; kernels have their own loops.
#pragma once

#include <cmath>
#include <limits>

#include "hg/tensor.h"

namespace hg {

inline double element(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype) {
    case f32:
      return tensor.as<float>()[i];
    case f64:
      return tensor.as<double>()[i];
    case f16:
      return static_cast<float>(tensor.as<Half>()[i]);
    case bf16:
      return static_cast<float>(tensor.as<BFloat16>()[i]);
    case i64:
      return static_cast<double>(tensor.as<int64_t>()[i]);
    case i32:
      return tensor.as<int32_t>()[i];
    case i16:
      return tensor.as<int16_t>()[i];
    case i8:
      return tensor.as<int8_t>()[i];
    case u8:
      return tensor.as<uint8_t>()[i];
    case boolean:
      return tensor.as<bool>()[i];
    case c64:
      return tensor.as<float>()[2 * i];
    case c128:
      return tensor.as<double>()[2 * i];
  }
  return 0;
}

// Truncates toward zero; returns the lowest T if T cannot hold the result, as for NaN.
template <class T>
T whole_part(double value) {
  constexpr auto kLowest = static_cast<double>(std::numeric_limits<T>::min());
  const double whole = std::trunc(value);
  return whole >= kLowest && whole < -kLowest ? static_cast<T>(whole)
                                              : std::numeric_limits<T>::min();
}

// Whether an integer dtype can hold the truncated number; u8 wraps negative numbers, as in torch.
// Other dtypes hold the nearest value.
inline bool holds(DType dtype, double value) {
  if (!is_integer(dtype)) return true;
  const double whole = std::trunc(value);
  if (dtype == u8) return whole >= -255 && whole <= 255;
  const double end = std::ldexp(1.0, static_cast<int>(8 * size_of(dtype)) - 1);
  return whole >= -end && whole < end;
}

inline void set_element(const Tensor& tensor, int64_t i, double value) {
  switch (tensor.dtype) {
    case f32:
      tensor.as<float>()[i] = static_cast<float>(value);
      break;
    case f64:
      tensor.as<double>()[i] = value;
      break;
    case f16:
      tensor.as<Half>()[i] = Half(static_cast<float>(value));
      break;
    case bf16:
      tensor.as<BFloat16>()[i] = BFloat16(static_cast<float>(value));
      break;
    case i64:
      tensor.as<int64_t>()[i] = whole_part<int64_t>(value);
      break;
    case i32:
      tensor.as<int32_t>()[i] = whole_part<int32_t>(value);
      break;
    case i16:
      tensor.as<int16_t>()[i] = static_cast<int16_t>(whole_part<int32_t>(value));
      break;
    case i8:
      tensor.as<int8_t>()[i] = static_cast<int8_t>(whole_part<int32_t>(value));
      break;
    case u8:
      tensor.as<uint8_t>()[i] = static_cast<uint8_t>(whole_part<int32_t>(value));
      break;
    case boolean:
      tensor.as<bool>()[i] = value != 0;
      break;
    case c64:
      tensor.as<float>()[2 * i] = static_cast<float>(value);
      tensor.as<float>()[2 * i + 1] = 0;
      break;
    case c128:
      tensor.as<double>()[2 * i] = value;
      tensor.as<double>()[2 * i + 1] = 0;
      break;
  }
}

// Writes the elements [begin, end) times a factor, rounded once to the dtype of `to`. Fast for f32.
void scaled_copy(const Tensor& from, int64_t begin, int64_t end, double factor, const Tensor& to);

}  // namespace hg
