// SPDX-License-Identifier: Apache-2.0
// The gradient of ops that select elements along a dim.
#pragma once

#include "hg/op.h"

namespace hg::ops {

// For outputs (values, indices) along attribute `dim`: adds dy at the indices.
Status pick_grad(GradContext& c);

}  // namespace hg::ops
