// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of 8-bit integers for quantized ops, built from matmul_integer and
// conv_integer. They are exact, and can be requantized to 8 bits.
#pragma once

#include <functional>

#include "converter/onnx/node.h"
#include "hg/ops/integer.h"

namespace hg::convert::onnx {

// A u8 or i8 tensor and its zero point, which may be missing: one number, or one per row, column or
// output channel.
struct Integers {
  Value value, zero;
};
// Returns input i and its zero point, input `zero`, which may be missing.
Integers integers_of(Node& n, int i, int zero);
// The same for one index of their first dim, which is removed.
Integers integers_at(Node& n, int i, int zero, int64_t place);

// Sums of products that are not yet built, because the use of the sums decides how to build them.
struct IntegerSums {
  std::function<Value(const IntegerOptions&)> made;
  int row_axis = 0, column_axis = 0;  // axes with one scale or bias per index
  Value bias = {};                    // i32, added first, one number per column
  Value more = {};                    // i32, added first; broadcasts
};
// The product of a and b. If they are matrices, either may be given transposed.
IntegerSums integer_product(const Integers& a, const Integers& b, bool a_transposed = false,
                            bool b_transposed = false);
// The convolution of x [n, c, spatial...] with the node's attributes.
IntegerSums integer_convolution(Node& n, const Integers& x, const Integers& weight);

// Returns input i, an f32 scale.
Value scale_in(Node& n, int i);
// Returns the sums times the scales of rows and columns, f32. As in ONNX Runtime, each sum is
// rounded to f32 first, and the scales are multiplied before that.
Value scaled(const IntegerSums& sums, const Value& rows, const Value& columns);
// Quantizes the same with the scale in input i_y and the zero point in the next input.
Value requantized(Node& n, const IntegerSums& sums, const Value& rows, const Value& columns,
                  int i_y);

}  // namespace hg::convert::onnx
