// SPDX-License-Identifier: Apache-2.0
// Elements of the float dtypes in the type in which kernels compute: f32 for f16 and bf16, which
// are rounded once when stored.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "hg/tensor.h"
#include "lib/table/holds.h"

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
constexpr bool kIsHalf = !std::is_same_v<T, Wide<T>>;

template <class T>
inline Wide<T> load(const T* p) {
  return static_cast<Wide<T>>(*p);
}
template <class T>
inline void store(T* p, Wide<T> value) {
  *p = static_cast<T>(value);
}

// Calls f.template operator()<T>() if this build contains the dtype of T. Other dtypes are rejected
// before a run.
template <DType dtype, class T, class F>
inline void call_for(const F& f) {
  if constexpr (holds(dtype)) f.template operator()<T>();
}

// Calls f.template operator()<T>() with the C++ type of a float dtype. Does nothing for other
// dtypes, which the shape rules reject.
template <class F>
inline void for_float(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32:
      return call_for<DType::f32, float>(f);
    case DType::f64:
      return call_for<DType::f64, double>(f);
    case DType::f16:
      return call_for<DType::f16, Half>(f);
    case DType::bf16:
      return call_for<DType::bf16, BFloat16>(f);
    default:
      return;
  }
}

// As for_float, including integers but not bool.
template <class F>
inline void for_number(DType dtype, const F& f) {
  switch (dtype) {
    case DType::i64:
      return call_for<DType::i64, int64_t>(f);
    case DType::i32:
      return call_for<DType::i32, int32_t>(f);
    case DType::i16:
      return call_for<DType::i16, int16_t>(f);
    case DType::i8:
      return call_for<DType::i8, int8_t>(f);
    case DType::u8:
      return call_for<DType::u8, uint8_t>(f);
    default:
      return for_float(dtype, f);
  }
}

// Number of rows of `each` elements per task; little work stays in one range.
inline int64_t grain_of(int64_t each, int64_t elements = 1 << 14) {
  return each >= elements ? 1 : elements / (each > 0 ? each : 1);
}

}  // namespace hg::kernels
