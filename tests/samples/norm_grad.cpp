// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/norm_grad.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> norm_grad() {
  const SampleInput none = {.shape = {}, .given = false};
  std::vector<Sample> all;
  for (const Sizes& shape :
       {Sizes{1, 5}, Sizes{3, 2}, Sizes{2, 3, 17}, Sizes{19, 33}, Sizes{0, 8}, Sizes{67, 129}}) {
    const SampleInput x = {.shape = shape}, weight = {.shape = {shape.back()}};
    const NamedAttrs attrs = {{"normalized_shape", std::vector<Dim>{shape.back()}}, {"eps", 1e-3}};
    const bool small = shape.count() < 200;
    all.push_back(
        {.op = "layer_norm_grad", .inputs = {x, weight, x}, .attrs = attrs, .gradient = small});
    all.push_back(
        {.op = "layer_norm_grad", .inputs = {x, none, x}, .attrs = attrs, .gradient = small});
  }
  all.push_back({.op = "layer_norm_grad",
                 .inputs = {{.shape = {4, 5}}, {.shape = {4, 5}}, {.shape = {4, 5}}},
                 .attrs = {{"normalized_shape", std::vector<Dim>{4, 5}}, {"eps", 0.1}}});
  // A single element equals its mean, so its gradient is 0 even if 1 / sqrt(eps) is large.
  for (const Sizes& shape : {Sizes{1}, Sizes{6, 1}})
    all.push_back({.op = "layer_norm_grad",
                   .inputs = {{.shape = shape}, {.shape = {1}}, {.shape = shape}},
                   .attrs = {{"normalized_shape", std::vector<Dim>{1}}, {"eps", 1e-5}}});
  all.push_back({.op = "batch_norm_grad",
                 .inputs = {{.shape = {1, 9}}, {.shape = {9}}, {.shape = {1, 9}}},
                 .attrs = {{"eps", 1e-5}}});
  for (const Sizes& shape : {Sizes{5, 4}, Sizes{2, 3, 17}, Sizes{3, 5, 4, 4}, Sizes{2, 7, 9, 11}}) {
    const SampleInput x = {.shape = shape}, weight = {.shape = {shape[1]}};
    const bool small = shape.count() < 300;
    all.push_back({.op = "batch_norm_grad",
                   .inputs = {x, weight, x},
                   .attrs = {{"eps", 1e-3}},
                   .gradient = small});
    all.push_back({.op = "batch_norm_grad", .inputs = {x, none, x}, .gradient = small});
  }
  return all;
}

}  // namespace hg::test::samples
