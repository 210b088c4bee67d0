// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/integer.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

using Dims = std::vector<Dim>;

SampleInput bytes(DType dtype, const Sizes& shape, bool constant = false) {
  const double low = dtype == i8 ? -128 : 0;
  return {.dtype = dtype, .shape = shape, .low = low, .high = low + 255, .constant = constant};
}
SampleInput missing(DType dtype) { return {.dtype = dtype, .shape = {}, .given = false}; }

// Bias, scale and zero point of the result: the first `count` are given. One scale for each of the
// channels, or for all of them.
void add_result(Sample& s, int count, int64_t channels, bool each_scale, DType result) {
  const SampleInput each[] = {
      {.dtype = i32, .shape = {channels}, .low = -900, .high = 900},
      {.shape = each_scale ? Sizes{channels} : Sizes{}, .low = 0.001, .high = 0.003},
      bytes(result, {})};
  s.inputs.insert(s.inputs.end(), each, each + count);
  s.floats = {f32};
}

struct IntegerCase {
  Sizes x, weight;
  Dims stride = {1}, padding = {0}, dilation = {1};
  int groups = 1;
};

Sample conv(const IntegerCase& c, DType x, DType weight, bool constant) {
  return {.op = "conv_integer",
          .inputs = {bytes(x, c.x), bytes(weight, c.weight, constant), bytes(x, {}),
                     bytes(weight, constant ? Sizes{c.weight[0]} : Sizes{}, constant)},
          .attrs = {{"stride", c.stride},
                    {"padding", c.padding},
                    {"dilation", c.dilation},
                    {"groups", c.groups}}};
}

}  // namespace

