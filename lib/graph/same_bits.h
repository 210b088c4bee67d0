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

// Whether all bytes of a contiguous tensor are zero. Ends at the first that is not.
inline bool has_only_zero_bytes(const ConstTensor& tensor) {
  const auto* const bytes = tensor.as<unsigned char>();
  const auto count = static_cast<size_t>(tensor.bytes());
  return count == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

}  // namespace hg
