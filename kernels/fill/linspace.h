// SPDX-License-Identifier: Apache-2.0
// Equal steps from one number to another, with torch's rounding.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/element.h"

namespace hg::kernels {

// Element i of `count` ones of type T. Counts from the nearer end, so that both ends are exact:
// with one rounding of a product and its sum, but rounding each to T for elements of 16 bits.
template <class T, class W = Wide<T>>
W linspace_at(W first, W last, int64_t i, int64_t count) {
  if (count == 1) return first;
  const bool is_low = i < count / 2;
  const W from = is_low ? first : last, steps = static_cast<W>(is_low ? i : count - i - 1);
  if constexpr (sizeof(T) == 2) {
    const auto rounded = [](W value) { return static_cast<W>(static_cast<T>(value)); };
    const W step = rounded(rounded(last - first) / rounded(static_cast<W>(count - 1)));
    const W way = rounded(step * rounded(steps));
    return rounded(is_low ? from + way : from - way);
  }
  const W step = (last - first) / static_cast<W>(count - 1);
  return std::fma(is_low ? step : -step, steps, from);
}

}  // namespace hg::kernels
