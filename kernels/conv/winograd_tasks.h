// SPDX-License-Identifier: Apache-2.0
// Divides a convolution by Winograd's algorithm among lanes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/ceil_div.h"
#include "kernels/gemm/tiles.h"

namespace hg::kernels {

// Images of rows of tiles. A task handles some rows of one image and some output channels.
struct WinogradTiles {
  int64_t images = 0, x = 0, y = 0;
};

struct WinogradTasks {
  int64_t rows = 1, o = 1;  // groups of an image's rows of tiles, and of the output channels
};

// At most `most` tiles a task, which keep the transformed input in the second-level cache, and at
// most `most_o` groups of output channels, each of which transforms the input again. Minimizes the
// work of the busiest lane. cost(tiles, o, groups): of some tiles and group `o` of the channels.
template <class Cost>
WinogradTasks choose_winograd_tasks(const WinogradTiles& tiles, int64_t most, int64_t most_o,
                                    int threads, const Cost& cost) {
  const int64_t least = ceil_div(tiles.y, std::max<int64_t>(1, most / tiles.x));
  most_o = std::min<int64_t>(threads, most_o);
  WinogradTasks chosen;
  double best = 0;
  for (int64_t o = 1; o <= most_o; o = o < most_o ? std::min(2 * o, most_o) : most_o + 1)
    for (int64_t rows = least; rows <= tiles.y; ++rows) {
      const int64_t parts = tiles.images * rows, tasks = parts * o;
      const double busiest = busiest_lane(tasks, threads, [&](int64_t task) {
        const int64_t row = task % rows;
        return cost((part_begin(tiles.y, rows, row + 1) - part_begin(tiles.y, rows, row)) * tiles.x,
                    task / parts, o);
      });
      if (best == 0 || busiest < best) {
        best = busiest;
        chosen = {rows, o};
      }
      if (tasks >= 16 * threads || (tasks >= 4 * threads && rows > least)) break;
    }
  return chosen;
}

}  // namespace hg::kernels
