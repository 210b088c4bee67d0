// SPDX-License-Identifier: Apache-2.0
// Floats as levels times scales, and the nodes that make floats of them again: both sides of the
// same sum, to the bit.
#pragma once

#include <string_view>

#include "hg/graph.h"

namespace hg {

// How a weight is cut into blocks that have a scale each: so many elements along each dim, the last
// ones fewer where they do not divide it. All elements, or one, along each dim but one at most.
struct Blocks {
  Sizes shape;  // of the weight
  Sizes sizes;  // of a block

  int64_t along(int d) const { return (shape[d] + sizes[d] - 1) / sizes[d]; }
  int64_t count() const;
  int split() const;  // the dim of which a block holds some elements, neither one nor all; or -1
  // Of the tensor of scales: the blocks along each dim, and a 1 behind that of `split`.
  Sizes scales() const;
};

struct Rounded {
  // Of 8 bits: i8 of the weight's shape. Of 4: u8, flat, levels from 1 to 15 less 8; a byte holds
  // one of the first half of the elements below one of the second.
  TensorData levels;
  TensorData scales;  // f32; f64 for weights of f64
  double error = 0;   // QuantizedWeight::error
};

// Fails with invalid_argument where an element is not finite; `name` is for messages.
Result<Rounded> round_to_levels(std::string_view name, const Tensor& weight, const Blocks& blocks,
                                int bits);

// The numbers that the levels stand for, of the weight's dtype and shape.
Value widened(const Value& levels, const Value& scales, const Blocks& blocks, int bits,
              DType dtype);

}  // namespace hg
