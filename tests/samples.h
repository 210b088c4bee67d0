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

// One input of a sample: filled from a seed, uniformly in [low, high] (integers: inclusive).
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
  double tolerance = 0;  // relative to 1 + |expected|; 0: that of the dtype
  bool gradient = true;  // false where finite differences make no sense (kinks, ties)
  bool twice = true;     // false where one value in the place of two is ill-conditioned
  // What every f32 of the row, in inputs and attributes, also becomes: no more and no less is
  // taken.
  std::vector<DType> floats = {f32, f64, f16, bf16};
  bool has_floats() const;
};

// Of ops that 16 bits do not suffice for.
inline const std::vector<DType> kWideFloats = {f32, f64};

// Whether finite differences may differentiate it everywhere.
bool is_smooth(Activation activation);

std::vector<Sample> all_samples();

}  // namespace hg::test
