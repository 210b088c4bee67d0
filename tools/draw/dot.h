// SPDX-License-Identifier: Apache-2.0
// A graph in Graphviz's language, for its layouts and for other programs.
#pragma once

#include <string>

#include "hg/graph.h"

namespace hg::tools {

// A node "n0", "n1" ... for each box of draw_graph, and a cluster for each module with at least two
// boxes.
std::string graph_as_dot(const Graph& graph, const std::string& title);

}  // namespace hg::tools
