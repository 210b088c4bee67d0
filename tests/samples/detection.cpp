// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/detection.cpp.
#include <cmath>

#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

using Dims = std::vector<Dim>;

// Boxes on a grid of sixteenths, which 16-bit floats represent exactly.
std::vector<double> boxes_of(int count) {
  std::vector<double> boxes;
  for (int i = 0; i < count; ++i) {
    const double x = i * 37 % 61 * 0.25, y = i * 23 % 47 * 0.25;
    for (double side : {x, y, x + 1.5 + i % 5, y + 2 + i % 3}) boxes.push_back(side);
  }
  return boxes;
}

}  // namespace

std::vector<Sample> detection() {
  std::vector<Sample> all;
  for (double threshold : {0.0, 0.3, 0.7}) {
    std::vector<double> scores;
    for (int i = 0; i < 53; ++i) scores.push_back(i * 29 % 31 / 32.0);  // some are equal
    all.push_back(
        {.op = "nms",
         .inputs = {{.shape = {53, 4}, .values = boxes_of(53)}, {.shape = {53}, .values = scores}},
         .attrs = {{"iou_threshold", threshold}},
         .tolerance = 1e-3});
    all.push_back({.op = "nms",
                   .inputs = {{.shape = {53, 4}, .values = boxes_of(53)},
                              {.shape = {53}, .values = scores},
                              {.shape = {}, .values = {threshold}}},
                   .tolerance = 1e-3});
  }
  std::vector<double> groups, scores;
  for (int i = 0; i < 53; ++i) {
    groups.push_back(i * 7 % 3 - 1);
    scores.push_back(i * 29 % 31 / 32.0);
  }
  all.push_back({.op = "nms",
                 .inputs = {{.shape = {53, 4}, .values = boxes_of(53)},
                            {.shape = {53}, .values = scores},
                            {.shape = {}, .given = false},
                            {.dtype = i64, .shape = {53}, .values = groups}},
                 .attrs = {{"iou_threshold", 0.3}},
                 .tolerance = 1e-3});
  all.push_back({.op = "nms",
                 .inputs = {{.shape = {0, 4}}, {.shape = {0}}},
                 .attrs = {{"iou_threshold", 0.5}}});

  // The last regions lie partly, or wholly, outside; one has no area.
  const SampleInput rois = {.shape = {5, 5},
                            .values = {0, 0.5, 1.25, 9.5, 7, 1, 2.25, 0, 3.5, 5,  1,  -4, -3,
                                       5, 6,   0,    4,   4, 4, 4,    0, 30,  30, 40, 50},
                            .constant = true};
  for (int64_t ratio : {0, 2})
    for (bool aligned : {false, true}) {
      NamedAttrs attrs = {{"output_size", Dims{3, 2}},
                          {"spatial_scale", 0.5},
                          {"sampling_ratio", ratio},
                          {"aligned", aligned}};
      all.push_back({.op = "roi_align", .inputs = {{.shape = {2, 3, 5, 7}}, rois}, .attrs = attrs});
      NamedAttrs largest = attrs;
      largest.push_back({"mode", "max"});
      all.push_back({.op = "roi_align",
                     .inputs = {{.shape = {2, 3, 5, 7}}, rois},
                     .attrs = largest,
                     .gradient = false});
      attrs.push_back({"input_size", Dims{2, 3, 5, 7}});
      all.push_back(
          {.op = "roi_align_grad", .inputs = {{.shape = {5, 3, 3, 2}}, rois}, .attrs = attrs});
    }
  // Regions that barely overlap the image.
  std::vector<double> wide;
  for (int i = 0; i < 40; ++i) {
    const double size = std::pow(10, i / 10);
    const double x = std::floor(std::sin(i) * size), y = std::floor(std::cos(3 * i) * size);
    wide.insert(wide.end(), {i % 2 * 1.0, x, y, x + size * (i % 7), y + size * (i % 5)});
  }
  all.push_back(
      {.op = "roi_align",
       .inputs = {{.shape = {2, 1, 5, 7}}, {.shape = {40, 5}, .values = wide, .constant = true}},
       .attrs = {{"output_size", Dims{3, 2}}}});
  all.push_back({.op = "roi_align",
                 .inputs = {{.shape = {2, 1, 5, 7}},
                            {.shape = {20, 5},
                             .values = std::vector<double>(wide.begin(), wide.begin() + 100),
                             .constant = true}},
                 .attrs = {{"output_size", Dims{3, 2}}, {"mode", "max"}},
                 .gradient = false});
  all.push_back({.op = "roi_pool",
                 .inputs = {{.shape = {2, 3, 5, 7}}, rois},
                 .attrs = {{"output_size", Dims{3, 2}}, {"spatial_scale", 0.5}}});

  struct Deform {
    Sizes x, offset;  // for one group of offsets
    int64_t area, groups;
    NamedAttrs attrs;
  };
  const Deform cases[] = {
      {{1, 2, 5, 6}, {1, 8, 4, 5}, 4, 1, {{"kernel_size", Dims{2}}}},
      {{2, 4, 6, 5},
       {2, 24, 3, 5},
       6,
       2,
       {{"kernel_size", Dims{3, 2}},
        {"stride", Dims{2, 1}},
        {"padding", Dims{1}},
        {"dilation", Dims{1, 2}}}},
  };
  for (const Deform& d : cases) {
    const SampleInput x = {.shape = d.x}, offset = {.shape = d.offset, .low = -1.9, .high = 1.9};
    const SampleInput mask = {.shape = {d.offset[0], d.area * d.groups, d.offset[2], d.offset[3]}};
    const Sizes columns = {d.x[0], d.x[1] * d.area, d.offset[2] * d.offset[3]};
    all.push_back({.op = "deform_im2col", .inputs = {x, offset, mask}, .attrs = d.attrs});
    all.push_back({.op = "deform_im2col_grad",
                   .inputs = {{.shape = columns}, x, offset, mask},
                   .attrs = d.attrs,
                   .tolerance = 1e-5});
    NamedAttrs attrs(d.attrs.begin() + 1, d.attrs.end());
    attrs.push_back({"groups", d.groups});
    const SampleInput weight = {.shape = {6, d.x[1] / d.groups, d.groups == 2 ? 3 : 2, 2}};
    all.push_back({.op = "deform_conv2d",
                   .inputs = {x, weight, offset, {.shape = {6}}, mask},
                   .attrs = attrs,
                   .tolerance = 1e-5});
    all.push_back(
        {.op = "deform_conv2d",
         .inputs =
             {x, weight, offset, {.shape = {}, .given = false}, {.shape = {}, .given = false}},
         .attrs = attrs,
         .tolerance = 1e-5});
  }
  for (Sample& sample : all)
    if (sample.op != "nms" && sample.op != "deform_conv2d") sample.floats = kWideFloats;
  return all;
}

}  // namespace hg::test::samples
