// SPDX-License-Identifier: Apache-2.0
// The choice between the kernels `few_pixels` and `winograd` for few output pixels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hg/kernel.h"

namespace hg::kernels {

bool accepts_few_pixels(const PrepareContext& c);
// The cost of accepted sizes on one core, in operations on vectors of `lanes` elements.
double cost_of_few_pixels(const PrepareContext& c, int64_t lanes);

// The time to read weights from memory, in vector operations. Measured: a cache keeps about
// 4 MiB of a convolution's weights from run to run, and reading 2 more bytes takes as long as a
// vector operation.
inline double cost_of_reading(double weight_bytes) {
  constexpr double kKept = 4 << 20, kBytesPerOperation = 2;
  return std::max(0.0, weight_bytes - kKept) / kBytesPerOperation;
}

}  // namespace hg::kernels
