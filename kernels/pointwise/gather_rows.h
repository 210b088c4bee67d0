// SPDX-License-Identifier: Apache-2.0
// Copies rows of a strided operand into a buffer, and widens 16-bit floats.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/element.h"
#include "kernels/simd/gather_simd.h"
#include "kernels/simd/half_simd.h"

namespace hg::kernels {

// Elements of an operand: rows that are `step` elements apart, of n elements `stride` apart.
struct Rows {
  const std::byte* from;
  int64_t step, stride, count, n;
};
// Gathers them into `to`.
using GatherRows = void (*)(const Rows& rows, std::byte* to);

template <class From, class To>
void gather_rows(const Rows& rows, std::byte* out) {
  const From* from = reinterpret_cast<const From*>(rows.from);
  To* to = reinterpret_cast<To*>(out);
  const int64_t n = rows.n, stride = rows.stride;
  if constexpr (std::is_same_v<From, To> && sizeof(To) == 4) {
    const GatherTable& table = gather_table();
    if (stride <= 1 && stride >= 0 && n >= table.least)
      return (stride == 0 ? table.fill : table.copy)(from, rows.step, rows.count, n, to);
  }
  for (int64_t r = 0; r < rows.count; ++r, from += rows.step, to += n) {
    if constexpr (kIsHalf<From>) {
      if (stride == 1) {
        half_table().widen(n, from, to);
        continue;
      }
    }
    if (stride == 1 && std::is_same_v<From, To>) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(To));
    } else if (stride == 0) {
      std::fill_n(to, n, static_cast<To>(from[0]));
    } else if (stride == 2) {  // parts of complex numbers; the compiler vectorizes this
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[2 * i]);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i * stride]);
    }
  }
}

// For operands of the dtype.
inline GatherRows gather_rows_of(DType dtype) {
  if (dtype == f16) return gather_rows<Half, float>;
  if (dtype == bf16) return gather_rows<BFloat16, float>;
  switch (size_of(dtype)) {
    case 8:
      return gather_rows<uint64_t, uint64_t>;
    case 4:
      return gather_rows<uint32_t, uint32_t>;
    case 2:
      return gather_rows<uint16_t, uint16_t>;
    default:
      return gather_rows<uint8_t, uint8_t>;
  }
}

}  // namespace hg::kernels
