// SPDX-License-Identifier: Apache-2.0
// Calls of ops that only the application knows.
#pragma once

#include "converter/rows/node_call.h"
#include "hg/op.h"

namespace hg::convert {

// Adds the node. Tensors become inputs, everything else becomes attributes: by name if the call has
// names, otherwise by position.
void call_custom(NodeCall& call, const Op& op);

}  // namespace hg::convert
