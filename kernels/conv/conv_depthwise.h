// SPDX-License-Identifier: Apache-2.0
// The inner loop of depthwise convolutions in f32, for every instruction set.
#pragma once

#include <cstdint>

#include "kernels/pointwise/activation.h"

namespace hg::kernels {

// Some rows of one channel of y: y[row, column] = bias + sum over ky, kx of weight[ky, kx] x[(row
// row_stride + ky row_dilation) x_row + column + offset[kx]]. Then adds the residual and applies
// the activation if it is relu or relu6. With steps_by_two, the kernel is square (3 or 5),
// both strides are 2, and column is replaced by 2 column and offset[kx] by kx. The loop may read x
// up to three vectors beyond the last column.
struct DepthwisePlane {
  int64_t rows = 0, columns = 0;
  int64_t kernel_y = 0, kernel_x = 0, row_stride = 1, row_dilation = 1;
  const float* x = nullptr;
  int64_t x_row = 0;
  bool steps_by_two = false;
  const int64_t* offset = nullptr;  // [kernel_x]
  const float* weight = nullptr;
  float bias = 0;
  const float* residual = nullptr;  // like y
  Activation activation = Activation::none;
  float* y = nullptr;
};

using DepthwiseLoop = void (*)(const DepthwisePlane& plane);
DepthwiseLoop depthwise_loop();  // of the chosen instruction set

}  // namespace hg::kernels
