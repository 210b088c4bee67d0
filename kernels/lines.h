// SPDX-License-Identifier: Apache-2.0
// For kernels that work along one dim: the lines of a contiguous tensor, and dispatch to a C++
// type.
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

// Calls f with an object of the dtype's C++ type; bool is uint8_t. Does nothing for complex dtypes,
// which are computed as pairs.
template <class F>
void for_type(DType dtype, const F& f) {
  const auto call = [&]<class T>() { f(T()); };
  if (dtype == DType::bool_) return call_for<DType::bool_, uint8_t>(call);
  for_number(dtype, call);
}

// Converts a value to the type in which kernels compute, and back.
template <class T>
Wide<T> wide(T x) {
  return static_cast<Wide<T>>(x);
}
template <class T, class V>
T narrowed(V value) {
  return static_cast<T>(static_cast<Wide<T>>(value));
}

}  // namespace hg::kernels
