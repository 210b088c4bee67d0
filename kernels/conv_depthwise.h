// SPDX-License-Identifier: Apache-2.0
// The inner loop of depthwise convolutions in f32, for every instruction set.
#pragma once

#include <cstdint>

namespace hg::kernels {

struct DepthwiseTable {
  // to[remainder, column] = from[column stride + remainder - padding], or 0 outside of [0, count);
  // for `width` columns of each remainder below `remainders`, which is at most the stride.
  void (*pad_row)(const float* from, int64_t count, int64_t padding, int64_t stride,
                  int64_t remainders, int64_t width, float* to) = nullptr;
  void (*clear)(int64_t count, float* to) = nullptr;
  // y[rows, columns] = bias + sum over t of weight[t] x[row row_step + column + offset[t]]; x may
  // be read up to one vector beyond the last column.
  void (*plane)(int64_t rows, int64_t columns, int64_t taps, const float* x, int64_t row_step,
                const float* weight, const int64_t* offset, float bias, float* y) = nullptr;
};

const DepthwiseTable& depthwise_table();

}  // namespace hg::kernels
