// SPDX-License-Identifier: Apache-2.0
// Elements of the float dtypes in the type that kernels compute with: f32 for f16 and bf16, which
// round once when stored.
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

// f.template operator()<T>(), where this build holds the dtype of T; what uses another one is
// refused before it runs.
template <DType dtype, class T, class F>
inline void call_for(const F& f) {
  if constexpr (holds(dtype)) f.template operator()<T>();
}

// f.template operator()<T>() with the C++ type of a float dtype; nothing for the other dtypes,
// which the shape rules of such ops refuse.
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

// As for_float, with the integers; bool is left out.
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

// How many rows of `each` elements make one task: small work stays in one range.
inline int64_t grain_of(int64_t each, int64_t elements = 1 << 14) {
  return each >= elements ? 1 : elements / (each > 0 ? each : 1);
}

}  // namespace hg::kernels
