// SPDX-License-Identifier: Apache-2.0
// The shape rule shared by reductions.
#pragma once

#include <vector>

#include "hg/op.h"

namespace hg::ops {

// `shape` without `axes`, or with size 1 there if keepdim.
Shape reduced_shape(const Shape& shape, const std::vector<int>& axes, bool keepdim);

}  // namespace hg::ops
