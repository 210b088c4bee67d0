// SPDX-License-Identifier: Apache-2.0
// Results that Winograd's transforms would spoil. The transforms add and subtract all elements of a
// tile. Each result therefore has a rounding error relative to the tile's largest element, and is
// NaN if any element is not finite, even if its own window is fine. All windows of such a tile are
// summed directly; windows of zeros are 0 in any tile.
#pragma once

#include <cstdint>

#include "kernels/conv/conv_winograd.h"

namespace hg::kernels {

// A result in some rows of tiles; `is_zero` if its window holds only zeros.
struct AloneWindow {
  int32_t line = 0, column : 31 = 0;
  uint32_t is_zero : 1 = 0;
};

// Finds the results within height and width, in tiles_y rows of tiles, that must be summed
// directly. Writes them to `to`, which has room for all, and returns their number. largest[line
// step + column] are the bits of the largest |x| of all channels there, for m rows and columns of
// each tile plus 2. `room` is memory for `step` of them.
int64_t find_alone(const WinogradTable& table, int m, int64_t tiles_y, int64_t tiles_x,
                   int64_t height, int64_t width, const uint32_t* largest, int64_t step,
                   uint32_t* room, AloneWindow* to);

// The 3x3 kernel whose transform has element e at u[e step].
void kernel_of_transform(int m, const float* u, int64_t step, double (&kernel)[9]);

}  // namespace hg::kernels
