// SPDX-License-Identifier: Apache-2.0
// Draws a graph: one box per node with its op, result, attributes and weights, from the inputs at
// the top to the outputs at the bottom, with a frame around each module.
#pragma once

#include <string>

#include "hg/graph.h"

namespace hg::tools {

// The k-th of boxes_of(graph) is the rectangle with the id "box<k>".
std::string draw_graph(const Graph& graph, const std::string& title);

}  // namespace hg::tools
