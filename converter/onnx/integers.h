// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of 8-bit integers for quantized ops, built from matmul_integer and
// conv_integer: exact, and rounded to 8 bits again on request.
#pragma once

#include <functional>

#include "converter/onnx/node.h"
#include "hg/ops/integer.h"

namespace hg::convert::onnx {

// A tensor of u8 or i8 and its zero point, which may be missing: one number, or one for each row,
// column or output channel.
struct Integers {
  Value value, zero;
};
// Of input i and its zero point, the input `zero`, which may be missing.
Integers integers_of(Node& n, int i, int zero);
// The same of what lies at one place of their first dim, which is gone then.
Integers integers_at(Node& n, int i, int zero, int64_t place);

// Sums of products that are still to be made: what becomes of them decides how.
struct IntegerSums {
  std::function<Value(const IntegerOptions&)> made;
  int row_axis = 0, column_axis = 0;  // along which scales and biases have one number each
  Value bias = {};                    // i32, added first, one number for each column
  Value more = {};                    // i32, added first, as it broadcasts
};
// The product of a and b; of matrices, either may be the transpose of what is given.
IntegerSums integer_product(const Integers& a, const Integers& b, bool a_transposed = false,
                            bool b_transposed = false);
// The convolution of x [n, c, spatial...] by the node's attributes.
IntegerSums integer_convolution(Node& n, const Integers& x, const Integers& weight);

// The scale of input i, f32.
Value scale_in(Node& n, int i);
// Such sums times the scales of rows and columns, f32. As in ONNX Runtime, each sum is rounded to
// f32 first, and scales are multiplied before.
Value scaled(const IntegerSums& sums, const Value& rows, const Value& columns);
// The same in units of the scale of input i_y, whose zero point is the next input.
Value requantized(Node& n, const IntegerSums& sums, const Value& rows, const Value& columns,
                  int i_y);

}  // namespace hg::convert::onnx
