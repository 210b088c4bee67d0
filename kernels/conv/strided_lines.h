// SPDX-License-Identifier: Apache-2.0
// The order of the lines of a padded image in which an element of the kernel reads neighbors, one
// after the other: those with the same remainder of the stride together.
#pragma once

#include <cstdint>

#include "kernels/ceil_div.h"
#include "kernels/conv/conv_shape.h"

namespace hg::kernels {

struct StridedLines {
  int64_t stride = 1, kernel = 1, dilation = 1;
  int64_t each = 0;  // lines of a remainder

  StridedLines() = default;
  // Along spatial dim d.
  StridedLines(const ConvShape& s, size_t d)
      : stride(s.stride[d]), kernel(s.kernel[d]), dilation(s.dilation[d]) {
    each = ceil_div((s.out[d] - 1) * stride + (kernel - 1) * dilation + 1, stride);
  }
  int64_t count() const { return each * stride; }
  int64_t line_of(int64_t position) const { return position % stride * each + position / stride; }
  // Whether some element of the kernel reads lines with the remainder of this position.
  bool reads(int64_t position) const {
    for (int64_t k = 0; k < kernel; ++k)
      if (position % stride == k * dilation % stride) return true;
    return false;
  }
};

}  // namespace hg::kernels
