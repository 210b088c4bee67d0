// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of 8-bit integers, as quantised ops have them: exact, and in f32 where
// its sums are.
#pragma once

#include <optional>

#include "converter/onnx/node.h"

namespace hg::convert::onnx {

// The integers of a tensor less their zero point: one number, or one for each place of an axis.
struct Integers {
  Value value;      // in f32 those of 8 bits, else in f64
  double most = 0;  // no element is further from 0
  // What a constant of the file says of its elements; none where data decides them.
  std::optional<Tensor> numbers = {};
  std::vector<double> zeros = {};
  int axis = 0;  // of the zero points
};
// Of input i and its zero point, the input `zero`, which may be missing.
Integers integers_of(Node& n, int i, int zero, int axis);
// The same of what lies at one place of their first dim, which is gone then; the zero points, which
// are given, are one or, for each place of the last dim, more there.
Integers integers_at(Node& n, int i, int zero, int64_t place);

// The product of a and b, f32 where that is exact and else f64; of matrices, either may be the
// transpose of what is given.
Value exact_product(const Integers& a, const Integers& b, bool a_transposed = false,
                    bool b_transposed = false);
// The convolution of x [n, c, spatial...] by the node's attributes, of such a dtype.
Value exact_convolution(Node& n, const Integers& x, const Integers& weight);
// Such sums plus the integers of input i along the axis, if it is given.
Value plus_integers(Node& n, const Value& sum, int i, int axis);
// Such sums times a scale, f32. As in ONNX Runtime, each sum is rounded to f32 first, and scales
// are multiplied before.
Value scaled(const Value& sum, const Value& scale);
// A scale, f32, as it broadcasts to x: one number, or one for each place along the axis.
Value scale_along(Node& n, int i, const Value& x, int axis);
// Such sums times a scale, in units of the scale of input i_y, whose zero point is the next input.
Value requantized(Node& n, const Value& sum, const Value& scale, int i_y, int axis);

}  // namespace hg::convert::onnx
