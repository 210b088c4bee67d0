// SPDX-License-Identifier: Apache-2.0
// Regions and boxes.
#include "hg/ops/detection.h"

#include "converter/onnx/node.h"

namespace hg::convert::onnx {
namespace {

void roi_align(Node& n) {
  const Value x = n.in(0), rois = n.in(1);
  const std::string mode = n.string("mode", "avg");
  if (mode != "avg") n.refuse(str_cat("attribute 'mode' is '", mode, "'"));
  const std::string transform = n.string("coordinate_transformation_mode",
                                         n.opset() < 16 ? "output_half_pixel" : "half_pixel");
  const Value batch = reshape(cast(n.in(2), rois.dtype()), {rois.dim(0), 1});
  n.give(n.op("roi_align", {x, concat({batch, rois}, 1)},
              {{"output_size", Dims{n.integer("output_height", 1), n.integer("output_width", 1)}},
               {"spatial_scale", n.real("spatial_scale", 1.0)},
               {"sampling_ratio", n.integer("sampling_ratio", 0)},
               {"aligned", transform == "half_pixel"}}));
}

void max_roi_pool(Node& n) {
  const std::vector<int64_t> size = n.integers("pooled_shape");
  n.give(roi_pool(n.in(0), n.in(1), dims_of(size), n.real("spatial_scale", 1.0))[0]);
}

// For each batch and class: the boxes above the score, best first, that overlap none kept before.
void non_max_suppression(Node& n) {
  Value boxes = n.in(0);
  const Value scores = n.in(1);
  if (!scores.dim(0).is_constant() || !scores.dim(1).is_constant())
    n.refuse("the number of batches or classes is open", "give a number for it with --dim");
  const int64_t batches = scores.dim(0).constant(), classes = scores.dim(1).constant();
  if (batches * classes > 256) n.refuse("it has more than 256 batches and classes");
  Graph& g = n.graph();
  const Value most = n.has(2) ? reshape(cast(n.in(2), i64), {}) : g.scalar(int64_t{0}, i64);
  Value overlap = g.scalar(0.0, boxes.dtype());
  if (n.has(3)) overlap = reshape(cast(n.in(3), boxes.dtype()), {});
  const Dim count = boxes.dim(1);
  const auto column = [&](int64_t c) { return slice(boxes, 2, c, c + 1); };
  if (n.flag("center_point_box")) {
    const Value half_w = column(2) * 0.5, half_h = column(3) * 0.5;
    boxes =
        concat({column(0) - half_w, column(1) - half_h, column(0) + half_w, column(1) + half_h}, 2);
  } else {  // any two opposite corners, y before x
    boxes = concat({minimum(column(1), column(3)), minimum(column(0), column(2)),
                    maximum(column(1), column(3)), maximum(column(0), column(2))},
                   2);
  }
  Values found;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t c = 0; c < classes; ++c) {
      Value box = reshape(slice(boxes, 0, b, b + 1), {count, 4});
      Value score = reshape(slice(slice(scores, 0, b, b + 1), 1, c, c + 1), {count});
      Value from;  // the boxes that are looked at
      if (n.has(4)) {
        const Value above = gt(score, cast(reshape(n.in(4), {}), score.dtype()));
        const Value at = n.op("nonzero", {above});
        from = reshape(at, {at.dim(0)});
        box = n.op("index_select", {box, from}, {{"dim", 0}});
        score = n.op("index_select", {score, from}, {{"dim", 0}});
      }
      Value kept = n.op("nms", {box, score, overlap});
      if (from) kept = n.op("index_select", {from, kept}, {{"dim", 0}});
      // At most so many: places below the limit.
      const Value place = g.call("arange", {}, {{"end", kept.dim(0)}});
      const Value within = n.op("nonzero", {lt(place, most)});
      kept = n.op("index_select", {kept, reshape(within, {within.dim(0)})}, {{"dim", 0}});
      const Value line = reshape(kept, {kept.dim(0), 1});
      const auto filled = [&](int64_t value) {
        return expand(g.scalar(value, i64), {kept.dim(0), Dim(1)});
      };
      found.push_back(concat({filled(b), filled(c), line}, 1));
    }
  if (found.empty()) n.refuse("it has no batch or no class");
  n.give(concat(found, 0));
}

constexpr Builtin kRows[] = {
    {"onnx::RoiAlign", row<roi_align>},
    {"onnx::MaxRoiPool", row<max_roi_pool>},
    {"onnx::NonMaxSuppression", row<non_max_suppression>},
};

}  // namespace

Rows detection_rows() { return kRows; }

}  // namespace hg::convert::onnx
