// SPDX-License-Identifier: Apache-2.0
// Curves over one axis as an SVG file: losses over steps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/draw/layout.h"

namespace hg::tools {

struct Curve {
  std::string name;
  std::vector<Point> points;  // x ascending
};

// Draws a curve of many points as means of neighbors. The y axis is logarithmic if all values are
// positive and span more than a factor of 30.
std::string draw_curves(std::span<const Curve> curves, const std::string& title,
                        const std::string& x_name, const std::string& y_name);

}  // namespace hg::tools
