// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/composite.cpp.
#include <cmath>

#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> composite() {
  std::vector<Sample> all;
  const SampleInput x = {.shape = {3, 4, 5}}, y = {.shape = {3, 4, 5}};
  all.push_back({.op = "glu", .inputs = {{.shape = {3, 4}}}});
  for (int dim : {1, -2}) all.push_back({.op = "glu", .inputs = {x}, .attrs = {{"dim", dim}}});
  all.push_back({.op = "prelu", .inputs = {x, {.shape = {1}}}});
  all.push_back({.op = "prelu", .inputs = {x, {.shape = {4}}}});
  for (int dim : {0, 1, -1})
    all.push_back({.op = "cosine_similarity", .inputs = {x, y}, .attrs = {{"dim", dim}}});
  all.push_back({.op = "cosine_similarity", .inputs = {x, {.shape = {4, 1}}}});
  for (double p : {0.0, 1.0, 2.0, 3.0, HUGE_VAL})
    all.push_back({.op = "pairwise_distance",
                   .inputs = {x, y},
                   .attrs = {{"p", p}, {"keepdim", p == 2}},
                   .gradient = p > 0});
  return all;
}

}  // namespace hg::test::samples
