// SPDX-License-Identifier: Apache-2.0
// Symbols in node attributes: which nodes need them and what defines them.
#pragma once

#include <string>
#include <vector>

#include "lib/graph/access.h"

namespace hg {

// Whether the attribute is or contains a symbolic size.
bool has_symbol(const Attr& attr);

// Adds the symbols in the node's attributes, and those that its subgraphs use from outside.
void collect_symbols(const Node& node, std::vector<std::string>& out);

// The symbols in the graph's own guards.
std::vector<std::string> guarded_symbols(const Graph& graph);

// The symbols that the graph uses but neither its inputs nor its nodes define. In a subgraph, the
// enclosing graph defines them.
std::vector<std::string> outer_symbols(const Graph& graph);

}  // namespace hg
