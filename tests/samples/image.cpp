// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/image.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

using Dims = std::vector<Dim>;

void add_grid_samples(std::vector<Sample>& all) {
  for (const char* padding : {"zeros", "border", "reflection"})
    for (bool align : {false, true}) {
      for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
        const NamedAttrs attrs = {
            {"mode", mode}, {"padding_mode", padding}, {"align_corners", align}};
        const SampleInput x = {.shape = {2, 3, 5, 7}};
        const SampleInput grid = {.shape = {2, 3, 4, 2}, .low = -1.7, .high = 1.7};
        all.push_back({.op = "grid_sample", .inputs = {x, grid}, .attrs = attrs});
        all.push_back({.op = "grid_sample_grad",
                       .inputs = {{.shape = {2, 3, 3, 4}}, x, grid},
                       .attrs = attrs,
                       .tolerance = 1e-4,
                       .gradient = false});
      }
      for (const char* mode : {"bilinear", "nearest"})
        all.push_back(
            {.op = "grid_sample",
             .inputs = {{.shape = {1, 2, 3, 4, 5}},
                        {.shape = {1, 2, 3, 2, 3}, .low = -1.5, .high = 1.5}},
             .attrs = {{"mode", mode}, {"padding_mode", padding}, {"align_corners", align}}});
    }
}

}  // namespace

std::vector<Sample> image() {
  std::vector<Sample> all;
  struct Case {
    Sizes in, out;  // whole shapes
    const char* mode;
  };
  const Case cases[] = {
      {{1, 1, 1}, {1, 1, 1}, "nearest"},
      {{2, 3, 7}, {2, 3, 16}, "nearest"},
      {{2, 3, 7}, {2, 3, 5}, "nearest-exact"},
      {{2, 3, 7}, {2, 3, 17}, "linear"},
      {{1, 2, 5, 4}, {1, 2, 10, 8}, "nearest"},
      {{1, 2, 5, 4}, {1, 2, 3, 9}, "bilinear"},
      {{1, 2, 5, 4}, {1, 2, 1, 1}, "bilinear"},
      {{1, 2, 5, 6}, {1, 2, 11, 4}, "bicubic"},
      {{1, 1, 3, 4, 5}, {1, 1, 5, 3, 8}, "trilinear"},
      {{1, 1, 3, 4, 5}, {1, 1, 6, 8, 10}, "nearest"},
      {{1, 3, 20, 30}, {1, 3, 40, 60}, "bilinear"},
  };
  auto spatial = [](const Sizes& shape) {
    Dims dims;
    for (int i = 2; i < shape.rank(); ++i) dims.emplace_back(shape[i]);
    return dims;
  };
  auto add = [&](const Case& c, const NamedAttrs& more) {
    NamedAttrs attrs = more;
    attrs.push_back({"mode", c.mode});
    attrs.push_back({"size", spatial(c.out)});
    all.push_back({.op = "interpolate",
                   .inputs = {{.shape = c.in}},
                   .attrs = attrs,
                   .tolerance = c.in[2] > 10 ? 1e-5 : 0,
                   .gradient = c.in[2] <= 10});
    attrs.back() = {"input_size", spatial(c.in)};
    all.push_back({.op = "interpolate_grad",
                   .inputs = {{.shape = c.out}},
                   .attrs = attrs,
                   .tolerance = c.in[2] > 10 ? 1e-5 : 0,
                   .gradient = c.in[2] <= 10});
  };
  for (const Case& c : cases) {
    add(c, {});
    const std::string mode = c.mode;
    if (mode.find("linear") != std::string::npos || mode == "bicubic")
      add(c, {{"align_corners", true}});
    if (mode == "bilinear" || mode == "bicubic") add(c, {{"antialias", true}});
  }
  add({{1, 2, 5, 6}, {1, 2, 7, 8}, "bilinear"}, {{"scales", std::vector<double>{1.5, 1.4}}});
  add({{1, 2, 7}, {1, 2, 10}, "nearest"}, {{"scales", std::vector<double>{1.5}}});
  for (const char* mode : {"bilinear", "bicubic"})
    for (const bool antialias : {false, true})
      add({{1, 2, 3, 4}, {1, 2, 3, 6}, mode},
          {{"scales", std::vector<double>{1.3, 1.6}}, {"antialias", antialias}});
  add_grid_samples(all);

  const NamedAttrs blocks[] = {
      {{"kernel_size", Dims{2}}},
      {{"kernel_size", Dims{3, 2}}, {"stride", Dims{2, 1}}, {"padding", Dims{1, 0}}},
      {{"kernel_size", Dims{2}}, {"dilation", Dims{2, 3}}, {"padding", Dims{1}}},
  };
  const Sizes columns[] = {{2, 12, 30}, {2, 18, 18}, {2, 12, 30}};
  for (int i = 0; i < 3; ++i) {
    all.push_back({.op = "im2col", .inputs = {{.shape = {2, 3, 6, 7}}}, .attrs = blocks[i]});
    NamedAttrs attrs = blocks[i];
    attrs.push_back({"output_size", Dims{6, 7}});
    if (i < 2) all.push_back({.op = "col2im", .inputs = {{.shape = columns[i]}}, .attrs = attrs});
  }
  all.push_back(
      {.op = "col2im",
       .inputs = {{.shape = {1, 8, 6}}},
       .attrs = {{"output_size", Dims{4, 5}}, {"kernel_size", Dims{2, 2}}, {"dilation", Dims{2}}}});
  return all;
}

}  // namespace hg::test::samples
