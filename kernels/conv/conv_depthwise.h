// SPDX-License-Identifier: Apache-2.0
// The inner loops of depthwise convolutions in f32 and of their gradients, and copies of x with
// zeros around it, for every instruction set.
#pragma once

#include <cstdint>

#include "kernels/pointwise/activation.h"

namespace hg::kernels {

// Some rows of one channel of y: y[row, column] = bias + sum over ky, kx of weight[ky, kx]
// x[(row row_stride + ky row_dilation) x_row + column + offset[kx]], then the residual and the
// activation if that is none, relu or relu6. With steps_by_two the kernel is square, of 3 or 5,
// both strides are 2, and column and offset are 2 column + kx instead. x may be read three vectors
// beyond the last column.
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

struct DepthwiseTable {
  // to[remainder, column] = from[column stride + remainder - padding], or 0 outside of [0, count);
  // for `width` columns of each remainder below `remainders`, which is at most the stride.
  void (*pad_row)(const float* from, int64_t count, int64_t padding, int64_t stride,
                  int64_t remainders, int64_t width, float* to) = nullptr;
  void (*clear)(int64_t count, float* to) = nullptr;
  // to[row to_row + column] = from[row from_row + column]; up to a vector of zeros may follow each
  // row.
  void (*copy_rows)(int64_t rows, int64_t columns, const float* from, int64_t from_row, float* to,
                    int64_t to_row) = nullptr;
  void (*plane)(const DepthwisePlane& plane) = nullptr;
  void (*grad)(const DepthwiseGrad& grad) = nullptr;
};

const DepthwiseTable& depthwise_table();

}  // namespace hg::kernels
