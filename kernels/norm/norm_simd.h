// SPDX-License-Identifier: Apache-2.0
// The inner loops of the norms in f32, over contiguous elements. x and y may be the same memory.
#pragma once

#include <cstdint>

namespace hg::kernels {

struct NormTable {
  // The mean and the mean squared distance from it.
  void (*moments)(const float* x, int64_t count, float& mean, float& var);
  float (*mean_square)(const float* x, int64_t count);
  // y = (x - mean) scale weight + bias; weight and bias have one number per element, or are null.
  void (*affine_row)(const float* x, float* y, int64_t count, float mean, float scale,
                     const float* weight, const float* bias);
  // y = (x - mean) scale + shift
  void (*affine_line)(const float* x, float* y, int64_t count, float mean, float scale,
                      float shift);
  // The sums of x - shift and of its square: a few terms in float, their sums in double.
  void (*deviations)(const float* x, int64_t count, float shift, double& sum, double& square);
};
const NormTable& norm_table();  // of the chosen instruction set

}  // namespace hg::kernels
