// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/detection.cpp, with torchvision's semantics.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Non-maximum suppression. boxes: [count, 4] as (x1, y1, x2, y2). Returns the indices (i64) of the
// kept boxes, highest score first. A box is dropped if its IoU with a kept box exceeds
// iou_threshold, or `threshold` (rank 0, the dtype of boxes) if given. With `groups` (i64[count]),
// a box only drops boxes of its group, and the result has the groups in ascending order.
inline Value nms(const Value& boxes, const Value& scores, double iou_threshold = 0,
                 const Value& threshold = {}, const Value& groups = {}) {
  return boxes.graph()->call("nms", {boxes, scores, threshold, groups},
                             {{"iou_threshold", iou_threshold}});
}
// x: [n, c, h, w], rois: [count, 5] as (image, x1, y1, x2, y2) -> [count, c, output_size...].
// sampling_ratio 0 uses one sample per pixel. Mode "max" returns the largest weighted pixel of the
// samples instead of their mean, as ONNX does, and has no gradient.
inline Value roi_align(const Value& x, const Value& rois, std::vector<Dim> output_size,
                       double spatial_scale = 1, int sampling_ratio = 0, bool aligned = false,
                       std::string mode = "avg") {
  return x.graph()->call("roi_align", {x, rois},
                         {{"output_size", Attr(std::move(output_size))},
                          {"spatial_scale", spatial_scale},
                          {"sampling_ratio", sampling_ratio},
                          {"aligned", aligned},
                          {"mode", std::move(mode)}});
}
// Returns the largest element of each part of a roi, and its position in h * w (i64; -1 if the part
// is empty).
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
// Deformable convolution: each element of x [n, c, h, w] is read at its position plus an offset and
// multiplied by mask. With `kernel` the kernel's area and channels divided into `parts`: weight is
// [out, c / groups, kernel...], offset is [n, 2 * parts * kernel, h', w'] as (y, x), and mask is
// [n, parts * kernel, h', w'].
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
