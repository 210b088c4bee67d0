// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/grouped_mm.cpp.
#include <cmath>

#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> grouped_mm() {
  std::vector<Sample> all;
  const auto add = [&](const Sizes& a, const Sizes& b, const std::vector<double>& ends) {
    const Sizes groups = {static_cast<int64_t>(ends.size())};
    // Sums of k products that stay near 1, whatever k is.
    const double bound = a[1] > 4 ? 2 / std::sqrt(static_cast<double>(a[1])) : 1;
    all.push_back({.op = "grouped_mm",
                   .inputs = {{.shape = a},
                              {.shape = b, .low = -bound, .high = bound},
                              {.dtype = i64, .shape = groups, .values = ends}}});
  };
  add({1, 1}, {1, 1, 1}, {1});
  add({7, 5}, {3, 5, 4}, {2, 2, 7});  // an empty group
  add({7, 5}, {3, 5, 4}, {2, 5, 6});  // a row without a group
  add({13, 67}, {4, 67, 41}, {1, 3, 9, 13});
  add({0, 5}, {2, 5, 3}, {0, 0});
  add({4, 0}, {2, 0, 3}, {1, 4});
  add({29, 259}, {2, 259, 37}, {11, 29});
  add({5, 7}, {7, 4}, {2, 2, 7});
  add({5, 7}, {7, 4}, {2, 5, 6});
  add({19, 13}, {13, 45}, {1, 3, 9, 13});
  add({3, 0}, {0, 4}, {0, 0});
  add({37, 270}, {270, 9}, {261, 270});
  // The same with b in 16 bits.
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    Sample sample = all[i];
    sample.op = "mixed_grouped_mm";
    sample.inputs[1].dtype = i % 2 == 0 ? f16 : bf16;
    sample.gradient = false;
    sample.floats = {f32};
    all.push_back(std::move(sample));
  }
  return all;
}

}  // namespace hg::test::samples
