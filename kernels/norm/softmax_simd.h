// SPDX-License-Identifier: Apache-2.0
// The inner loops of softmax in f32 and f64, over contiguous elements. x and y may be the same
// memory.
#pragma once

#include <cstdint>

namespace hg::kernels {

struct SoftmaxTable {
  void (*softmax)(const float* x, float* y, int64_t count);
  void (*log_softmax)(const float* x, float* y, int64_t count);
  void (*softmax_double)(const double* x, double* y, int64_t count);
  void (*log_softmax_double)(const double* x, double* y, int64_t count);
  // Softmax, or its log, of adjacent columns, whose elements are `stride` apart; count > 0.
  void (*softmax_columns)(bool log, const float* x, float* y, int64_t count, int64_t stride,
                          int64_t columns);
};
const SoftmaxTable& softmax_table();  // of the chosen instruction set

}  // namespace hg::kernels
