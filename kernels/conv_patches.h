// SPDX-License-Identifier: Apache-2.0
// Convolutions as matrix products: row p of the patches has, for each output pixel, what the kernel
// element p of the order [channel of the group, kernel...] meets there.
#pragma once

#include <algorithm>

#include "kernels/conv_shape.h"

namespace hg::kernels {

// The output pixels [first, first + columns) of an image, row by row.
struct Pixels {
  int64_t first, columns;
};

// One row of the patches; x points at the group's first channel.
void patch_row(const ConvShape& s, const float* x, int64_t p, const Pixels& pixels, float* to);

}  // namespace hg::kernels
