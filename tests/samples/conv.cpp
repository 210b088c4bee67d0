// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/conv.cpp.
#include <algorithm>
#include <cmath>

#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

using Dims = std::vector<Dim>;

struct ConvCase {
  Sizes x, weight;
  Dims stride = {1}, padding = {0}, dilation = {1};
  int groups = 1;
  bool transposed = false;
  Dims output_padding = {0};
};

Sample sample(const ConvCase& c, bool bias, bool constant,
              Activation activation = Activation::none) {
  // Keeps sums near 1 for every length.
  const int64_t length = c.weight.count() / std::max<int64_t>(1, c.weight[0]);
  const double bound = length > 4 ? 2 / std::sqrt(static_cast<double>(length)) : 1;
  Sample s{.op = "conv",
           .inputs = {{.shape = c.x},
                      {.shape = c.weight, .low = -bound, .high = bound, .constant = constant}}};
  s.inputs.push_back(
      {.shape = {c.transposed ? c.weight[1] * c.groups : c.weight[0]}, .given = bias});
  s.attrs = {{"stride", c.stride},
             {"padding", c.padding},
             {"dilation", c.dilation},
             {"transposed", c.transposed},
             {"output_padding", c.output_padding},
             {"groups", c.groups},
             {"activation", std::string(to_string(activation))}};
  return s;
}

// The residual of a convolution with stride 1 that keeps the size.
Sample with_residual(const ConvCase& c, Activation activation) {
  Sample s = sample(c, true, true, activation);
  Sizes y = c.x;
  y[1] = c.weight[0];
  s.inputs.push_back({.shape = y});
  s.gradient = is_smooth(activation);
  return s;
}

}  // namespace

