// SPDX-License-Identifier: Apache-2.0
// Divides the product of a convolution among threads: the columns of an image's group into tiles of
// whole panels, and the group's output channels into parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/ceil_div.h"
#include "kernels/gemm/tiles.h"

namespace hg::kernels {

struct ColumnParts {
  int64_t tiles = 1, tile = 0;   // of an image's group; columns of the largest
  std::vector<int64_t> first_o;  // of each part of a group's output channels, and the end

  int64_t parts() const { return static_cast<int64_t>(first_o.size()) - 1; }
  // The first of `columns` in a tile. nr: columns of a panel.
  int64_t first_column(int64_t index, int64_t columns, int64_t nr) const {
    return std::min(columns, part_begin(ceil_div(columns, nr), tiles, index) * nr);
  }

  struct Product {
    int64_t columns = 0, rows = 0;  // of a group
    int64_t images = 0;             // times groups
    int64_t products = 0;           // of numbers, of an image
    int64_t most_panels = 1;        // of a tile
    int mr = 1, nr = 1;
    int64_t threads = 1;
  };
  void divide(const Product& p) {
    constexpr int64_t kLeastShared = 400000;  // products of a convolution that is worth sharing
    const int64_t panels = ceil_div(p.columns, int64_t{p.nr});
    const int64_t wanted = 2 * p.threads;
    tiles = std::max<int64_t>(1, ceil_div(panels, p.most_panels));
    int64_t count = 1;
    if (p.threads > 1 && p.images > 0 && p.products > kLeastShared) {
      if (p.images * tiles < wanted)
        tiles = std::clamp(ceil_div(wanted, p.images), tiles, std::max(tiles, panels));
      count = ceil_div(wanted, p.images * tiles);
    }
    first_o = row_parts(p.rows, p.mr, count);
    tile = ceil_div(panels, tiles) * p.nr;
  }
};

}  // namespace hg::kernels
