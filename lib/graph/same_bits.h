// SPDX-License-Identifier: Apache-2.0
// Equality of tensors to the bit.
#pragma once

#include <cstring>

#include "hg/tensor.h"

namespace hg {

// Whether two contiguous tensors have the same dtype, shape and bits.
inline bool have_same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         (a.bytes() == 0 || std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0);
}

}  // namespace hg
