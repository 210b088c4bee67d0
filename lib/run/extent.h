// SPDX-License-Identifier: Apache-2.0
// The memory range of a tensor's elements, including gaps.
#pragma once

#include <cstdint>

#include "hg/tensor.h"

namespace hg {

struct Extent {
  int64_t begin = 0, end = 0;

  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

inline int64_t address_of(const void* data) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data));
}

inline Extent extent_of(const void* data, int64_t bytes) {
  const int64_t begin = address_of(data);
  return {begin, begin + bytes};
}

inline Extent extent_of(const ConstTensor& tensor) {
  if (tensor.data == nullptr || tensor.count() == 0) return {};
  int64_t first = 0, last = 0;  // in elements, relative to tensor.data
  for (int d = 0; d < tensor.rank(); ++d)
    (tensor.strides[d] < 0 ? first : last) += (tensor.shape[d] - 1) * tensor.strides[d];
  const int64_t base = address_of(tensor.data);
  return {base + first * size_of(tensor.dtype), base + (last + 1) * size_of(tensor.dtype)};
}

}  // namespace hg
