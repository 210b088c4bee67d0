// SPDX-License-Identifier: Apache-2.0
// Gradients of control flow: further control flow, whose subgraphs hold the gradients of subgraphs.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

// Of an `if` or `while` node: one Value for each input, empty where `needs` asks for none. `douts`
// may hold empty Values.
Result<std::vector<Value>> control_gradients(Graph& graph, const Node& node,
                                             const std::vector<Value>& douts,
                                             const std::vector<bool>& needs);

}  // namespace hg
