// SPDX-License-Identifier: Apache-2.0
// The sizes of one convolution of 8-bit integers. The padding after x follows from them.
#pragma once

#include "kernels/conv/conv_shape.h"
#include "kernels/integer/integer_operands.h"

namespace hg::kernels {

ConvShape conv_integer_shape(const PrepareContext& c);
// Of shapes with the channels first, without groups.
ConvShape conv_integer_shape(const Sizes& x, const Sizes& weight, const Sizes& y,
                             const KernelAttrs& attrs);

// Initial sums of each output channel: the bias minus the sum of its weights times the zero point
// of x, to which `more` was added like to x itself.
void conv_integer_starts(const RunContext& c, int64_t channels, const int32_t* weight_sums,
                         int more, int32_t* to);

}  // namespace hg::kernels