std::vector<Sample> integer() {
  std::vector<Sample> all;
  const auto product = [&](const Sizes& a, const Sizes& b, DType of_a, DType of_b,
                           const Sizes& a_zero, const Sizes& b_zero, bool constant) -> Sample& {
    all.push_back({.op = "matmul_integer",
                   .inputs = {bytes(of_a, a), bytes(of_b, b, constant), bytes(of_a, a_zero),
                              bytes(of_b, b_zero, constant)}});
    return all.back();
  };
  all.push_back({.op = "matmul_integer", .inputs = {bytes(u8, {3, 5}), bytes(i8, {5, 2})}});
  all.push_back(
      {.op = "matmul_integer", .inputs = {bytes(i8, {1, 64}), bytes(u8, {64, 33}, true)}});
  product({1, 1}, {1, 1}, u8, u8, {}, {}, false);
  product({7, 31}, {31, 17}, i8, u8, {7}, {17}, false);
  product({2, 3, 9}, {9, 40}, u8, i8, {}, {40}, true);
  product({2, 1, 3, 8}, {4, 8, 5}, u8, u8, {2, 1, 3, 1}, {4, 1, 5}, false);
  product({0, 4}, {4, 3}, u8, i8, {}, {}, true);
  product({2, 0}, {0, 3}, u8, i8, {}, {}, false);
  add_result(product({13, 67}, {67, 29}, u8, i8, {}, {}, true), 1, 29, true, u8);
  add_result(product({13, 67}, {67, 29}, u8, i8, {}, {29}, true), 2, 29, true, u8);
  add_result(product({13, 67}, {67, 29}, u8, u8, {}, {29}, true), 3, 29, true, u8);
  add_result(product({30, 259}, {259, 70}, i8, i8, {}, {}, true), 3, 70, true, i8);
  Sample& no_bias = product({5, 20}, {20, 6}, u8, i8, {}, {}, true);
  add_result(no_bias, 3, 6, false, i8);
  no_bias.inputs[4] = missing(i32);

  const IntegerCase cases[] = {
      {{1, 1, 1}, {1, 1, 1}},
      {{2, 3, 9}, {4, 3, 3}, {2}, {1, 2}},
      {{1, 2, 5, 7}, {3, 2, 1, 1}},
      {{2, 5, 8, 9}, {7, 5, 3, 3}, {1}, {1}},
      {{1, 4, 11, 13}, {6, 2, 3, 2}, {2, 3}, {0, 2, 1, 0}, {2, 1}, 2},
      {{1, 20, 14, 15}, {25, 20, 3, 3}, {1}, {1}},
      {{1, 3, 33, 35}, {8, 3, 7, 7}, {2}, {3}},
      {{2, 6, 9, 10}, {6, 1, 3, 3}, {1}, {1}, {1}, 6},
      {{1, 6, 19, 21}, {12, 1, 3, 3}, {2}, {1}, {1}, 6},
      {{1, 5, 17, 18}, {5, 1, 5, 4}, {1}, {2, 3}, {2}, 5},
      {{1, 4, 30}, {4, 1, 7}, {1}, {6, 0}, {1}, 4},
      {{1, 3, 40, 90}, {3, 1, 3, 3}, {3}, {1}, {1}, 3},
      {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, {1, 2, 1}, {1}},
      {{0, 2, 4, 4}, {3, 2, 3, 3}},
      {{0, 6, 9, 10}, {6, 1, 3, 3}, {1}, {1}, {1}, 6},
      {{0, 16, 40, 40}, {32, 16, 3, 3}},  // threads would divide such an image
      {{1, 0, 4, 4}, {3, 0, 3, 3}},
  };
  for (const IntegerCase& c : cases) {
    const int64_t channels = c.weight[0];
    all.push_back(conv(c, u8, i8, true));
    for (const bool constant : {false, true}) {
      add_result(all.emplace_back(conv(c, i8, u8, constant)), 3, channels, true, i8);
      add_result(all.emplace_back(conv(c, u8, i8, constant)), 3, channels, false, u8);
    }
    add_result(all.emplace_back(conv(c, u8, u8, true)), 2, channels, true, u8);
  }
  all.push_back(
      {.op = "conv_integer", .inputs = {bytes(u8, {1, 2, 6, 6}), bytes(u8, {3, 2, 3, 3})}});
  // Rows that are read where they are, in x or in a copy, and rows that are copied.
  const IntegerCase last[] = {
      {{1, 7, 5, 64}, {33, 64, 1, 1}},
      {{2, 4, 9, 64}, {48, 64, 3, 3}, {1}, {1}},
      {{1, 11, 13, 128}, {16, 128, 3, 3}, {2}, {1, 0, 1, 1}},
      {{1, 12, 9, 64}, {40, 64, 2, 3}, {1, 3}, {2, 1}, {2}},
      {{1, 9, 9, 64}, {5, 64, 1, 1}, {2}},
      {{2, 3, 3, 64}, {7, 64, 3, 3}},
      {{1, 6, 7, 96}, {64, 96, 1, 1}},
      {{1, 8, 9, 20}, {70, 20, 3, 3}, {2}, {1}},
      {{1, 9, 10, 5}, {3, 5, 3, 2}, {1}, {2}, {2}},
      {{1, 1, 1, 1}, {1, 1, 1, 1}},
      {{0, 4, 4, 64}, {3, 64, 3, 3}},
      {{1, 4, 4, 0}, {3, 0, 3, 3}},
  };
  const IntegerCase entry[] = {
      {{1, 3, 33, 35}, {8, 3, 7, 7}, {2}, {3}},
      {{2, 1, 9, 20}, {34, 1, 3, 3}, {1}, {1}},
      {{1, 4, 6, 5}, {2, 4, 1, 1}},
      {{1, 2, 7, 30}, {3, 2, 2, 5}, {1, 2}, {0, 3}, {2}},
  };
  const auto add_last = [&](const IntegerCase& c, const char* op) {
    for (const DType x : {u8, i8})
      for (const int given : {0, 2, 3}) {
        Sample s = conv(c, x, x == u8 ? i8 : u8, true);
        s.op = op;
        s.attrs.pop_back();  // no groups
        s.inputs[3] = x == u8 ? missing(i8) : bytes(u8, {}, true);
        if (x == i8) s.inputs[3].low = s.inputs[3].high = 128;
        add_result(all.emplace_back(s), given, c.weight[0], given == 2 || x == i8, x);
        if (given == 0) all.back().floats = {f32, f64, f16, bf16};
      }
  };
  const auto add_any = [&](const IntegerCase& c, const char* op) {
    for (const bool constant : {false, true}) {  // with any zero points
      Sample s = conv(c, u8, i8, constant);
      s.op = op;
      s.attrs.pop_back();
      add_result(all.emplace_back(s), 3, c.weight[0], constant, i8);
    }
  };
  add_any(last[3], "conv_integer_channels_last");
  add_any(last[8], "conv_integer_channels_last");
  add_any(entry[0], "conv_integer_to_channels_last");
  for (const IntegerCase& c : last) add_last(c, "conv_integer_channels_last");
  for (const IntegerCase& c : entry) add_last(c, "conv_integer_to_channels_last");
  return all;
}

}  // namespace hg::test::samples
