// SPDX-License-Identifier: Apache-2.0
// The transforms of 3x3 Winograd convolutions, F(m x m, 3x3) with m = 2 or 4 (Lavin and Gray 2015,
// section 4.1), for every instruction set. A tile of (m + 2)^2 inputs gives m^2 outputs;
// neighboring tiles are m apart. Tiles are numbered row by row. For m = 4 the points are 0,
// +-sqrt(1/2), +-sqrt(2) and infinity, which keep the coefficients near 1 (Barabasz et al. 2020).
#pragma once

#include <cstdint>

namespace hg::kernels {

// Elements beyond the last tile that the transforms may read and write.
inline constexpr int64_t kWinogradSlack = 64;

struct WinogradTable {
  // to[j] = max(to[j], bits of |x[j]|), where NaN is the largest. Processes whole vectors: up to
  // kWinogradSlack elements beyond the count.
  void (*largest)(const float* x, int64_t count, uint32_t* to) = nullptr;
  // to = `left` zeros, `count` elements of from (zeros if it is null), then zeros up to `width`;
  // also updates the maxima as largest() does.
  void (*pad_row)(const float* from, int64_t left, int64_t count, int64_t width, float* to,
                  uint32_t* largest) = nullptr;
  // to[j plane_step + tile] = row[m tile + j] for the m + 2 columns j of a row of tiles.
  void (*split)(const float* row, int64_t tiles_x, float* to, int64_t plane_step) = nullptr;
  // v = B^T d B of all tiles. Element (i, j) of tile t is at planes[((i mod m) (m + 2) + j)
  // plane_step + (i / m) tiles_x + t]. Element e of v goes to panel t / nr: to[e e_step + t / nr
  // panel_step + t mod nr].
  void (*input)(int64_t tiles, int64_t tiles_x, const float* planes, int64_t plane_step, float* to,
                int64_t e_step, int64_t panel_step) = nullptr;
  // y = A^T p A of all tiles, where element e of p for tile t is products[e product_step + t].
  // Elements beyond height or width are omitted, and rows of y are y_step apart. `planes` has room
  // for m^2 times plane_step elements and a row.
  void (*output)(int64_t tiles_y, int64_t tiles_x, const float* products, int64_t product_step,
                 float* planes, int64_t plane_step, float* y, int64_t y_step, int64_t height,
                 int64_t width) = nullptr;
};

const WinogradTable& winograd_table(int m);

}  // namespace hg::kernels
