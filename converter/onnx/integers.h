// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of 8-bit integers, as quantised ops have them: exact, and in f32 where
// its sums are.
#pragma once

#include "converter/onnx/node.h"

namespace hg::convert::onnx {

// The integers of a tensor less their zero point: one number, or one for each place of an axis.
struct Integers {
  Value value;      // in f32 those of 8 bits, else in f64
  double most = 0;  // no element is further from 0
  // What a constant of the file says of its elements; none where data decides them.
  Value numbers = {};
  std::vector<double> zeros = {};
  int axis = 0;  // of the zero points
};
// Of input i and its zero point, the input `zero`, which may be missing.
Integers integers_of(Node& n, int i, int zero, int axis);

// The product of a and b, f64; of matrices, either may be the transpose of what is given.
Value exact_product(const Integers& a, const Integers& b, bool a_transposed = false,
                    bool b_transposed = false);
// The convolution of x [n, c, spatial...] by the node's attributes, f64.
Value exact_convolution(Node& n, const Integers& x, const Integers& weight);

}  // namespace hg::convert::onnx
