// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/rope.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> rope() {
  std::vector<Sample> all;
  const auto add = [&](Sizes x, Sizes cos, Sizes sin, bool gradient = true) {
    all.push_back({.op = "rope",
                   .inputs = {{.shape = x}, {.shape = cos}, {.shape = sin}},
                   .gradient = gradient});
  };
  add({2}, {2}, {2});
  add({3, 6}, {3, 6}, {3, 6});
  add({2, 3, 5, 8}, {5, 8}, {5, 8});
  add({2, 3, 5, 8}, {2, 1, 5, 8}, {1, 1, 5, 8});
  add({2, 4, 6}, {4, 1}, {1});
  add({1, 4, 130, 64}, {1, 1, 130, 64}, {1, 1, 130, 64}, false);
  add({0, 4}, {4}, {4}, false);
  return all;
}

}  // namespace hg::test::samples
