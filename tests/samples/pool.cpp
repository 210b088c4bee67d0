// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/pool.cpp.
#include <limits>

#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

using Dims = std::vector<Dim>;

struct PoolCase {
  Sizes shape;
  Dims kernel, stride = {}, padding = {0}, dilation = {1};
  bool ceil = false;
  Sizes pooled = {};  // of the average, for the sample of its gradient
};

}  // namespace

std::vector<Sample> pool() {
  std::vector<Sample> all;
  const PoolCase cases[] = {
      {.shape = {1, 1, 1}, .kernel = {1}, .pooled = {1, 1, 1}},
      {.shape = {2, 3, 17}, .kernel = {3}, .stride = {2}, .padding = {1}, .pooled = {2, 3, 9}},
      {.shape = {2, 3, 18},
       .kernel = {4},
       .stride = {3},
       .padding = {2},
       .ceil = true,
       .pooled = {2, 3, 7}},
      {.shape = {2, 2, 7, 9}, .kernel = {2}, .pooled = {2, 2, 3, 4}},
      {.shape = {1, 2, 7, 9},
       .kernel = {3, 2},
       .stride = {1, 2},
       .padding = {1, 0},
       .pooled = {1, 2, 7, 4}},
      {.shape = {1, 2, 8, 9},
       .kernel = {3},
       .stride = {2},
       .padding = {1},
       .ceil = true,
       .pooled = {1, 2, 5, 5}},
      {.shape = {1, 1, 33, 40},
       .kernel = {3},
       .stride = {1},
       .padding = {1},
       .pooled = {1, 1, 33, 40}},
      {.shape = {1, 2, 4, 5, 6},
       .kernel = {2, 3, 2},
       .stride = {2, 1, 2},
       .padding = {1, 1, 0},
       .pooled = {1, 2, 3, 5, 3}},
      {.shape = {0, 2, 4, 4}, .kernel = {2}, .pooled = {0, 2, 2, 2}},
      // Halves of planes: rows beside vectors, many and few of them to a line.
      {.shape = {2, 3, 10, 10}, .kernel = {2}, .pooled = {2, 3, 5, 5}},
      {.shape = {7, 5, 2, 2}, .kernel = {2}, .pooled = {7, 5, 1, 1}},
      {.shape = {1, 3, 28, 34}, .kernel = {2}, .pooled = {1, 3, 14, 17}},
      {.shape = {1, 1, 2, 514}, .kernel = {2}, .pooled = {1, 1, 1, 257}},
  };
  for (const PoolCase& c : cases) {
    const NamedAttrs attrs = {{"kernel_size", c.kernel},
                              {"stride", c.stride},
                              {"padding", c.padding},
                              {"ceil_mode", c.ceil}};
    for (std::string_view op : {"max_pool", "max_pool_with_indices"})
      all.push_back({.op = op, .inputs = {{.shape = c.shape}}, .attrs = attrs});
    all.push_back({.op = "max_pool_grad",
                   .inputs = {{.shape = c.shape}, {.shape = c.pooled}},
                   .attrs = attrs});
    for (bool include : {true, false}) {
      NamedAttrs average = attrs;
      average.push_back({"count_include_pad", include});
      all.push_back({.op = "avg_pool", .inputs = {{.shape = c.shape}}, .attrs = average});
      average.push_back({"input_size", Attr(Dims())});
      Dims size;
      for (int i = 2; i < c.shape.rank(); ++i) size.emplace_back(c.shape[i]);
      average.back().value = size;
      all.push_back({.op = "avg_pool_grad", .inputs = {{.shape = c.pooled}}, .attrs = average});
    }
  }
  // Dilated windows, windows with equal elements (the first counts), and 300 outputs in a row.
  all.push_back({.op = "max_pool_grad",
                 .inputs = {{.shape = {1, 2, 9, 11}}, {.shape = {1, 2, 4, 10}}},
                 .attrs = {{"kernel_size", Dims{3, 2}},
                           {"stride", Dims{2, 1}},
                           {"padding", Dims{1, 1}},
                           {"dilation", Dims{2, 3}}}});
  all.push_back({.op = "max_pool_grad",
                 .inputs = {{.shape = {1, 1, 3, 3}, .values = {1, 1, 2, 2, 1, 2, 2, 2, 1}},
                            {.shape = {1, 1, 2, 2}}},
                 .attrs = {{"kernel_size", Dims{2}}, {"stride", Dims{1}}}});
  all.push_back({.op = "max_pool_grad",
                 .inputs = {{.shape = {1, 40, 1, 301}}, {.shape = {1, 40, 1, 300}}},
                 .attrs = {{"kernel_size", Dims{1, 2}}, {"stride", Dims{1}}}});
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  all.push_back({.op = "max_pool_grad",
                 .inputs = {{.shape = {1, 1, 3, 8}, .values = {kNan, 1,    2, 3, 4, 5, 6,    7,  //
                                                               1,    2,    3, 4, 5, 6, kNan, 8,  //
                                                               9,    kNan, 8, 7, 6, 5, 4,    kNan}},
                            {.shape = {1, 1, 2, 7}}},
                 .attrs = {{"kernel_size", Dims{2}}, {"stride", Dims{1}}},
                 .gradient = false});
  for (std::string_view op : {"max_pool", "max_pool_with_indices"}) {
    all.push_back(
        {.op = op,
         .inputs = {{.shape = {1, 1, 3, 8}, .values = {kNan, 1,    2, 3, 4, 5, 6,    7,  //
                                                       1,    2,    3, 4, 5, 6, kNan, 8,  //
                                                       9,    kNan, 8, 7, 6, 5, 4,    kNan}}},
         .attrs = {{"kernel_size", Dims{2}}, {"stride", Dims{1}}},
         .gradient = false});
    all.push_back({.op = op,
                   .inputs = {{.shape = {1, 2, 9, 11}}},
                   .attrs = {{"kernel_size", Dims{3, 2}},
                             {"stride", Dims{2, 1}},
                             {"padding", Dims{1, 1}},
                             {"dilation", Dims{2, 3}}}});
    all.push_back({.op = op,
                   .inputs = {{.dtype = i32, .shape = {1, 2, 9}, .low = -9, .high = 9}},
                   .attrs = {{"kernel_size", Dims{2}}},
                   .gradient = false});
    for (const DType bytes : {u8, i8})
      all.push_back(
          {.op = op,
           .inputs = {{.dtype = bytes,
                       .shape = {2, 3, 7, 23},
                       .low = bytes == u8 ? 0.0 : -128.0,
                       .high = bytes == u8 ? 255.0 : 127.0}},
           .attrs = {{"kernel_size", Dims{3}}, {"stride", Dims{2, 1}}, {"padding", Dims{1}}},
           .gradient = false});
  }
  all.push_back({.op = "avg_pool",
                 .inputs = {{.shape = {2, 3, 6, 6}}},
                 .attrs = {{"kernel_size", Dims{2}}, {"divisor_override", 3}}});
  for (const auto& [shape, size] : {std::pair<Sizes, Dims>{{2, 3, 10}, {3}},
                                    {{2, 3, 7, 5}, {1}},
                                    {{2, 3, 7, 5}, {3, 4}},
                                    {{1, 2, 3, 4}, {5, 7}},
                                    {{1, 2, 4, 5, 6}, {2, 3, 4}},
                                    {{1, 40, 19, 19}, {1}}}) {
    all.push_back({.op = "adaptive_avg_pool",
                   .inputs = {{.shape = shape}},
                   .attrs = {{"output_size", size}}});
    all.push_back({.op = "adaptive_max_pool",
                   .inputs = {{.shape = shape}},
                   .attrs = {{"output_size", size}}});
    Sizes pooled = {shape[0], shape[1]};
    Dims input;
    for (int i = 2; i < shape.rank(); ++i) {
      pooled.push_back(size[size.size() == 1 ? 0 : static_cast<size_t>(i - 2)].constant());
      input.emplace_back(shape[i]);
    }
    all.push_back({.op = "adaptive_avg_pool_grad",
                   .inputs = {{.shape = pooled}},
                   .attrs = {{"input_size", input}}});
  }
  return all;
}

}  // namespace hg::test::samples
