// SPDX-License-Identifier: Apache-2.0
// Kernels that only move elements treat them as unsigned integers of the same size.
#pragma once

#include <cstdint>

#include "hg/tensor.h"

namespace hg::kernels {

// Calls f.template operator()<T>() with an unsigned integer of the size of the dtype.
template <class F>
void for_bytes(DType dtype, const F& f) {
  switch (size_of(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

}  // namespace hg::kernels
