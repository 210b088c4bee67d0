// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/detection.cpp.
#pragma once

#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Indices (i64) of the boxes [count, 4] (x1, y1, x2, y2) that overlap none of a higher score by
// more than iou_threshold, best first.
inline Value nms(const Value& boxes, const Value& scores, double iou_threshold) {
  return boxes.graph()->call("nms", {boxes, scores}, {{"iou_threshold", iou_threshold}});
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

}  // namespace hg
