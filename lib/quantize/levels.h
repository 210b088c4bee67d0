// SPDX-License-Identifier: Apache-2.0
// Numbers as 8-bit integers: x = (level - zero) scale for values, w = level scale for weights. Both
// represent 0 exactly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hg/tensor.h"

namespace hg {

// Levels of a value, which are u8.
struct Levels {
  float scale = 0;
  int zero = 0;
  float least() const { return static_cast<float>(-zero) * scale; }
  float most() const { return static_cast<float>(255 - zero) * scale; }
  // The level of the number before clamping to [0, 255].
  double place(double x) const;
};

// Levels whose ends are those of the range, which includes 0. A range without width, or whose width
// f32 cannot divide by, has no levels: scale is 0.
Levels levels_of(double low, double high);

// The operands of the product, and how sums become results, per output channel.
struct IntegerSum {
  TensorData weight;           // i8
  TensorData bias;             // i32[out], in units of the scales
  std::vector<double> scales;  // of a product of two levels
  double error = 0;            // of the weights: QuantizedWeight::error
  std::string refused;         // why there are no levels
};

// The weights of an affine layer, y[o] = factor[o] (sum_k weight[o, k] x[k]) + offset[o], for
// inputs of these levels. `weight` is f32 [out, ...], or [k, out] if `by_column`. The result has
// the same shape, or [k, out] for a matrix if `as_columns`.
struct AffineLayer {
  const Tensor* weight = nullptr;
  bool by_column = false, as_columns = false;
  std::vector<double> factor, offset;
};
Result<IntegerSum> integer_sum(const AffineLayer& layer, const Levels& x);

}  // namespace hg
