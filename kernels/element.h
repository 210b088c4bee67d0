// SPDX-License-Identifier: Apache-2.0
// Elements of the float dtypes as the type that kernels compute with: f32 for f16 and bf16, which
// are rounded once, when they are stored.
#pragma once

#include <cstdint>
#include <limits>

#include "hg/tensor.h"

namespace hg::kernels {

template <class T>
struct Element {
  using Wide = T;
};
template <>
struct Element<Half> {
  using Wide = float;
};
template <>
struct Element<BFloat16> {
  using Wide = float;
};
template <class T>
using Wide = typename Element<T>::Wide;

template <class T>
inline Wide<T> load(const T* p) {
  return static_cast<Wide<T>>(*p);
}
template <class T>
inline void store(T* p, Wide<T> value) {
  *p = static_cast<T>(value);
}

// f.template operator()<T>() with the C++ type of a float dtype; nothing for the other dtypes,
// which the shape rules of such ops refuse.
template <class F>
inline void for_float(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    default:
      return;
  }
}

// As for_float, with the integers; bool is left out.
template <class F>
inline void for_number(DType dtype, const F& f) {
  switch (dtype) {
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::i16:
      return f.template operator()<int16_t>();
    case DType::i8:
      return f.template operator()<int8_t>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    default:
      return for_float(dtype, f);
  }
}

// How many rows of `each` elements make one task: small work stays in one range.
inline int64_t grain_of(int64_t each, int64_t elements = 1 << 14) {
  return each >= elements ? 1 : elements / (each > 0 ? each : 1);
}

}  // namespace hg::kernels
