// SPDX-License-Identifier: Apache-2.0
// The inner loops of softmax, of the norms and of their gradients in f32, over contiguous elements.
// x and y may be the same memory.
#pragma once

#include <cstdint>

namespace hg::kernels {

struct NormTable {
  void (*softmax)(const float* x, float* y, int64_t count);
  void (*log_softmax)(const float* x, float* y, int64_t count);
  // Softmax, or its log, of columns that lie side by side, whose elements are `stride` apart;
  // count > 0.
  void (*softmax_columns)(bool log, const float* x, float* y, int64_t count, int64_t stride,
                          int64_t columns);
  // The mean and the mean square distance from it.
  void (*moments)(const float* x, int64_t count, float& mean, float& var);
  float (*mean_square)(const float* x, int64_t count);
  // y = (x - mean) scale weight + bias; weight and bias hold one number for each element, or null.
  void (*affine_row)(const float* x, float* y, int64_t count, float mean, float scale,
                     const float* weight, const float* bias);
  // y = (x - mean) scale + shift
  void (*affine_line)(const float* x, float* y, int64_t count, float mean, float scale,
                      float shift);
  // The sums of x - shift and of its square; a few terms in float, those in double.
  void (*deviations)(const float* x, int64_t count, float shift, double& sum, double& square);
  // The sums of g and of g (x - mean), where g = dy weight; weight as above.
  void (*grad_sums)(const float* x, const float* dy, const float* weight, int64_t count, float mean,
                    double& sum, double& product);
  // dx = a ((g - g_mean) + b (x - mean)), which is 0 for a line of one element; dx may be the
  // memory of x or of dy.
  void (*grad_line)(const float* x, const float* dy, const float* weight, float* dx, int64_t count,
                    float mean, float g_mean, float a, float b);
  // dweight += dy (x - mean) scale and dbias += dy, for each element.
  void (*grad_affine)(const float* x, const float* dy, int64_t count, float mean, float scale,
                      float* dweight, float* dbias);
};
const NormTable& norm_table();  // of the chosen instruction set

}  // namespace hg::kernels