std::vector<Sample> conv() {
  const ConvCase cases[] = {
      {{1, 1, 1}, {1, 1, 1}},
      {{2, 3, 9}, {4, 3, 3}},
      {{2, 4, 17}, {6, 2, 5}, {2}, {2}, {1}, 2},
      {{1, 3, 33}, {5, 3, 3}, {1}, {4}, {4}},
      {{1, 1, 1, 1}, {1, 1, 1, 1}},
      {{2, 3, 5, 7}, {4, 3, 1, 1}},
      {{2, 5, 8, 9}, {7, 5, 1, 1}, {2}},
      {{1, 3, 9, 8}, {8, 3, 3, 3}, {1}, {1}},
      {{2, 4, 11, 13}, {5, 4, 3, 3}, {2}, {1}},
      {{1, 2, 15, 14}, {3, 2, 7, 7}, {2}, {3}},
      {{1, 6, 9, 10}, {4, 3, 3, 2}, {1, 2}, {1, 0}, {1}, 2},
      {{1, 3, 12, 11}, {2, 3, 3, 3}, {1}, {2}, {2}},
      {{1, 3, 12, 11}, {2, 3, 2, 3}, {3, 2}, {1, 2}, {2, 3}},
      {{2, 8, 9, 17}, {8, 1, 3, 3}, {1}, {1}, {1}, 8},
      {{1, 5, 10, 19}, {5, 1, 5, 5}, {2}, {2}, {1}, 5},
      {{1, 3, 7, 5}, {6, 1, 3, 3}, {1}, {1}, {1}, 3},
      {{1, 4, 6, 7}, {4, 1, 3, 3}, {1}, {2}, {2}, 4},
      {{1, 16, 14, 14}, {16, 16, 3, 3}, {1}, {1}},
      {{2, 17, 9, 11}, {29, 17, 3, 3}, {1}, {1}},
      {{1, 16, 15, 8}, {19, 16, 3, 3}, {1}, {0, 2}},
      {{1, 2, 4, 5, 6}, {3, 2, 3, 3, 3}, {1}, {1}},
      {{1, 6, 4, 6, 7}, {17, 6, 3, 3, 3}, {2, 1, 1}, {1}},
      {{2, 8, 4, 8, 6}, {16, 8, 2, 3, 3}, {1}, {2, 0, 1}, {3, 1, 1}},
      {{1, 9, 21, 19}, {9, 1, 7, 7}, {1}, {3}, {1}, 9},  // rows of one channel, eight at a time
      {{2, 5, 83}, {5, 1, 31}, {1}, {15}, {1}, 5},       // vectors within a row
      {{1, 2, 61}, {20, 1, 8}, {4}, {0}, {1}, 2},        // more output channels than input channels
      {{2, 33, 9, 8}, {7, 33, 3, 3}, {1}, {6, 12}, {6, 12}},  // elements that only padding meets
      {{1, 64, 5, 6}, {6, 32, 3, 2}, {1}, {6, 3}, {4, 7}, 2},
      {{2, 17, 5, 6}, {17, 5, 4, 4}, {2}, {1}, {1}, 1, true},  // transposed, with 16 channels or
                                                               // more
      {{1, 16, 4, 7}, {16, 3, 3, 5}, {1, 3}, {2, 1}, {2, 1}, 1, true, {0, 2}},
      {{3, 9, 1, 1}, {9, 11, 4, 3}, {1}, {0}, {1}, 1, true},  // one pixel of x
      {{1, 18, 6}, {18, 7, 5}, {3}, {1}, {2}, 1, true, {1}},
      {{2, 4, 5, 4, 6}, {4, 2, 2, 3, 1}, {2, 1, 2}, {1, 0, 0}, {1, 1, 2}, 2},
      {{7, 13, 4, 5}, {27, 13, 3, 3}, {1}, {1}},  // small images
      {{15, 12, 3, 3}, {12, 25, 3, 3}, {1}, {1}, {1}, 1, true},
      {{131, 3, 1, 1}, {17, 3, 1, 1}},
      {{1, 40, 5, 6}, {70, 40, 3, 3}, {1}, {1}},  // few pixels of many channels
      {{1, 17, 9, 8}, {33, 17, 3, 3}, {2}, {1}},
      {{1, 9, 3, 4, 4}, {35, 9, 2, 3, 3}, {1}, {0, 1, 2}, {1, 1, 2}},
      {{1, 5, 31}, {32, 5, 4}, {2}, {3}, {3}},
      {{1, 3, 1, 2}, {64, 3, 3, 3}, {1}, {1}},
      {{2, 3, 23, 1}, {5, 3, 4, 1}, {2, 1}, {1, 0}},  // one dim as the first of two or three
      {{1, 20, 40, 1}, {18, 20, 5, 1}, {1}, {4, 0}, {2, 3}},
      {{1, 4, 19, 1, 1}, {6, 2, 3, 1, 1}, {1, 2, 3}, {1, 0, 0}, {1}, 2},
      {{2, 4, 6, 7, 1}, {5, 4, 3, 2, 1}, {1, 2, 2}, {1, 1, 0}},
      {{1, 5, 21, 1}, {5, 1, 7, 1}, {1}, {3, 0}, {1}, 5},
      {{1, 17, 9, 1}, {17, 6, 4, 1}, {2, 1}, {1, 0}, {1}, 1, true},
      {{2, 3, 8, 1}, {4, 3, 3, 3}, {1}, {1}},
      {{2, 3, 8, 1}, {3, 4, 3, 2}, {1}, {0}, {1}, 1, true},
      {{0, 3, 6, 6}, {4, 3, 3, 3}},
      {{2, 0, 6, 6}, {4, 0, 3, 3}},
      {{2, 3, 5}, {3, 4, 3}, {1}, {0}, {1}, 1, true},
      {{1, 4, 7}, {4, 3, 3}, {2}, {1}, {1}, 2, true, {1}},
      {{1, 3, 5, 6}, {3, 2, 3, 3}, {1}, {0}, {1}, 1, true},
      {{2, 4, 5, 6}, {4, 3, 3, 3}, {2}, {1}, {1}, 1, true, {1}},
      {{1, 4, 5, 3}, {4, 2, 4, 4}, {2}, {1}, {1}, 2, true},
      {{1, 2, 4, 5}, {2, 3, 3, 2}, {2, 3}, {1, 0}, {2, 1}, 1, true, {1, 2}},
      {{1, 2, 4, 4}, {2, 2, 3, 3}, {1}, {1}, {2}, 1, true, {1}},
      {{2, 5, 6, 7}, {5, 6, 3, 3}, {2}, {1}, {1}, 1, true, {1}},
      {{1, 8, 5, 6}, {8, 5, 4, 3}, {2, 3}, {1, 0}, {2, 1}, 2, true, {1, 2}},
      {{1, 4, 3, 4, 5}, {4, 4, 2, 3, 3}, {1, 2, 1}, {0, 1, 1}, {1}, 1, true},
      {{1, 6, 4, 4}, {6, 1, 3, 3}, {2}, {1}, {1}, 6, true, {1}},
      {{2, 5, 23, 9}, {5, 1, 5, 3}, {3, 2}, {2, 0}, {1, 2}, 5, true, {2, 1}},
      {{1, 3, 5, 6}, {3, 1, 1, 3}, {2, 1}, {1, 2}, {1}, 3, true},
      {{1, 2, 3, 4, 3}, {2, 3, 2, 3, 2}, {2, 1, 2}, {0, 1, 0}, {1}, 1, true, {1, 0, 1}},
  };
  std::vector<Sample> all;
  for (const ConvCase& c : cases)
    for (bool bias : {false, true}) all.push_back(sample(c, bias, bias));
  const ConvCase large = {{1, 24, 40, 52}, {70, 24, 3, 3}, {1}, {1}};
  const ConvCase deep = {{2, 300, 7, 7}, {33, 300, 3, 3}, {1}, {1}};
  const ConvCase wide = {{1, 40, 61, 67}, {21, 40, 1, 1}};
  const ConvCase few_pixels = {{1, 96, 13, 13}, {48, 96, 1, 1}};
  const ConvCase strided = {{1, 19, 57, 51}, {34, 19, 3, 3}, {2}, {1}};
  const ConvCase long_row = {{2, 3, 1501}, {8, 3, 5}, {1}, {2}};
  const ConvCase long_strided = {{1, 2, 1501}, {5, 2, 7}, {3}, {1}, {2}};
  const ConvCase many_channels = {{1, 64, 24, 23}, {300, 64, 3, 3}, {2}, {1}};
  const ConvCase volume = {{1, 21, 5, 9, 17}, {13, 21, 3, 3, 3}, {2, 1, 2}, {1}, {1, 2, 1}};
  const ConvCase solid = {{1, 24, 5, 20, 22}, {40, 24, 3, 3, 3}, {1}, {1}};
  for (const ConvCase& c : {large, deep, wide, few_pixels, solid, strided, long_row, long_strided,
                            many_channels, volume}) {
    all.push_back(sample(c, true, true));
    // F(4x4, 3x3) adds up numbers several times larger than their sum.
    if (c.weight.rank() >= 4 && c.weight[2] == 3 && c.stride[0] == 1) all.back().tolerance = 6e-6;
    all.back().gradient = false;
  }
  // Weights that are packed a piece at a time, and products of some rows and some channels.
  const ConvCase up = {{1, 270, 19, 17}, {270, 45, 4, 4}, {2}, {1}, {1}, 1, true};
  const ConvCase deep_back = {{3, 300, 2, 2}, {300, 110, 3, 3}, {1}, {1}, {1}, 1, true};
  const ConvCase deep_back_steps = {{2, 300, 2, 3}, {300, 110, 3, 3}, {2}, {1}, {1}, 1, true, {1}};
  for (const ConvCase& c : {deep_back, deep_back_steps, up}) {
    all.push_back(sample(c, true, false));
    all.back().gradient = false;
  }
  const ConvCase keep_3x3 = {{2, 9, 10, 13}, {7, 9, 3, 3}, {1}, {1}};
  const ConvCase keep_1x1 = {{2, 9, 5, 7}, {7, 9, 1, 1}};
  const ConvCase keep_depthwise = {{1, 8, 9, 21}, {8, 1, 3, 3}, {1}, {1}, {1}, 8};
  const ConvCase keep_few = {{1, 37, 4, 5}, {37, 37, 3, 3}, {1}, {1}};
  for (const ConvCase& c : {keep_3x3, keep_1x1, keep_depthwise, keep_few})
    for (int i = 0; i < kActivationCount; ++i)
      all.push_back(with_residual(c, static_cast<Activation>(i)));
  for (DType dtype : {i64, i32, u8}) {
    Sample s = sample(cases[10], true, false);
    for (SampleInput& input : s.inputs) {
      input.dtype = dtype;
      input.low = 0;
      input.high = 3;
    }
    s.gradient = false;
    all.push_back(s);
  }

  struct WeightGrad {
    Sizes x, dy;
    Dims kernel, stride = {1}, padding = {0}, dilation = {1};
    int groups = 1;
  };
  const WeightGrad weight_grads[] = {
      {{2, 3, 9}, {2, 4, 7}, {3}},
      {{2, 3, 9, 8}, {2, 4, 9, 8}, {3, 3}, {1}, {1}},
      {{2, 3, 9, 8}, {2, 5, 9, 8}, {1, 1}},
      {{37, 3, 3, 5}, {37, 13, 3, 5}, {3, 3}, {1}, {1}},
      {{1, 4, 11, 13}, {1, 6, 6, 7}, {3, 3}, {2}, {1}, {1}, 2},
      {{1, 4, 10, 9}, {1, 4, 10, 9}, {3, 3}, {1}, {1}, {1}, 4},
      {{1, 3, 12, 11}, {1, 2, 4, 5}, {2, 3}, {3, 2}, {1, 2}, {2, 3}},
      {{1, 2, 4, 5, 6}, {1, 3, 4, 5, 6}, {3, 3, 3}, {1}, {1}},
      {{0, 3, 6, 6}, {0, 4, 4, 4}, {3, 3}},
      // The remaining samples have no second derivatives.
      {{5, 17, 9, 8}, {5, 14, 9, 8}, {3, 3}, {1}, {1}},
      {{2, 9, 21, 29}, {2, 3, 21, 29}, {3, 3}, {1}, {1}},
      {{1, 40, 23, 30}, {1, 5, 12, 15}, {3, 3}, {2}, {1}},
      {{2, 33, 8, 9}, {2, 13, 4, 5}, {1, 1}, {2}},
      {{3, 24, 7, 6}, {3, 4, 5, 6}, {3, 2}, {1}, {1}, {2, 1}, 2},
      {{2, 8, 1301}, {2, 3, 651}, {3}, {2}, {1}},
      {{2, 260, 5, 4}, {2, 3, 5, 4}, {3, 3}, {1}, {1}},
      {{3, 4, 23, 19}, {3, 8, 12, 19}, {3, 5}, {2, 1}, {1, 2}, {1}, 4},
      {{1, 3, 70, 61}, {1, 3, 70, 61}, {5, 5}, {1}, {2}, {1}, 3},
      {{2, 3, 301}, {2, 3, 99}, {4}, {3}, {0}, {2}, 3},
  };
  constexpr size_t kDifferentiated = 9;
  for (const WeightGrad& w : weight_grads) {
    all.push_back({.op = "conv_weight_grad",
                   .inputs = {{.shape = w.x}, {.shape = w.dy}},
                   .attrs = {{"stride", w.stride},
                             {"padding", w.padding},
                             {"dilation", w.dilation},
                             {"groups", w.groups},
                             {"kernel", w.kernel}},
                   .gradient = &w < weight_grads + kDifferentiated});
    // Long sums whose terms cancel.
    if (w.dy.count() / w.dy[1] > 150) all.back().tolerance = 5e-6;
  }
  return all;
}

}  // namespace hg::test::samples
