// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/eig.cpp: nearly diagonal matrices, whose order determines the order of
// eigenvalues. tests/kernels/eig_test.cpp has other matrices.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> eig() {
  std::vector<Sample> s;
  const std::vector<double> three = {-2, 0.5, -1, 0.7, 5, 0.2, -0.4, 0.6, 1.5};
  const std::vector<double> two = {0.1, 2, -3, 0.4, 5, 1, 0.3, 2};  // two matrices of 2 x 2
  // Two pairs of conjugates.
  const std::vector<double> turning = {1,   2,   0.3, 0.1, -2,  1,    0.2, -0.3,
                                       0.1, 0.2, 5,   3,   0.4, -0.1, -3,  5};
  const std::vector<double> upper = {1, 2, 3, 0, 4, 5, 0, 0, 6};
  const std::vector<double> complex = {1,  2,   0.3,  -0.2, 0.1, 1, 0, 0,  2,
                                       -4, 0.4, -0.1, 0,    0,   0, 0, -3, 1};
  const std::vector<double> pair = {1, 2, 0.3, -0.2, 0, 0.2, -2, 0, 3, -1, 0.2, 0, 0, 0.5, 0, 4};
  for (const std::string_view op : {"eig", "eigvals"})
    for (const DType dtype : {f32, f64}) {
      const auto real = [&](Sizes shape, std::vector<double> values) {
        s.push_back({op, {{dtype, std::move(shape), 0, 0, std::move(values)}}});
      };
      // Other elements below the diagonal change the order.
      const auto last_has_no_gradient = [&] { s.back().gradient = false; };
      real({3, 3}, three);
      real({2, 2, 2}, two);
      real({4, 4}, turning);
      real({3, 3}, upper);
      last_has_no_gradient();
      real({1, 1}, {-2});
      real({2, 1, 1, 1}, {3, 0});
      real({0, 0}, {});
      real({0, 3, 3}, {});
      const auto pairs = [&](Sizes shape, std::vector<double> values) {
        s.push_back(
            {op, {{dtype, std::move(shape), 0, 0, std::move(values)}}, {{"complex", true}}});
      };
      pairs({3, 3, 2}, complex);
      last_has_no_gradient();
      pairs({2, 2, 2, 2}, pair);
      pairs({1, 1, 2}, {0.5, -2});
      pairs({0, 0, 2}, {});
    }
  for (Sample& sample : s) sample.floats = kWideFloats;
  return s;
}

}  // namespace hg::test::samples
