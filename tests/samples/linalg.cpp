// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/linalg.cpp. cholesky and eigh read one triangle and distribute the gradient
// over both, which finite differences do not.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> linalg() {
  std::vector<Sample> s;
  // Diagonally dominant, so far from singular; symmetric where the other triangle does not count.
  const std::vector<double> three = {3, 0.5, -1, 0.7, 4, 0.2, -0.4, 0.6, 2.5};
  const std::vector<double> negative = {-3, 0.5, -1, 0.7, 4, 0.2, -0.4, 0.6, 2.5};
  const std::vector<double> two = {0.1, 2, -3, 0.4, 5, 1, 0.3, 2};  // two matrices of 2 x 2
  const std::vector<double> tall = {1, 0.2, -0.5, 3, 0.7, -2, 0.3, 0.1};
  for (const DType dtype : {f32, f64}) {
    const SampleInput a = {dtype, {3, 3}, 0, 0, three}, pair = {dtype, {2, 2, 2}, 0, 0, two};
    s.push_back({"solve", {a, {dtype, {3, 2}}}});
    s.push_back({"solve", {pair, {dtype, {2, 2, 1}}}});
    s.push_back({"solve", {{dtype, {1, 1}, 2, 3}, {dtype, {1, 5}}}});
    s.push_back({"solve", {{dtype, {0, 0}}, {dtype, {0, 2}}}});
    for (const bool upper : {false, true}) {
      for (const bool unit : {false, true})
        s.push_back({"solve_triangular",
                     {a, {dtype, {3, 2}}},
                     {{"upper", upper}, {"unitriangular", unit}}});
      s.push_back({"solve_triangular", {pair, {dtype, {2, 2, 3}}}, {{"upper", upper}}});
      s.push_back(
          {.op = "cholesky", .inputs = {a}, .attrs = {{"upper", upper}}, .gradient = false});
      for (const char* op : {"eigh", "eigvalsh"})
        for (const SampleInput& x : {a, pair})
          s.push_back({.op = op, .inputs = {x}, .attrs = {{"upper", upper}}, .gradient = false});
    }
    s.push_back({.op = "eigh", .inputs = {{dtype, {1, 1}}}, .gradient = false});
    s.push_back({"lu", {a}});
    s.push_back({"lu", {pair}});
    s.push_back({"lu", {{dtype, {2, 4}, 0, 0, tall}}});
    s.push_back({"lu", {{dtype, {4, 2}, 0, 0, tall}}});
    for (const Sizes& shape : {Sizes{5, 3}, Sizes{2, 3, 5}, Sizes{1, 1}, Sizes{0, 0}, Sizes{9, 9}})
      s.push_back({.op = "lu", .inputs = {{dtype, shape}}, .gradient = false});
    s.push_back({"matrix_exp", {a}, {}, dtype == f32 ? 1e-5 : 0});
    s.push_back({"matrix_exp", {pair}, {}, dtype == f32 ? 1e-5 : 0});
    s.push_back({"matrix_exp", {{dtype, {5, 5}, -0.1, 0.1}}});
    s.push_back({"matrix_exp", {{dtype, {2, 1, 1}}}});
    s.push_back({"matrix_exp", {{dtype, {0, 0}}}});
    s.push_back({"det", {a}});
    s.push_back({"det", {{dtype, {3, 3}, 0, 0, negative}}});
    s.push_back({"det", {pair}});
    const SampleInput singular = {dtype, {3, 3}, 0, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
    s.push_back({.op = "det", .inputs = {{dtype, {0, 0}}}, .gradient = false});
    if (dtype == f64) s.push_back({"det", {singular}});
    for (const char* op : {"det", "slogdet", "matrix_exp"})
      s.push_back({.op = op, .inputs = {{dtype, {2, 9, 9}, -0.5, 0.5}}, .gradient = false});
    std::vector<double> dominant;
    for (int i = 0; i < 81; ++i) dominant.push_back(i % 10 == 0 ? 4 : (i * 7 % 13 - 6) * 0.1);
    const SampleInput nine = {dtype, {9, 9}, 0, 0, dominant}, sides = {dtype, {9, 3}};
    s.push_back({.op = "solve", .inputs = {nine, sides}, .gradient = false});
    s.push_back({.op = "solve_triangular",
                 .inputs = {nine, sides},
                 .attrs = {{"upper", true}},
                 .gradient = false});
    s.push_back({"slogdet", {a}});
    s.push_back({"slogdet", {{dtype, {3, 3}, 0, 0, negative}}});
    s.push_back({"slogdet", {pair}});
    s.push_back({"qr", {a}});
    s.push_back({"qr", {pair}});
    s.push_back({"qr", {{dtype, {4, 2}, 0, 0, tall}}});
    s.push_back({.op = "qr", .inputs = {{dtype, {2, 4}, 0, 0, tall}}, .gradient = false});
    for (const SampleInput& x :
         {a, pair, SampleInput{dtype, {4, 2}, 0, 0, tall}, SampleInput{dtype, {2, 4}, 0, 0, tall}})
      s.push_back({.op = "geqrf", .inputs = {x}, .gradient = false});
    for (const Sizes& shape :
         {Sizes{1, 1}, Sizes{0, 0}, Sizes{3, 0}, Sizes{2, 7, 5}, Sizes{31, 29}})
      s.push_back({.op = "geqrf", .inputs = {{dtype, shape}}, .gradient = false});
    s.push_back({.op = "qr", .inputs = {{dtype, {2, 2, 3}, -3, 3}}});
    const SampleInput swapped = {dtype, {3, 3}, 0, 0, {0, 9, 9, 2, 0, 9, 0.5, 1, 0.1}};
    for (const SampleInput& x : {a, pair, swapped, SampleInput{dtype, {1, 1}, 2, 3}})
      s.push_back({.op = "ldl_factor", .inputs = {x}, .gradient = false});
    for (const Sizes& shape : {Sizes{0, 0}, Sizes{2, 5, 5}, Sizes{3, 8, 8}, Sizes{31, 31}})
      s.push_back({.op = "ldl_factor", .inputs = {{dtype, shape}}, .gradient = false});
    const auto solved = [&](std::vector<double> ld, std::vector<double> pivots, int64_t columns) {
      const auto n = static_cast<int64_t>(pivots.size());
      s.push_back({.op = "ldl_solve",
                   .inputs = {{dtype, {n, n}, 0, 0, std::move(ld)},
                              {dtype, {n, columns}},
                              {i32, {n}, 0, 0, std::move(pivots)}},
                   .gradient = false});
    };
    solved({2, 9, 0.5, 3}, {2, 2}, 3);
    solved({0.5, 9, 2, 0.25}, {-2, -2}, 1);
    solved({0, 0, 0, 2, 0.1, 0, 0.5, -0.3, 4}, {-3, -3, 3}, 2);
    solved({3, 0, 0, 0, 0.2, 0.1, 0, 0, -0.4, 2, 0.3, 0, 0.7, 0.5, -0.6, 1}, {4, -3, -3, 4}, 2);
    solved({}, {}, 2);
    for (const char* op : {"svd", "svdvals"}) {
      s.push_back({op, {a}});
      s.push_back({op, {pair}});
      s.push_back({op, {{dtype, {4, 2}, 0, 0, tall}}});
      s.push_back({op, {{dtype, {2, 4}, 0, 0, tall}}});
      s.push_back({op, {{dtype, {1, 1}}}});
    }
    const SampleInput bound = {dtype, {1}, 0, 0, {0.01}};
    for (const SampleInput& x : {a, SampleInput{dtype, {4, 2}, 0, 0, tall}})
      s.push_back({.op = "pinv", .inputs = {x, bound}});
    s.push_back({.op = "pinv",
                 .inputs = {a, bound},
                 .attrs = {{"hermitian", true}},
                 .gradient = false});  // that of x as it is, not of the triangle
  }
  s.push_back({"lu_rows", {{i32, {2, 3}, 0, 0, {2, 3, 3, 4, 2, 4}}}, {{"n", 4}}});
  s.push_back({"lu_rows", {{i32, {0}}}, {{"n", 2}}});
  for (Sample& sample : s) sample.floats = kWideFloats;
  return s;
}

}  // namespace hg::test::samples
