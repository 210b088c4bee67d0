// SPDX-License-Identifier: Apache-2.0
// The numbers of one convolution of 8-bit integers; padding behind x needs no number.
#pragma once

#include "kernels/conv/conv_shape.h"
#include "kernels/integer/integer_operands.h"

namespace hg::kernels {

ConvShape conv_integer_shape(const PrepareContext& c);

// sums of i32 that begin at bias - zero point of x * sum of the weights, for each output channel
void conv_integer_starts(const RunContext& c, int64_t channels, const int32_t* weight_sums,
                         int32_t* to);
// The zero point of x, as bytes are multiplied: u8 less 128.
inline int flipped_zero(const RunContext& c) {
  const int zero = c.has(2) ? zero_points(c.in(2)).at(0) : 0;
  return c.in(0).dtype == DType::u8 ? zero - 128 : zero;
}

}  // namespace hg::kernels
