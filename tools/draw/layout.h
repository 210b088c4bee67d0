// SPDX-License-Identifier: Apache-2.0
// Places boxes in layers from top to bottom so that few edges cross (Sugiyama, Tagawa and Toda
// 1981). Knows nothing about op graphs or SVG.
#pragma once

#include <vector>

namespace hg::tools {

struct Point {
  double x = 0, y = 0;
};

struct LayoutBox {
  double width = 0, height = 0;  // input
  double x = 0, y = 0;           // result: the middle of the upper side
};

struct LayoutEdge {
  int from = 0, to = 0;       // input: indices of boxes, from < to
  std::vector<Point> points;  // result: from the lower side of `from` to the upper side of `to`
};

struct Layout {
  std::vector<LayoutBox> boxes;
  std::vector<LayoutEdge> edges;
  double gap_x = 28, gap_y = 40;  // input: minimum space between boxes
  double width = 0, height = 0;   // result; everything is within [0, width] x [0, height]
};

// Deterministic.
void lay_out(Layout& layout);

}  // namespace hg::tools
