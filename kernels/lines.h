// SPDX-License-Identifier: Apache-2.0
// Kernels that work along one dim: the lines of a contiguous tensor, and choosing a C++ type.
#pragma once

#include <cstdint>

#include "hg/kernel.h"
#include "kernels/element.h"

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
    case DType::c64:
    case DType::c128:
      return;  // computed with as pairs
  }
}

// What kernels compute with, of a value instead of a pointer, and back.
template <class T>
Wide<T> wide(T x) {
  return static_cast<Wide<T>>(x);
}
template <class T, class V>
T narrowed(V value) {
  return static_cast<T>(static_cast<Wide<T>>(value));
}

}  // namespace hg::kernels
