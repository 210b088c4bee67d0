// SPDX-License-Identifier: Apache-2.0
// How passes change a graph: they visit the nodes in order and may replace each by new nodes.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lib/graph/access.h"

namespace hg {

// Calls `visit` for each node in order. It may add nodes with the builder, which precede the node.
// If it returns Values, they replace the node's outputs and the node is removed; otherwise the node
// stays. Its inputs are already replaced. Value ids of remaining nodes do not change. A replacement
// made in the same visit inherits the name.
Status rewrite(Graph& graph,
               const std::function<Result<std::optional<std::vector<Value>>>(const Node&)>& visit);

// Removes nodes that neither outputs nor assignments need; returns their number. Keeps nodes that
// may fail a run (has_assertions), unless an enclosing graph keeps them.
int remove_dead_nodes(Graph& graph, bool keep_assertions = true);

// Removes the marked states, which must be unused, and all values without a producer. Ids of the
// remaining values change.
void forget(Graph& graph, const std::vector<bool>& states);

// Number of uses of each value by nodes, outputs and assignments.
std::vector<int> use_counts(const Graph& graph);

// For each state: whether a run assigns it.
std::vector<bool> changed_states(const Graph& graph);

// For each value: the state whose new contents it holds, at the end or at a stage of successive
// in-place updates; else kNoValue.
std::vector<ValueId> updated_states(const Graph& graph);

}  // namespace hg
