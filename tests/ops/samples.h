// SPDX-License-Identifier: Apache-2.0
// Sample rows: one row feeds every check of an op (design: shape rule, kernel against reference,
// every kernel variant, thread counts, strided inputs, gradient, save and load).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/activation.h"
#include "hg/graph.h"

namespace hg::test {

// One input of a sample: random numbers in [low, high] by a seed (inclusive for integers).
struct SampleInput {
  DType dtype = f32;
  Sizes shape;
  double low = -1, high = 1;
  std::vector<double> values = {};  // instead of random ones
  bool constant = false;            // given to the graph as a constant instead of an input
  bool given = true;                // false for an optional input that is left out
};

struct Sample {
  std::string_view op;
  std::vector<SampleInput> inputs = {};
  NamedAttrs attrs = {};
  double tolerance = 0;  // relative to 1 + |expected|; 0: the dtype's
  bool gradient = true;  // false where finite differences make no sense (kinks, ties)
  bool twice = true;     // false if one value for two inputs is ill-conditioned
  // The dtypes that replace f32 in inputs and attributes. The op accepts exactly these.
  std::vector<DType> floats = {f32, f64, f16, bf16};
  bool has_floats() const;
};

// For ops that need more than 16 bits.
inline const std::vector<DType> kWideFloats = {f32, f64};

// Whether finite differences can differentiate the activation everywhere.
bool is_smooth(Activation activation);

std::vector<Sample> all_samples();

}  // namespace hg::test
