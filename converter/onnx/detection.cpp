// SPDX-License-Identifier: Apache-2.0
// Regions and boxes.
#include "hg/ops/detection.h"

#include "converter/onnx/contrib.h"

namespace hg::convert::onnx {
namespace {

void roi_align(Node& n) {
  const Value x = n.in(0), rois = n.in(1);
  const std::string mode = n.string("mode", "avg");
  if (mode != "avg" && mode != "max") n.refuse(str_cat("attribute 'mode' is '", mode, "'"));
  const std::string transform = n.string("coordinate_transformation_mode",
                                         n.opset() < 16 ? "output_half_pixel" : "half_pixel");
  const Value batch = reshape(cast(n.in(2), rois.dtype()), {rois.dim(0), 1});
  n.give(n.op("roi_align", {x, concat({batch, rois}, 1)},
              {{"output_size", Dims{n.integer("output_height", 1), n.integer("output_width", 1)}},
               {"spatial_scale", n.real("spatial_scale", 1.0)},
               {"sampling_ratio", n.integer("sampling_ratio", 0)},
               {"aligned", transform == "half_pixel"},
               {"mode", mode}}));
}

void max_roi_pool(Node& n) {
  const std::vector<int64_t> size = n.integers("pooled_shape");
  n.give(roi_pool(n.in(0), n.in(1), dims_of(size), n.real("spatial_scale", 1.0))[0]);
}

// Processes each batch and class as a group: boxes above the score, best first, that do not overlap
// an already selected box.
void non_max_suppression(Node& n) {
  Value boxes = n.in(0);
  const Value scores = n.in(1);
  Graph& g = n.graph();
  const Value most = n.has(2) ? reshape(cast(n.in(2), i64), {}) : g.scalar(int64_t{0}, i64);
  Value overlap = g.scalar(0.0, boxes.dtype());
  if (n.has(3)) overlap = reshape(cast(n.in(3), boxes.dtype()), {});
  const Dim batches = scores.dim(0), classes = scores.dim(1), count = boxes.dim(1);
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
  const Value each = size_value(g, count), class_count = size_value(g, classes);
  const auto picked = [&](const Value& x, const Value& places) {
    return n.op("index_select", {x, places}, {{"dim", 0}});
  };
  const auto counted = [&](const Dim& end) { return g.call("arange", {}, {{"end", end}}); };
  // The candidate scores of all batches, classes and boxes.
  Value score = reshape(scores, {batches * classes * count}), from = counted(score.dim(0));
  if (n.has(4)) {
    const Value above = gt(score, cast(reshape(n.in(4), {}), score.dtype()));
    const Value found = n.op("nonzero", {above});
    from = reshape(found, {found.dim(0)});
    score = picked(score, from);
  }
  const Value group = floor_divide(from, each), place = remainder(from, each);
  const Value of_box = floor_divide(group, class_count) * each + place;
  const Value box = picked(reshape(boxes, {boxes.dim(0) * count, 4}), of_box);
  const Value kept = n.op("nms", {box, score, overlap, group});
  // Limits the boxes per group by each box's rank in its group.
  const Value groups = picked(group, kept);
  const Value rank = counted(kept.dim(0)) - n.op("searchsorted", {groups, groups});
  const Value within = n.op("nonzero", {lt(rank, most)});
  const Value last = picked(kept, reshape(within, {within.dim(0)}));
  const Value last_group = picked(group, last);
  const auto line = [&](const Value& x) { return reshape(x, {last.dim(0), 1}); };
  n.give(concat({line(floor_divide(last_group, class_count)),
                 line(remainder(last_group, class_count)), line(picked(place, last))},
                1));
}

constexpr Builtin kRows[] = {
    {"onnx::RoiAlign", row<roi_align>},
    {"onnx::MaxRoiPool", row<max_roi_pool>},
    {"onnx::NonMaxSuppression", row<non_max_suppression>},
};

}  // namespace

Rows detection_rows() { return kRows; }

}  // namespace hg::convert::onnx
