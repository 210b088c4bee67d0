// SPDX-License-Identifier: Apache-2.0
// How passes change a graph: walk the nodes in order and let each be replaced by new ones.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lib/graph/access.h"

namespace hg {

// For each node in order: `visit` may add nodes with the builder, which come before the node, and
// return Values that replace the node's outputs (the node goes), or nothing (the node stays). The
// node's inputs are replaced already. Value ids of what stays do not change; a replacement made in
// the same visit takes over the name.
Status rewrite(Graph& graph,
               const std::function<Result<std::optional<std::vector<Value>>>(const Node&)>& visit);

// Removes nodes that neither outputs nor assignments need; returns how many went. What may fail a
// run (has_assertions) stays, unless the graph is a part of another that keeps it.
int remove_dead_nodes(Graph& graph, bool keep_assertions = true);

// Forgets the states that are marked, which nobody reads, and all values that nothing makes. The
// ids of the others change.
void forget(Graph& graph, const std::vector<bool>& states);

// How often each value is used: by nodes, outputs and assignments.
std::vector<int> use_counts(const Graph& graph);

// By state: whether a run assigns it.
std::vector<bool> changed_states(const Graph& graph);

// For each value, the state whose new contents it is at the end, or at a stage of updates in place
// one after the other; else kNoValue.
std::vector<ValueId> updated_states(const Graph& graph);

}  // namespace hg
