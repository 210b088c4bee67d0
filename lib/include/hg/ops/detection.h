// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/detection.cpp.
#pragma once

#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Indices (i64) of the boxes [count, 4] (x1, y1, x2, y2) that overlap none of a higher score by
// more than iou_threshold, or `threshold`, a number of their dtype, where that is given; best
// first.
inline Value nms(const Value& boxes, const Value& scores, double iou_threshold = 0,
                 const Value& threshold = {}) {
  return boxes.graph()->call("nms", {boxes, scores, threshold}, {{"iou_threshold", iou_threshold}});
}
// x: [n, c, h, w], rois: [count, 5] (image, x1, y1, x2, y2) -> [count, c, output_size...].
// sampling_ratio 0 takes as many samples as there are pixels.
inline Value roi_align(const Value& x, const Value& rois, std::vector<Dim> output_size,
                       double spatial_scale = 1, int sampling_ratio = 0, bool aligned = false) {
  return x.graph()->call("roi_align", {x, rois},
                         {{"output_size", Attr(std::move(output_size))},
                          {"spatial_scale", spatial_scale},
                          {"sampling_ratio", sampling_ratio},
                          {"aligned", aligned}});
}
// The largest element of each part of a roi, and its place, counted in h w (i64; -1: of no part).
inline std::vector<Value> roi_pool(const Value& x, const Value& rois, std::vector<Dim> output_size,
                                   double spatial_scale = 1) {
  return x.graph()->calls(
      "roi_pool", {x, rois},
      {{"output_size", Attr(std::move(output_size))}, {"spatial_scale", spatial_scale}});
}

struct DeformConvOptions {
  std::vector<Dim> stride = {1}, padding = {0}, dilation = {1};
  Dim groups = 1;
};
// conv of x [n, c, h, w], each element read at its place plus offset, times mask. weight: [out,
// c / groups, kernel...], offset: [n, 2 parts kernel, h', w'] as (y, x), mask: [n, parts kernel,
// h', w'], where kernel is the area and channels divide into `parts`.
inline Value deform_conv2d(const Value& x, const Value& weight, const Value& offset,
                           const Value& bias = {}, const Value& mask = {},
                           const DeformConvOptions& options = {}) {
  return x.graph()->call("deform_conv2d", {x, weight, offset, bias, mask},
                         {{"stride", options.stride},
                          {"padding", options.padding},
                          {"dilation", options.dilation},
                          {"groups", options.groups}});
}

}  // namespace hg
