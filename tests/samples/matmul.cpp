// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/matmul.cpp.
#include <cmath>
#include <limits>

#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

struct MatmulShapes {
  Sizes a, b;
};

// Weights for sums of k products that stay near 1, whatever k is.
SampleInput weight(const Sizes& shape, int64_t k, bool constant) {
  const double bound = k > 4 ? 2 / std::sqrt(static_cast<double>(k)) : 1;
  return {.shape = shape, .low = -bound, .high = bound, .constant = constant};
}

}  // namespace

std::vector<Sample> matmul() {
  std::vector<Sample> all;
  const MatmulShapes pairs[] = {
      {{1}, {1}},
      {{7}, {7}},
      {{0}, {0}},
      {{5, 3}, {3}},
      {{3}, {3, 5}},
      {{2, 4, 3}, {3}},
      {{3}, {2, 3, 4}},
      {{1, 1}, {1, 1}},
      {{2, 3}, {3, 4}},
      {{6, 16}, {16, 16}},
      {{7, 17}, {17, 31}},
      {{13, 300}, {300, 33}},
      {{1, 64}, {64, 100}},
      {{3, 259}, {259, 5}},
      {{4, 65}, {65, 47}},
      {{65, 5}, {5, 1}},
      {{150, 33}, {33}},
      {{2, 3, 40, 17}, {3, 17, 1}},
      {{0, 3}, {3, 4}},
      {{3, 0}, {0, 4}},
      {{2, 3, 4}, {4, 5}},
      {{2, 3, 4}, {2, 4, 5}},
      {{3, 4}, {2, 4, 5}},
      {{2, 1, 3, 4}, {1, 5, 4, 2}},
      {{2, 3, 1, 4}, {1, 3, 4, 2}},
      {{0, 3, 4}, {0, 4, 2}},
      {{67, 97}, {97, 101}},
      {{3, 17, 40}, {3, 40, 17}},
  };
  for (const MatmulShapes& s : pairs) {
    for (bool constant : {false, true})
      all.push_back(
          {.op = "matmul", .inputs = {{.shape = s.a}, weight(s.b, s.a.back(), constant)}});
  }
  all.push_back({.op = "matmul",
                 .inputs = {{.shape = {150, 520}}, weight({520, 200}, 520, false)},
                 .gradient = false});
  for (DType dtype : {i64, i32, i16, i8, u8}) {
    const double low = dtype == u8 ? 0 : -3;
    all.push_back({.op = "matmul",
                   .inputs = {{.dtype = dtype, .shape = {3, 5}, .low = low, .high = 3},
                              {.dtype = dtype, .shape = {2, 5, 4}, .low = low, .high = 3}},
                   .gradient = false});
  }
  for (int i = 0; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    for (bool constant : {false, true}) {
      for (int64_t outputs : {19, 1})
        all.push_back({.op = "linear",
                       .inputs = {{.shape = {7, 13}, .low = -3, .high = 3},
                                  weight({outputs, 13}, 13, constant),
                                  {.shape = {outputs}},
                                  {.shape = {7, outputs}}},
                       .attrs = {{"activation", std::string(to_string(activation))}},
                       .gradient = is_smooth(activation)});
    }
  }
  for (const Sizes& x : {Sizes{3}, Sizes{1, 3}, Sizes{2, 5, 3}, Sizes{4, 3}, Sizes{0, 3}}) {
    all.push_back({.op = "linear", .inputs = {{.shape = x}, {.shape = {4, 3}}}});
    all.push_back({.op = "linear", .inputs = {{.shape = x}, {.shape = {4, 3}}, {.shape = {4}}}});
  }
  for (int64_t rows : {1, 2, 4, 5, 30}) {
    for (bool constant : {false, true}) {
      all.push_back(
          {.op = "linear",
           .inputs = {{.shape = {rows, 301}}, weight({67, 301}, 301, constant), {.shape = {67}}},
           .gradient = false});
    }
  }
  // The same with weights in 16 bits.
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    if (all[i].op != "linear" || !all[i].inputs[1].values.empty()) continue;
    Sample sample = all[i];
    sample.op = "mixed_linear";
    sample.inputs[1].dtype = i % 2 == 0 ? f16 : bf16;
    sample.gradient = false;
    sample.floats = {f32};
    all.push_back(std::move(sample));
  }
  for (double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    const bool smooth = p > 1 && p < 10;
    all.push_back({.op = "cdist",
                   .inputs = {{.shape = {4, 3}}, {.shape = {5, 3}}},
                   .attrs = {{"p", p}},
                   .gradient = smooth});
    all.push_back({.op = "cdist",
                   .inputs = {{.shape = {2, 1, 4, 7}}, {.shape = {3, 2, 7}}},
                   .attrs = {{"p", p}},
                   .gradient = smooth});
  }
  for (double p : {0.0, 1.0, 2.0, std::numeric_limits<double>::infinity()})
    all.push_back({.op = "cdist",
                   .inputs = {{.shape = {5, 2}, .values = {NAN, 1, 2, NAN, 3, 4, NAN, NAN, 0, 1}},
                              {.shape = {2, 2}, .values = {0, 1, NAN, 3}}},
                   .attrs = {{"p", p}},
                   .gradient = false});
  all.push_back({.op = "cdist", .inputs = {{.shape = {0, 3}}, {.shape = {5, 3}}}});
  all.push_back({.op = "cdist", .inputs = {{.shape = {2, 21, 70}}, {.shape = {2, 19, 70}}}});
  all.push_back({.op = "cdist", .inputs = {{.shape = {9, 1}}, {.shape = {3, 1}}}});
  all.push_back({.op = "cdist", .inputs = {{.shape = {35, 131}}, {.shape = {67, 131}}}});
  // Squares of which f32 has none.
  all.push_back({.op = "cdist",
                 .inputs = {{.shape = {3, 40}, .low = -1e25, .high = 1e25},
                            {.shape = {5, 40}, .low = -1e25, .high = 1e25}},
                 .gradient = false});
  all.push_back(
      {.op = "cdist", .inputs = {{.shape = {2, 0}}, {.shape = {5, 0}}}, .gradient = false});
  return all;
}

}  // namespace hg::test::samples
