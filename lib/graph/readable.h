// SPDX-License-Identifier: Apache-2.0
// Whether a tensor of the host can be read or written.
#pragma once

#include <string>

#include "hg/tensor.h"

namespace hg {

// Whether a tensor has data, unless it has no elements, and one stride per dim.
inline bool is_readable(const void* data, const Sizes& shape, const Sizes& strides) {
  return strides.rank() == shape.rank() && (data != nullptr || shape.count() == 0);
}
inline bool is_readable(const ConstTensor& tensor) {
  return is_readable(tensor.data, tensor.shape, tensor.strides);
}

// What is_readable() rejects, such as "null data for shape [2, 3]".
std::string unreadable_part(const Sizes& shape, const Sizes& strides);
inline std::string unreadable_part(const ConstTensor& tensor) {
  return unreadable_part(tensor.shape, tensor.strides);
}

}  // namespace hg
