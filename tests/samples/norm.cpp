// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/norm.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

SampleInput positive(Sizes shape) { return {.shape = shape, .low = 0.2, .high = 2}; }
const SampleInput kNone = {.shape = {}, .given = false};

}  // namespace

std::vector<Sample> norm() {
  std::vector<Sample> all;
  for (std::string_view op : {"softmax", "log_softmax"}) {
    for (const Sizes& shape : {Sizes{1}, Sizes{7}, Sizes{3, 17}, Sizes{64, 33}, Sizes{2, 5, 16},
                               Sizes{0, 4}, Sizes{4, 1}})
      all.push_back({.op = op, .inputs = {{.shape = shape, .low = -4, .high = 4}}});
    all.push_back({.op = op, .inputs = {{.shape = {}}}, .attrs = {{"dim", 0}}});
    for (int dim : {0, 1, 2, -2, -3})
      all.push_back({.op = op, .inputs = {{.shape = {3, 5, 7}}}, .attrs = {{"dim", dim}}});
    all.push_back(
        {.op = op, .inputs = {{.shape = {5, 1000}, .low = -9, .high = 9}}, .gradient = false});
    all.push_back(
        {.op = op, .inputs = {{.shape = {2, 4500}, .low = -9, .high = 9}}, .gradient = false});
    // Columns: more than one task's share, and too long to be copied.
    for (const Sizes& shape : {Sizes{2, 5, 301}, Sizes{1, 21, 37}, Sizes{2, 1300, 19}})
      all.push_back({.op = op,
                     .inputs = {{.shape = shape, .low = -9, .high = 9}},
                     .attrs = {{"dim", 1}},
                     .gradient = false});
  }
  for (const Sizes& shape :
       {Sizes{1, 5}, Sizes{3, 1}, Sizes{2, 3, 16}, Sizes{4, 33}, Sizes{0, 8}}) {
    const Sizes last = {shape.back()};
    const NamedAttrs attrs = {{"normalized_shape", std::vector<Dim>{shape.back()}}};
    all.push_back({.op = "layer_norm", .inputs = {{.shape = shape}}, .attrs = attrs});
    all.push_back({.op = "layer_norm",
                   .inputs = {{.shape = shape}, {.shape = last}, {.shape = last}},
                   .attrs = attrs});
    all.push_back(
        {.op = "rms_norm", .inputs = {{.shape = shape}, {.shape = last}}, .attrs = attrs});
  }
  all.push_back({.op = "layer_norm",
                 .inputs = {{.shape = {3, 4, 5}}, {.shape = {4, 5}}, kNone},
                 .attrs = {{"normalized_shape", std::vector<Dim>{4, 5}}, {"eps", 0.1}}});
  for (const Sizes& shape : {Sizes{3, 4500}, Sizes{5, 1024}})  // too long for copies of 16-bit rows
    all.push_back({.op = "layer_norm",
                   .inputs = {{.shape = shape}, {.shape = {shape[1]}}, {.shape = {shape[1]}}},
                   .attrs = {{"normalized_shape", std::vector<Dim>{shape[1]}}},
                   .gradient = false});
  all.push_back({.op = "layer_norm",
                 .inputs = {{.shape = {37, 257}}, {.shape = {257}}, {.shape = {257}}},
                 .attrs = {{"normalized_shape", std::vector<Dim>{257}}},
                 .gradient = false});
  all.push_back({.op = "rms_norm",
                 .inputs = {{.shape = {3, 4, 5}}},
                 .attrs = {{"normalized_shape", std::vector<Dim>{4, 5}}, {"eps", 0.1}}});
  for (int groups : {1, 2, 6}) {
    const NamedAttrs attrs = {{"groups", groups}};
    all.push_back({.op = "group_norm", .inputs = {{.shape = {2, 6, 5}}}, .attrs = attrs});
    all.push_back({.op = "group_norm",
                   .inputs = {{.shape = {3, 6, 3, 7}}, {.shape = {6}}, {.shape = {6}}},
                   .attrs = attrs});
    all.push_back(
        {.op = "group_norm", .inputs = {{.shape = {2, 6}}}, .attrs = attrs, .gradient = false});
  }
  for (const Sizes& shape :
       {Sizes{3, 4}, Sizes{2, 3, 17}, Sizes{2, 5, 4, 4}, Sizes{2, 3, 2, 2, 3}}) {
    const SampleInput channel = {.shape = {shape[1]}};
    for (bool training : {false, true}) {
      const NamedAttrs attrs = {{"training", training}, {"momentum", 0.3}, {"eps", 1e-3}};
      all.push_back({.op = "batch_norm",
                     .inputs = {{.shape = shape}, channel, channel, channel, positive({shape[1]})},
                     .attrs = attrs});
      all.push_back({.op = "batch_norm",
                     .inputs = {{.shape = shape}, kNone, kNone, channel, positive({shape[1]})},
                     .attrs = attrs});
    }
    all.push_back({.op = "batch_norm",
                   .inputs = {{.shape = shape}, channel, channel, kNone, kNone},
                   .attrs = {{"training", true}}});
  }
  for (const Sizes& shape : {Sizes{0, 4}, Sizes{2, 3, 0, 5}}) {  // the statistics do not change
    const SampleInput channel = {.shape = {shape[1]}};
    all.push_back({.op = "batch_norm",
                   .inputs = {{.shape = shape}, channel, channel, channel, positive({shape[1]})},
                   .attrs = {{"training", true}, {"momentum", 0.3}}});
  }
  return all;
}

}  // namespace hg::test::samples
