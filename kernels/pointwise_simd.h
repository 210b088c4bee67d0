// SPDX-License-Identifier: Apache-2.0
// Block functions of f32 for each instruction set.
#pragma once

#include "kernels/pointwise.h"

namespace hg::kernels {

struct PointwiseSimd {
  Block exp, sigmoid, silu, tanh, erf, gelu, gelu_tanh, hardsigmoid, hardswish, relu;
  Block add, sub, mul, div;
};
const PointwiseSimd& pointwise_simd_blocks();

}  // namespace hg::kernels
