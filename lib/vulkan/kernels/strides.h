// SPDX-License-Identifier: Apache-2.0
// Shapes for shaders that support any strides: drops dims of size 1, and merges neighboring dims
// that every tensor steps through as one.
#pragma once

#include <vector>

#include "hg/tensor.h"

namespace hg::vulkan {

struct Joined {
  Sizes shape;                 // never of rank 0
  std::vector<Sizes> strides;  // of each tensor
};

// `strides[t]`: for a tensor of this shape; zero where it is broadcast.
inline Joined join_dims(const Sizes& shape, const std::vector<Sizes>& strides) {
  Joined joined;
  joined.strides.resize(strides.size());
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    bool joins = !joined.shape.empty();
    for (size_t t = 0; t < strides.size() && joins; ++t)
      joins = joined.strides[t].back() == strides[t][d] * shape[d];
    if (joins) {
      joined.shape[joined.shape.rank() - 1] *= shape[d];
      for (size_t t = 0; t < strides.size(); ++t)
        joined.strides[t][joined.shape.rank() - 1] = strides[t][d];
    } else {
      joined.shape.push_back(shape[d]);
      for (size_t t = 0; t < strides.size(); ++t) joined.strides[t].push_back(strides[t][d]);
    }
  }
  if (joined.shape.empty()) {
    joined.shape.push_back(1);
    for (Sizes& s : joined.strides) s.push_back(0);
  }
  return joined;
}

// The strides of a tensor broadcast to a shape of at least its rank.
inline Sizes broadcast_strides(const Tensor& tensor, const Sizes& shape) {
  Sizes strides(shape.rank(), 0);
  const int lead = shape.rank() - tensor.rank();
  for (int d = 0; d < tensor.rank(); ++d)
    if (tensor.shape[d] != 1) strides[lead + d] = tensor.strides[d];
  return strides;
}

}  // namespace hg::vulkan
