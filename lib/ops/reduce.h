// SPDX-License-Identifier: Apache-2.0
// The shape rule that reductions share.
#pragma once

#include <vector>

#include "hg/op.h"

namespace hg::ops {

// `shape` without `axes`, or with 1 there when they are kept.
Shape reduced_shape(const Shape& shape, const std::vector<int>& axes, bool keepdim);

}  // namespace hg::ops
