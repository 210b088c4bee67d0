// SPDX-License-Identifier: Apache-2.0
// Ops of torchvision's detection models.
#include "converter/rows/rows.h"
#include "converter/rows/scalar.h"

namespace hg::convert::rows {
namespace {

using Dims = std::vector<Dim>;

// 16-bit floats are computed in f32.
DType wide(DType dtype) { return dtype == f64 ? f64 : f32; }

void nms(Call& call) {
  const Value boxes = call.tensor("dets"), scores = call.tensor("scores");
  const Real threshold = scalar(call, "iou_threshold");
  if (threshold.is_known())
    return call.returns(
        call.graph().call("nms", {boxes, scores}, {{"iou_threshold", threshold.known()}}));
  call.returns(call.graph().call("nms", {boxes, scores, threshold.like(boxes)}));
}

// The boxes in pixels of the image, where data decides their scale: scale 1 is left then.
Value scaled_rois(Call& call, DType dtype, double& scale) {
  const Value rois = convert::cast(call.tensor("rois"), dtype);
  const Real given = scalar(call, "spatial_scale");
  scale = given.is_known() ? given.known() : 1;
  if (given.is_known()) return rois;
  const auto columns = [&](int64_t from, int64_t to) {
    return call.graph().call("slice", {rois}, {{"dim", 1}, {"start", from}, {"end", to}});
  };
  return call.graph().call(
      "concat",
      {columns(0, 1), call.graph().call("mul", {columns(1, 5), given.as(call.graph(), dtype)})},
      {{"dim", 1}});
}

void roi_align(Call& call) {
  const Value x = call.tensor("input");
  const DType dtype = wide(x.dtype());
  const int64_t ratio = call.number("sampling_ratio");
  double scale = 1;
  const Value rois = scaled_rois(call, dtype, scale);
  const Value y = call.graph().call(
      "roi_align", {convert::cast(x, dtype), rois},
      {{"output_size", Dims{call.size("pooled_height"), call.size("pooled_width")}},
       {"spatial_scale", scale},
       {"sampling_ratio", ratio > 0 ? ratio : 0},
       {"aligned", call.flag("aligned")}});
  call.returns(convert::cast(y, x.dtype()));
}

void roi_pool(Call& call) {
  const Value x = call.tensor("input");
  const DType dtype = wide(x.dtype());
  double scale = 1;
  const Value rois = scaled_rois(call, dtype, scale);
  const std::vector<Value> y = call.graph().calls(
      "roi_pool", {convert::cast(x, dtype), rois},
      {{"output_size", Dims{call.size("pooled_height"), call.size("pooled_width")}},
       {"spatial_scale", scale}});
  if (y.size() == 2)
    call.returns(std::vector<Value>{convert::cast(y[0], x.dtype()), convert::cast(y[1], i32)});
}

// The shape of offset determines the number of offset groups.
void deform_conv2d(Call& call) {
  const Value mask = call.flag("use_mask") ? call.tensor("mask") : Value();
  const auto pair = [&](std::string_view h, std::string_view w) {
    return Dims{call.size(h), call.size(w)};
  };
  call.returns(call.graph().call("deform_conv2d",
                                 {call.tensor("input"), call.tensor("weight"),
                                  call.tensor("offset"), call.tensor("bias"), mask},
                                 {{"stride", pair("stride_h", "stride_w")},
                                  {"padding", pair("pad_h", "pad_w")},
                                  {"dilation", pair("dilation_h", "dilation_w")},
                                  {"groups", call.size("groups")}}));
}

constexpr Row kRows[] = {
    {"torchvision::nms", nms},
    {"torchvision::roi_align", roi_align},
    {"torchvision::roi_pool", roi_pool},
    {"torchvision::deform_conv2d", deform_conv2d},
};

}  // namespace

std::span<const Row> detection() { return kRows; }

}  // namespace hg::convert::rows
