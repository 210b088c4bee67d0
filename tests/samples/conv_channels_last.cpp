// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/conv_channels_last.cpp: tiles of 7, 4 and 1 columns, all square kernels and
// one that is not, channels around whole vectors.
#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

using Dims = std::vector<Dim>;

struct ChannelsLastCase {
  Sizes x, kernel;
  Dims stride = {1}, padding = {0}, dilation = {1};
};

Sample sample(const ChannelsLastCase& c, bool bias, Activation activation = Activation::none) {
  const Sizes weight = {c.x[3], 1, c.kernel[0], c.kernel[1]};
  Sample s{.op = "conv_channels_last",
           .inputs = {{.shape = c.x},
                      {.shape = weight, .low = -0.6, .high = 0.6, .constant = bias},
                      {.shape = {c.x[3]}, .given = bias}}};
  s.attrs = {{"stride", c.stride},
             {"padding", c.padding},
             {"dilation", c.dilation},
             {"activation", std::string(to_string(activation))}};
  return s;
}

// Of all channels.
Sample dense(const ChannelsLastCase& c, int64_t channels, bool residual,
             Activation activation = Activation::none) {
  Sample s = sample(c, true, activation);
  s.op = "conv_dense_channels_last";
  s.inputs[1].shape = {channels, c.x[3], c.kernel[0], c.kernel[1]};
  s.inputs[2].shape = {channels};
  const Sizes y = {c.x[0], c.x[1], c.x[2], channels};  // of kernels that keep the size
  s.inputs.push_back({.shape = y, .given = residual});
  s.floats = {f32};
  return s;
}

// x: [n, c, h, w].
Sample entry(const ChannelsLastCase& c, int64_t channels, bool is_constant,
             Activation activation = Activation::none) {
  Sample s = sample(c, is_constant, activation);
  s.op = "conv_to_channels_last";
  s.inputs[1].shape = {channels, c.x[1], c.kernel[0], c.kernel[1]};
  s.inputs[2].shape = {channels};
  return s;
}

}  // namespace

std::vector<Sample> conv_channels_last() {
  const ChannelsLastCase cases[] = {
      {{1, 1, 1, 1}, {1, 1}},
      {{1, 7, 7, 5}, {3, 3}, {1}, {1}},
      {{2, 5, 4, 8}, {3, 3}, {1}, {1}},
      {{1, 9, 10, 3}, {3, 3}, {2}, {1}},
      {{1, 6, 3, 17}, {5, 5}, {1}, {2}},
      {{1, 10, 8, 2}, {5, 5}, {2}, {2}},
      {{1, 4, 8, 3}, {7, 7}, {1}, {3}},
      {{1, 9, 9, 2}, {7, 7}, {2}, {3}},
      {{1, 8, 9, 4}, {3, 3}, {1}, {2}, {2}},
      {{2, 7, 6, 3}, {2, 3}, {3, 1}, {1, 0}, {1, 2}},
      {{0, 5, 5, 4}, {3, 3}, {1}, {1}},
  };
  std::vector<Sample> all;
  for (const ChannelsLastCase& c : cases)
    for (const bool bias : {false, true}) all.push_back(sample(c, bias));
  const ChannelsLastCase large[] = {
      {{2, 14, 14, 100}, {3, 3}, {1}, {1}},   {{1, 29, 30, 72}, {3, 3}, {2}, {1}},
      {{1, 28, 28, 40}, {5, 5}, {1}, {2}},    {{1, 15, 14, 67}, {5, 5}, {2}, {2}},
      {{1, 56, 57, 24}, {7, 7}, {1}, {3}},    {{1, 21, 300, 9}, {3, 3}, {1}, {1}},
      {{1, 31, 16, 33}, {4, 2}, {2}, {1, 0}},
  };
  for (const ChannelsLastCase& c : large) {
    all.push_back(sample(c, true));
    all.back().gradient = false;
  }
  const ChannelsLastCase keep = {{2, 6, 8, 11}, {3, 3}, {1}, {1}};
  for (int i = 0; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    Sample s = sample(keep, true, activation);
    s.inputs.push_back({.shape = keep.x});
    s.gradient = is_smooth(activation);
    all.push_back(s);
  }
  for (const DType dtype : {i64, u8}) {
    Sample s = sample(cases[9], true);
    for (SampleInput& input : s.inputs) {
      input.dtype = dtype;
      input.low = 0;
      input.high = 3;
    }
    s.gradient = false;
    all.push_back(s);
  }
  for (const bool residual : {false, true}) {
    all.push_back(dense({{2, 5, 4, 3}, {3, 3}, {1}, {1}}, 5, residual));
    all.push_back(dense({{1, 4, 4, 18}, {1, 1}}, 33, residual, Activation::relu));
    all.push_back(dense({{1, 6, 5, 2}, {3, 3}, {1}, {2}, {2}}, 1, residual, Activation::silu));
    all.push_back(dense({{0, 4, 4, 3}, {1, 1}}, 2, residual));
  }
  // Blocks of pixels that are whole, shifted and missing, steps of 1, 2 and more.
  const ChannelsLastCase entries[] = {
      {{1, 1, 1, 1}, {1, 1}},
      {{2, 3, 9, 13}, {3, 3}, {2}, {1}},
      {{1, 2, 6, 7}, {3, 2}, {1}, {1, 0}},
      {{1, 4, 13, 38}, {4, 4}, {4}},
      {{1, 1, 7, 5}, {3, 3}, {1}, {2}, {2, 1}},
      {{2, 3, 40, 66}, {3, 3}, {2}, {1}},
      {{0, 3, 5, 5}, {3, 3}, {1}, {1}},
  };
  for (const ChannelsLastCase& c : entries)
    for (const int64_t channels : {5, 16, 35})
      for (const bool is_constant : {false, true}) {
        all.push_back(entry(c, channels, is_constant));
        all.back().gradient = c.x.count() < 500;
      }
  for (int i = 1; i < kActivationCount; ++i) {
    all.push_back(entry(entries[1], 19, true, static_cast<Activation>(i)));
    all.back().gradient = false;
  }
  for (const DType dtype : {i64, u8}) {
    Sample s = entry(entries[1], 5, true);
    for (SampleInput& input : s.inputs) {
      input.dtype = dtype;
      input.low = 0;
      input.high = 3;
    }
    s.gradient = false;
    all.push_back(s);
  }
  return all;
}

}  // namespace hg::test::samples
