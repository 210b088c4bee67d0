// SPDX-License-Identifier: Apache-2.0
// The transforms of 3x3 convolutions after Winograd, F(2x2, 3x3) (Lavin and Gray 2015,
// section 4.1), for every instruction set. A tile of 4x4 inputs gives 2x2 outputs; neighbouring
// tiles are 2 apart.
#pragma once

#include <cstdint>

namespace hg::kernels {

// Elements beyond the last tile that the transforms may read and write.
inline constexpr int64_t kWinogradSlack = 64;

struct WinogradTable {
  // to = `left` zeros, `count` elements of from (all zeros when that is null), zeros up to `width`.
  void (*pad_row)(const float* from, int64_t left, int64_t count, int64_t width,
                  float* to) = nullptr;
  // v[e v_step + tile] = (B^T d B)[e] for the 16 elements e of all tiles, row by row. x points at
  // the first tile's first element and is read 2 (tiles_x + slack) columns wide.
  void (*input)(int64_t tiles_y, int64_t tiles_x, const float* x, int64_t x_row, float* v,
                int64_t v_step) = nullptr;
  // y = A^T m A for all tiles; what lies beyond height or width is left out. `rows` is room for two
  // rows of 2 (tiles_x + slack) elements.
  void (*output)(int64_t tiles_y, int64_t tiles_x, const float* m, int64_t m_step, float* y,
                 int64_t height, int64_t width, float* rows) = nullptr;
};

const WinogradTable& winograd_table();

}  // namespace hg::kernels
