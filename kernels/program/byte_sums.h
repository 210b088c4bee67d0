// SPDX-License-Identifier: Apache-2.0
// Sums of two tensors of bytes, scaled and rounded to bytes, without a check of each quotient.
#pragma once

#include <span>

#include "kernels/pointwise/pointwise.h"

namespace hg::kernels {

// Like PointwiseSimd::sum_u8_u8 and its kin, by whether x[0], x[3] and y are signed, if the limits
// of the params are those of y: the quickest first, which may round some quotients otherwise. Empty
// without AVX-512 and in small builds. `to` has their memory.
std::span<const Block> quick_byte_sums(bool is_signed_a, bool is_signed_b, bool is_signed_y,
                                       Block (&to)[2]);

// Whether both blocks compute the same sums of all bytes a and b. x: their operands; x[0] and x[3]
// are not read.
bool agree_on_bytes(Block one, Block other, const void* const* x, const PointwiseParams& params);

}  // namespace hg::kernels
