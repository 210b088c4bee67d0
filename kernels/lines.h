// SPDX-License-Identifier: Apache-2.0
// Kernels that work along one dim: the lines of a contiguous tensor, and choosing a C++ type.
#pragma once

#include <cstdint>
#include <type_traits>

#include "hg/kernel.h"

namespace hg::kernels {

// Line i starts at start(i); its elements are `stride` apart.
struct Lines {
  int64_t count = 1, length = 1, stride = 1;
  int64_t start(int64_t line) const { return line / stride * stride * length + line % stride; }
};
inline Lines lines_of(const Sizes& shape, int axis) {
  Lines lines;
  if (shape.rank() == 0) return lines;
  lines.length = shape[axis];
  for (int d = axis + 1; d < shape.rank(); ++d) lines.stride *= shape[d];
  lines.count = lines.stride;
  for (int d = 0; d < axis; ++d) lines.count *= shape[d];
  return lines;
}

// Calls f with an object of the dtype's C++ type; bool is uint8_t.
template <class F>
void for_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32:
      return f(float());
    case DType::f64:
      return f(double());
    case DType::f16:
      return f(Half());
    case DType::bf16:
      return f(BFloat16());
    case DType::i64:
      return f(int64_t());
    case DType::i32:
      return f(int32_t());
    case DType::i16:
      return f(int16_t());
    case DType::i8:
      return f(int8_t());
    case DType::u8:
    case DType::bool_:
      return f(uint8_t());
  }
}
template <class F>
void for_float_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f64:
      return f(double());
    case DType::f16:
      return f(Half());
    case DType::bf16:
      return f(BFloat16());
    default:
      return f(float());
  }
}

// What kernels compute with: floats of 16 bits as float.
template <class T>
auto wide(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return static_cast<float>(x);
  else
    return x;
}
// Stores a value that was computed in another type.
template <class T, class V>
T narrowed(V value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

}  // namespace hg::kernels
