// SPDX-License-Identifier: Apache-2.0
// The inner loops of conv_to_channels_last.cpp for one instruction set.
#pragma once

#include <cstdint>

#include "kernels/pointwise/activation.h"

namespace hg::kernels {

// y[i, channel] = bias + sum over p of x[offset[p] + i step] panels[p, channel] for some
// neighboring pixels i. Then applies the activation if it is relu or relu6.
struct EntryTile {
  const float* x = nullptr;
  const int64_t* offset = nullptr;
  int64_t depth = 0, step = 1;
  const float* panels = nullptr;  // [panels][depth][panel]
  int64_t channels = 0;
  const float* bias = nullptr;  // or null
  Activation activation = Activation::none;
  float* y = nullptr;
};

struct EntryTable {
  using Tile = void (*)(const EntryTile&);
  int64_t pixels = 1, panel = 1;  // of a whole tile, and channels of a panel
  Tile whole[3] = {};             // for any step, and steps of 1 and 2
  Tile one = nullptr;             // one pixel
};

}  // namespace hg::kernels
