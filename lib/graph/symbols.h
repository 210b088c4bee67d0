// SPDX-License-Identifier: Apache-2.0
// The sizes that nodes name in their attributes: who needs them, and where they come from.
#pragma once

#include <string>
#include <vector>

#include "lib/graph/access.h"

namespace hg {

// Whether the attribute is a size, or has one among others, that is no number.
bool has_symbol(const Attr& attr);

// Adds the symbols in the attributes of the node, and those that its subgraphs take from outside.
void collect_symbols(const Node& node, std::vector<std::string>& out);

// Those that the graph's own guards name.
std::vector<std::string> guarded_symbols(const Graph& graph);

// The symbols that the graph names, though neither its inputs nor its nodes decide them: a
// subgraph's come from the graph around it.
std::vector<std::string> outer_symbols(const Graph& graph);

}  // namespace hg
