// SPDX-License-Identifier: Apache-2.0
// Gradients of control flow: control flow whose subgraphs compute the gradients of the original
// ones.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

// For an `if` or `while` node: returns one Value per input, empty unless requested by `needs`.
// `douts` may contain empty Values.
Result<std::vector<Value>> control_gradients(Graph& graph, const Node& node,
                                             const std::vector<Value>& douts,
                                             const std::vector<bool>& needs);

}  // namespace hg
