// SPDX-License-Identifier: Apache-2.0
// Numbers as 8-bit integers: x = (level - zero) scale for values, w = level scale for weights. 0 is
// a level of its own in both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hg/tensor.h"

namespace hg {

// Of a value: levels are u8.
struct Levels {
  float scale = 0;
  int zero = 0;
  float least() const { return static_cast<float>(-zero) * scale; }
  float most() const { return static_cast<float>(255 - zero) * scale; }
  // Where the number lies before it is cut off at 0 and 255.
  double place(double x) const;
};

// Those whose ends are the range's, or 0. A range without a width, or with one that f32 cannot
// divide by, has none: scale is 0.
Levels levels_of(double low, double high);

// What is multiplied, and what comes of the sums: for each output channel its own numbers.
struct IntegerSum {
  TensorData weight;           // i8
  TensorData bias;             // i32[out], in units of the scales
  std::vector<double> scales;  // of a product of two levels
  double error = 0;            // of the weights: QuantizedWeight::error
  std::string refused;         // why there is none
};

// The weights of an affine layer, y[o] = factor[o] (sum_k weight[o, k] x[k]) + offset[o], for
// inputs of these levels. `weight` is f32 [out, ...], or [k, out] where `by_column`; the result is
// of its shape, or [k, out] of a matrix where `as_columns`.
struct AffineLayer {
  const Tensor* weight = nullptr;
  bool by_column = false, as_columns = false;
  std::vector<double> factor, offset;
};
Result<IntegerSum> integer_sum(const AffineLayer& layer, const Levels& x);

}  // namespace hg
