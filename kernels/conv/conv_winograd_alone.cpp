// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/conv_winograd_alone.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace hg::kernels {
namespace {

// Limit of the ratio between the largest element of a tile and that of a window. A rounding error
// of the tile is then 2^-16 of the window's largest element.
constexpr float kMostTimes = 256;
// Above this, the transforms may overflow.
constexpr float kMost = 1e30f;
constexpr uint32_t kInfinity = 0x7f800000;

// Whether the transforms suit a window with largest element `own` in a tile with `largest`.
bool suits(uint32_t largest, uint32_t own) {
  return largest <= std::bit_cast<uint32_t>(kMost) &&
         std::bit_cast<float>(largest) <= kMostTimes * std::bit_cast<float>(own);
}

}  // namespace

int64_t find_alone(const WinogradTable& table, int m, int64_t tiles_y, int64_t tiles_x,
                   int64_t height, int64_t width, const uint32_t* largest, int64_t step,
                   uint32_t* room, AloneWindow* to) {
  int64_t found = 0;
  const auto add_tile = [&](int64_t ty, int64_t tx, uint32_t of_tile) {
    const int64_t first = found;
    bool all = false;
    for (int64_t line = m * ty; line < std::min(m * (ty + 1), height); ++line)
      for (int64_t column = m * tx; column < std::min(m * (tx + 1), width); ++column) {
        uint32_t own = 0;
        for (int64_t r = 0; r < 3; ++r)
          for (int64_t j = 0; j < 3; ++j)
            own = std::max(own, largest[(line + r) * step + column + j]);
        // A window with NaN gives NaN either way.
        all = all || (own > 0 && own <= kInfinity && !suits(of_tile, own));
        to[found++] = {.line = static_cast<int32_t>(line),
                       .column = static_cast<int32_t>(column),
                       .is_zero = own == 0};
      }
    if (!all)
      found = std::remove_if(to + first, to + found,
                             [](const AloneWindow& each) { return each.is_zero == 0; }) -
              to;
  };
  for (int64_t ty = 0; ty < tiles_y; ++ty) {
    const uint32_t* const top = largest + m * ty * step;
    std::fill_n(room, step, 0u);
    for (int64_t r = 0; r < m + 2; ++r)
      table.largest(reinterpret_cast<const float*>(top + r * step), step, room);
    // Each window of a tile contains one of the four middle elements.
    const uint32_t *const upper = top + m / 2 * step + m / 2, *const lower = upper + step;
    for (int64_t tx = 0; tx < tiles_x; ++tx) {
      const int64_t x = m * tx;
      uint32_t of_tile = 0;
      for (int64_t j = 0; j < m + 2; ++j) of_tile = std::max(of_tile, room[x + j]);
      const uint32_t least =
          std::min(std::min(upper[x], upper[x + 1]), std::min(lower[x], lower[x + 1]));
      if (!suits(of_tile, least)) add_tile(ty, tx, of_tile);
    }
  }
  return found;
}

void kernel_of_transform(int m, const float* u, int64_t step, double (&kernel)[9]) {
  // The first row of G gives g0, the last g2, and the difference of the second and the third g1.
  const double rate = m == 2 ? 1 : -1.5 / (2 * 0.70710678118654752440);
  const int side = m + 2;
  double half[3][6];  // columns of G g G^T; rows are done
  for (int j = 0; j < side; ++j) {
    const auto at = [&](int row) { return double{u[(row * side + j) * step]}; };
    half[0][j] = at(0);
    half[1][j] = rate * (at(1) - at(2));
    half[2][j] = at(side - 1);
  }
  for (int i = 0; i < 3; ++i) {
    kernel[3 * i] = half[i][0];
    kernel[3 * i + 1] = rate * (half[i][1] - half[i][2]);
    kernel[3 * i + 2] = half[i][side - 1];
  }
  // A middle of 0 must not become the rounding error of the others, which an infinity would expose.
  double most = 0;
  for (const int row : {1, 2})
    for (const int j : {1, 2}) most = std::max(most, std::abs(double{u[(row * side + j) * step]}));
  if (std::abs(kernel[4]) < 2e-7 * most) kernel[4] = 0;
}

}  // namespace hg::kernels
