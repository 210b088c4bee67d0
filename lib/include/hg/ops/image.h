// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/image.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

// x: [n, c, spatial...] -> [n, c, size...]
inline Value interpolate(const Value& x, std::vector<Dim> size,
                         Interpolation mode = Interpolation::nearest, bool align_corners = false,
                         bool antialias = false) {
  return x.graph()->call("interpolate", {x},
                         {{"size", Attr(std::move(size))},
                          {"mode", mode},
                          {"align_corners", align_corners},
                          {"antialias", antialias}});
}
// x: [n, c, h, w], grid: [n, h', w', 2] with (x, y) in [-1, 1] -> [n, c, h', w']; or with depth.
// mode: bilinear (of a volume too), nearest, or bicubic.
inline Value grid_sample(const Value& x, const Value& grid,
                         Interpolation mode = Interpolation::bilinear,
                         GridPadding padding_mode = GridPadding::zeros,
                         bool align_corners = false) {
  return x.graph()->call(
      "grid_sample", {x, grid},
      {{"mode", mode}, {"padding_mode", padding_mode}, {"align_corners", align_corners}});
}

}  // namespace hg
