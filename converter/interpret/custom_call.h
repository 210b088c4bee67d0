// SPDX-License-Identifier: Apache-2.0
// Calls of ops that only the application knows.
#pragma once

#include "converter/rows/node_call.h"
#include "hg/op.h"

namespace hg::convert {

// Adds the node. Tensors become inputs and everything else attributes, by their names where the
// call has them and else in order.
void call_custom(NodeCall& call, const Op& op);

}  // namespace hg::convert
