// SPDX-License-Identifier: Apache-2.0
// Sums of products in every dtype: the type in which an element is computed, and how it is read and
// written. 16-bit floats compute in f32 and round once; integers wrap.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/element.h"

namespace hg::kernels {

// The type of sums of T. These kernels serve cases that the fast ones do not, so they are exact
// rather than fast.
template <class T>
using SumOf = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

template <class T>
SumOf<T> load(T value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  else if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}
template <class T>
T store(SumOf<T> value) {
  if constexpr (kIsHalf<T>)
    return static_cast<T>(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

}  // namespace hg::kernels
