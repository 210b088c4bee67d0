// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/image.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

// x: [n, c, spatial...] -> [n, c, size...]. mode: nearest, nearest-exact, linear, bilinear,
// trilinear, bicubic.
inline Value interpolate(const Value& x, std::vector<Dim> size, std::string mode = "nearest",
                         bool align_corners = false, bool antialias = false) {
  return x.graph()->call("interpolate", {x},
                         {{"size", Attr(std::move(size))},
                          {"mode", Attr(std::move(mode))},
                          {"align_corners", align_corners},
                          {"antialias", antialias}});
}
// x: [n, c, h, w], grid: [n, h', w', 2] with (x, y) in [-1, 1] -> [n, c, h', w']; or with depth.
// mode: bilinear, nearest, bicubic; padding_mode: zeros, border, reflection.
inline Value grid_sample(const Value& x, const Value& grid, std::string mode = "bilinear",
                         std::string padding_mode = "zeros", bool align_corners = false) {
  return x.graph()->call("grid_sample", {x, grid},
                         {{"mode", Attr(std::move(mode))},
                          {"padding_mode", Attr(std::move(padding_mode))},
                          {"align_corners", align_corners}});
}

}  // namespace hg
