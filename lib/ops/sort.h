// SPDX-License-Identifier: Apache-2.0
// The gradient of ops that pick elements along a dim.
#pragma once

#include "hg/op.h"

namespace hg::ops {

// For outputs (values, indices) along attribute `dim`: dy goes back to where the values came from.
Status pick_grad(GradContext& c);

}  // namespace hg::ops
