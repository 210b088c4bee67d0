// SPDX-License-Identifier: Apache-2.0
// The numbers of a convolution as shader parameters, in the order of shaders/conv.comp.
#pragma once

#include "kernels/conv/conv_shape.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {

inline void describe(Words& words, const kernels::ConvShape& s) {
  words.u(s.group_c()).u(s.group_o()).u(s.groups);
  for (const auto* spatial : {&s.in, &s.out, &s.kernel, &s.stride, &s.padding, &s.dilation})
    for (const int64_t size : *spatial) words.u(size);
}

}  // namespace hg::vulkan
