// SPDX-License-Identifier: Apache-2.0
// Moves elements between any strides without changing them.
#pragma once

#include "lib/vulkan/commands.h"
#include "lib/vulkan/kernels/strides.h"

namespace hg::vulkan {

// A part of an operand: the position of its first element, in elements from the tensor's first, and
// its strides.
struct Part {
  int64_t offset = 0;
  Sizes strides;
};

// Sets y's part to x's part, both of this shape.
Status add_copy(PrepareContext& c, const Operand& y, const Part& to, const Operand& x,
                const Part& from, const Sizes& shape);
// Sets y's part to value.
Status add_fill(PrepareContext& c, const Operand& y, const Part& to, const Sizes& shape,
                double value);

}  // namespace hg::vulkan
