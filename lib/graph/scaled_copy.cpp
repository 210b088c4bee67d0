// SPDX-License-Identifier: Apache-2.0
#include "lib/graph/element.h"

namespace hg {

void scaled_copy(const Tensor& from, int64_t begin, int64_t end, double factor, const Tensor& to) {
  if (from.dtype == f32 && to.dtype == f32) {
    const float* __restrict__ const numbers = from.as<float>();
    float* __restrict__ const products = to.as<float>();
    for (int64_t i = begin; i < end; ++i) products[i] = static_cast<float>(numbers[i] * factor);
    return;
  }
  for (int64_t i = begin; i < end; ++i) set_element(to, i, element(from, i) * factor);
}

}  // namespace hg
