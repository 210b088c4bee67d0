// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv_patches.h"

namespace hg::kernels {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// The input coordinate along dim `d` that meets the output coordinate `at`, or -1.
int64_t met(const ConvShape& s, size_t d, int64_t at, int64_t k) {
  int64_t in = at * s.stride[d] - s.padding[d] + k * s.dilation[d];
  if (s.transposed) {
    const int64_t scaled = at + s.padding[d] - k * s.dilation[d];
    if (scaled < 0 || scaled % s.stride[d] != 0) return -1;
    in = scaled / s.stride[d];
  }
  return in >= 0 && in < s.in[d] ? in : -1;
}

// The columns [x0, x1) of one output row. Input column = output column stride + shift, or, when
// transposed, output column = input column stride + shift.
void part_of_row(const ConvShape& s, const float* from, int64_t shift, int64_t x0, int64_t x1,
                 float* to) {
  const int64_t stride = s.stride[2];
  if (s.transposed && stride > 1) {
    std::fill(to, to + (x1 - x0), 0.0f);
    const int64_t low = std::max<int64_t>(0, ceil_div(x0 - shift, stride));
    const int64_t high = std::min(s.in[2], ceil_div(x1 - shift, stride));
    for (int64_t i = low; i < high; ++i) to[i * stride + shift - x0] = from[i];
    return;
  }
  if (s.transposed) shift = -shift;
  const int64_t a = std::clamp(ceil_div(-shift, stride), x0, x1);
  const int64_t b = std::clamp(ceil_div(s.in[2] - shift, stride), a, x1);
  std::fill(to, to + (a - x0), 0.0f);
  if (stride == 1)
    std::copy(from + a + shift, from + b + shift, to + (a - x0));
  else
    for (int64_t x = a; x < b; ++x) to[x - x0] = from[x * stride + shift];
  std::fill(to + (b - x0), to + (x1 - x0), 0.0f);
}

}  // namespace

void patch_row(const ConvShape& s, const float* x, int64_t p, const Pixels& pixels, float* to) {
  const int64_t kx = p % s.kernel[2], ky = p / s.kernel[2] % s.kernel[1];
  const int64_t kz = p / (s.kernel[1] * s.kernel[2]) % s.kernel[0];
  const float* plane = x + p / s.kernel_size() * s.in_size();
  const int64_t width = s.out[2], shift = kx * s.dilation[2] - s.padding[2];
  const int64_t end = pixels.first + pixels.columns;
  for (int64_t at = pixels.first; at < end;) {
    const int64_t row = at / width, x0 = at % width, x1 = std::min(width, x0 + end - at);
    const int64_t in_z = met(s, 0, row / s.out[1], kz), in_y = met(s, 1, row % s.out[1], ky);
    if (in_z < 0 || in_y < 0)
      std::fill(to, to + (x1 - x0), 0.0f);
    else
      part_of_row(s, plane + (in_z * s.in[1] + in_y) * s.in[2], shift, x0, x1, to);
    to += x1 - x0;
    at += x1 - x0;
  }
}

}  // namespace hg::kernels
