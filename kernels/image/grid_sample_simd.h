// SPDX-License-Identifier: Apache-2.0
// Bilinear and nearest sampling of planes of f32, a block of points at a time.
#pragma once

#include <cstdint>

namespace hg::kernels {

// The pixels that a block of points reads; all channels of an image share them.
struct PlaneTaps {
  static constexpr int64_t kPoints = 64;
  static constexpr int kMost = 4;
  int count = 4;                           // of each point; 1: nearest
  bool all_inside = true;                  // no pixel is outside
  alignas(64) int32_t at[kMost][kPoints];  // position in the plane; -1: outside, ignored
  alignas(64) float weight[kMost][kPoints];
};

struct GridPlane {
  int32_t height = 0, width = 0;  // 1 to kLargest; their product fits int32_t
  static constexpr int64_t kLargest = int64_t{1} << 24;
  bool nearest = false, border = false, align_corners = false;
};

struct GridSampleTable {
  // For at most kPoints points; grid holds x and y of each.
  void (*taps)(const GridPlane& plane, const float* grid, int64_t count, PlaneTaps& taps);
  // y[i] = the sum of x at the taps of point i times their weights
  void (*sample)(const PlaneTaps& taps, const float* x, float* y, int64_t count);
};
const GridSampleTable& grid_sample_table();  // of the chosen instruction set

}  // namespace hg::kernels
