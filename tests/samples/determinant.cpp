// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/determinant.cpp, of matrices of each rank.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> determinant() {
  std::vector<Sample> s;
  const std::vector<double> regular = {3, 0.5, -1, 0.7, 4, 0.2, -0.4, 0.6, 2.5};
  const std::vector<double> two = {1, 2, 3, 4, 5, 6, 7, 8, 9}, one = {1, 1, 1, 2, 2, 2, 3, 3, 3};
  for (const DType dtype : {f32, f64}) {
    const SampleInput direction = {dtype, {3, 3}};
    for (const std::vector<double>& values : {regular, two, one}) {
      const SampleInput x = {dtype, {3, 3}, 0, 0, values};
      const bool is_regular = values == regular;
      s.push_back({"det_grad", {x}, {}, dtype == f32 ? 1e-5 : 1e-12});
      s.push_back({.op = "det_grad_grad",
                   .inputs = {x, direction},
                   .tolerance = dtype == f32 ? 1e-5 : 1e-12,
                   .gradient = is_regular});
    }
    for (const Sizes& shape : {Sizes{0, 0}, Sizes{1, 1}, Sizes{2, 2, 2}, Sizes{0, 3, 3}}) {
      s.push_back({"det_grad", {{dtype, shape}}, {}, dtype == f32 ? 1e-5 : 1e-12});
      s.push_back({.op = "det_grad_grad",
                   .inputs = {{dtype, shape}, {dtype, shape}},
                   .tolerance = dtype == f32 ? 1e-5 : 1e-12,
                   .gradient = shape.count() == 8});
    }
    s.push_back({.op = "det_grad", .inputs = {{dtype, {5, 5}}}, .tolerance = 1e-5});
    for (int rank = 0; rank < 5; ++rank) {  // products of whole numbers
      std::vector<double> x(16);
      for (int i = 0; i < 16; ++i)
        for (int r = 0; r < rank; ++r)
          x[i] += (i / 4 * (r + 2) % 5 - 1) * (i % 4 * (r + 3) % 7 - 2);
      s.push_back({.op = "det_grad",
                   .inputs = {{dtype, {4, 4}, 0, 0, x}},
                   .tolerance = dtype == f32 ? 1e-4 : 1e-11,
                   .gradient = false});
    }
    s.push_back({.op = "det_grad_grad",
                 .inputs = {{dtype, {5, 5}}, {dtype, {5, 5}}},
                 .tolerance = 1e-5,
                 .gradient = false});
  }
  return s;
}

}  // namespace hg::test::samples
