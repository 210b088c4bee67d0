// SPDX-License-Identifier: Apache-2.0
// The inner loops of depthwise convolutions with adjacent channels. They compute several
// neighboring pixels of a row of y at once, vector by vector along the channels.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/pointwise/activation.h"

namespace hg::kernels {

// y[j, channel] = bias + sum over ky, kx of weight[ky, kx, channel] x[ky x_row + j stride + kx
// dilation][channel] for the channels [begin, end), then adds the residual and applies the
// activation if it is relu or relu6.
struct ChannelsTile {
  const float* const* x = nullptr;  // pointers to pixels, or to zeros
  int64_t x_row = 0;
  int64_t kernel_y = 1, kernel_x = 1, stride = 1, dilation = 1;
  // Pointers to pixels that a later tile reads, in ahead_rows rows, for prefetching.
  const float* const* ahead = nullptr;
  int64_t ahead_rows = 0, ahead_row = 0;
  int64_t channels = 0, begin = 0, end = 0;
  const float* weight = nullptr;
  const float* bias = nullptr;      // or null
  const float* residual = nullptr;  // like y, or null
  Activation activation = Activation::none;
  float* y = nullptr;
};

// The numbers of pixels of y that a tile may have; the last one is 1.
inline constexpr std::array<int, 3> kTileColumns = {7, 4, 1};

struct ChannelsTable {
  using Tile = void (*)(const ChannelsTile&);
  using Tiles = std::array<Tile, kTileColumns.size()>;
  Tiles any = {};
  // Square kernels of 3, 5 and 7 without dilation, with steps of 1 and 2.
  Tiles square[3][2] = {};
};

}  // namespace hg::kernels
