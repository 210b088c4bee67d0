// SPDX-License-Identifier: Apache-2.0
// The inner loop of the gradient of a depthwise convolution's weight in f32, for every instruction
// set.
#pragma once

#include <cstdint>

namespace hg::kernels {

// The gradient of one channel's weight from some rows of dy: sums[ky, kx] += sum over rows and
// columns of dy[row, column] x[(row row_stride + ky row_dilation) x_row + column + offset[kx]].
struct DepthwiseGrad {
  int64_t rows = 0, columns = 0;
  int64_t kernel_y = 0, kernel_x = 0, row_stride = 1, row_dilation = 1;
  const float* x = nullptr;
  int64_t x_row = 0;
  const int64_t* offset = nullptr;  // [kernel_x]
  const float* dy = nullptr;
  double* sums = nullptr;
};

using DepthwiseGradLoop = void (*)(const DepthwiseGrad& grad);
DepthwiseGradLoop depthwise_grad_loop();  // of the chosen instruction set

}  // namespace hg::kernels
