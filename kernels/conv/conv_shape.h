// SPDX-License-Identifier: Apache-2.0
// The sizes of one convolution; missing spatial dims are leading dims of size 1.
//
//   x: [n, c, in[3]]
//   weight: [o, c / groups, kernel[3]] (transposed: [c, o / groups, kernel[3]])
//   y: [n, o, out[3]]
#pragma once

#include <array>

#include "hg/kernel.h"
#include "kernels/pointwise/activation.h"

namespace hg::kernels {

struct ConvShape {
  using Spatial = std::array<int64_t, 3>;
  int64_t n = 0, c = 0, o = 0, groups = 1;
  Spatial in = {1, 1, 1}, out = {1, 1, 1}, kernel = {1, 1, 1};
  Spatial stride = {1, 1, 1}, padding = {0, 0, 0}, dilation = {1, 1, 1};
  bool transposed = false;
  Activation activation = Activation::none;

  static int64_t product(const Spatial& s) { return s[0] * s[1] * s[2]; }
  int64_t in_size() const { return product(in); }
  int64_t out_size() const { return product(out); }
  int64_t kernel_size() const { return product(kernel); }
  int64_t group_c() const { return c / groups; }
  int64_t group_o() const { return o / groups; }
};

// The coordinate of x that `at` of y meets at element k of the kernel along dim d, or -1 if it is
// outside.
inline int64_t met(const ConvShape& s, size_t d, int64_t at, int64_t k) {
  int64_t in = at * s.stride[d] - s.padding[d] + k * s.dilation[d];
  if (s.transposed) {
    const int64_t scaled = at + s.padding[d] - k * s.dilation[d];
    if (scaled < 0 || (s.stride[d] > 1 && scaled % s.stride[d] != 0)) return -1;
    in = s.stride[d] > 1 ? scaled / s.stride[d] : scaled;
  }
  return in >= 0 && in < s.in[d] ? in : -1;
}

// Of the op conv: x, y, and the attributes.
ConvShape conv_shape(const Tensor& x, const Tensor& weight, const Tensor& y,
                     const KernelAttrs& attrs);
// For the op conv_channels_last, as the convolution that it computes.
ConvShape channels_last_shape(const Tensor& x, const Tensor& weight, const Tensor& y,
                              const KernelAttrs& attrs);
// For the op conv_dense_channels_last, likewise.
ConvShape dense_channels_last_shape(const Tensor& x, const Tensor& weight, const Tensor& y,
                                    const KernelAttrs& attrs);
// For the op conv_to_channels_last, likewise.
ConvShape to_channels_last_shape(const Tensor& x, const Tensor& weight, const Tensor& y,
                                 const KernelAttrs& attrs);
// Of the op conv_weight_grad.
ConvShape conv_weight_grad_shape(const Tensor& x, const Tensor& dy, const KernelAttrs& attrs);

}  // namespace hg::kernels
