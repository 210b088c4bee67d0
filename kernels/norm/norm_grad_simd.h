// SPDX-License-Identifier: Apache-2.0
// The inner loops of the gradients of norms in f32, over contiguous elements.
#pragma once

#include <cstdint>

namespace hg::kernels {

struct NormGradTable {
  // The sums of g and of g (x - mean), where g = dy weight.
  void (*grad_sums)(const float* x, const float* dy, const float* weight, int64_t count, float mean,
                    double& sum, double& product);
  // dx = a ((g - g_mean) + b (x - mean)), which is 0 for a line of one element. dx may be the same
  // memory as x or dy.
  void (*grad_line)(const float* x, const float* dy, const float* weight, float* dx, int64_t count,
                    float mean, float g_mean, float a, float b);
  // dweight += dy (x - mean) scale and dbias += dy, per element.
  void (*grad_affine)(const float* x, const float* dy, int64_t count, float mean, float scale,
                      float* dweight, float* dbias);
};
const NormGradTable& norm_grad_table();  // of the chosen instruction set

}  // namespace hg::kernels
