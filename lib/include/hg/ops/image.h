// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/image.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

// Resizes x: [n, c, spatial...] -> [n, c, size...]. scales: factors used to compute positions, one
// per spatial dim; empty: the ratios of the sizes.
inline Value interpolate(const Value& x, std::vector<Dim> size,
                         Interpolation mode = Interpolation::nearest, bool align_corners = false,
                         bool antialias = false, std::vector<double> scales = {}) {
  return x.graph()->call("interpolate", {x},
                         {{"size", Attr(std::move(size))},
                          {"mode", mode},
                          {"align_corners", align_corners},
                          {"antialias", antialias},
                          {"scales", Attr(std::move(scales))}});
}
// Samples x: [n, c, h, w] at grid: [n, h', w', 2], pairs (x, y) in [-1, 1] -> [n, c, h', w'].
// Volumes have a depth dim and triples. mode: bilinear (also for volumes), nearest, or bicubic.
inline Value grid_sample(const Value& x, const Value& grid,
                         Interpolation mode = Interpolation::bilinear,
                         GridPadding padding_mode = GridPadding::zeros,
                         bool align_corners = false) {
  return x.graph()->call(
      "grid_sample", {x, grid},
      {{"mode", mode}, {"padding_mode", padding_mode}, {"align_corners", align_corners}});
}

// Each list has one number per spatial dim, or one number for both.
struct PatchOptions {
  std::vector<Dim> dilation = {1}, padding = {0}, stride = {1};
};
// Extracts the patches of x [n, c, h, w] as columns: [n, c * kernel area, number of patches].
inline Value im2col(const Value& x, std::vector<Dim> kernel_size, const PatchOptions& o = {}) {
  return x.graph()->call("im2col", {x},
                         {{"kernel_size", Attr(std::move(kernel_size))},
                          {"dilation", o.dilation},
                          {"padding", o.padding},
                          {"stride", o.stride}});
}
// The transpose of im2col; overlapping patches are summed: [n, c * kernel area, patches] -> [n, c,
// output_size...].
inline Value col2im(const Value& x, std::vector<Dim> output_size, std::vector<Dim> kernel_size,
                    const PatchOptions& o = {}) {
  return x.graph()->call("col2im", {x},
                         {{"output_size", Attr(std::move(output_size))},
                          {"kernel_size", Attr(std::move(kernel_size))},
                          {"dilation", o.dilation},
                          {"padding", o.padding},
                          {"stride", o.stride}});
}

}  // namespace hg
