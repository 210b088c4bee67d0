// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lib/graph/access.h"
#include "lib/train/step_graph.h"

namespace hg {

void update_early(Graph& graph, const std::map<ValueId, ValueId>& part_of) {
  GraphBody& body = GraphAccess::body(graph);
  // Of a state, through views too; others are those that make no part of a gradient.
  std::vector<int> readers(body.values.size(), 0), others = readers;
  std::vector<ValueId> root(body.values.size(), kNoValue);
  std::vector<bool> ready(body.values.size(), true);
  std::vector<Node> old = std::exchange(body.nodes, {});
  std::vector<Node*> in_order, waiting;
  for (const State& state : body.states) root[static_cast<size_t>(state.value)] = state.value;
  const auto is_update = [](const Node& node) { return (node.op->def.traits & kInPlace) != 0; };
  const auto is_part = [&](const Node& node) { return part_of.contains(node.outputs[0]); };
  const auto each_root = [&](const Node& node, auto visit) {
    for (const ValueId id : node.inputs)
      if (id != kNoValue && root[static_cast<size_t>(id)] != kNoValue)
        visit(static_cast<size_t>(root[static_cast<size_t>(id)]));
  };
  const auto count = [&](const Node& node, int by) {
    if (is_update(node)) return;
    each_root(node, [&](size_t state) {
      readers[state] += by;
      if (!is_part(node)) others[state] += by;
    });
  };
  for (Node& node : old) {
    for (const ValueId id : node.outputs) ready[static_cast<size_t>(id)] = false;
    if (node.op->def.view != nullptr)
      root[static_cast<size_t>(node.outputs[0])] = root[static_cast<size_t>(node.inputs[0])];
    (is_update(node) || is_part(node) ? waiting : in_order).push_back(&node);
    count(node, 1);
  }
  const auto emit = [&](Node& node) {
    count(node, -1);
    for (const ValueId id : node.outputs) ready[static_cast<size_t>(id)] = true;
    GraphAccess::push_node(graph, std::move(node));
  };
  const auto can_run = [&](const Node& node) {
    for (const ValueId id : node.inputs)
      if (id != kNoValue && !ready[static_cast<size_t>(id)]) return false;
    if (is_part(node)) return others[static_cast<size_t>(part_of.at(node.outputs[0]))] == 0;
    bool is_read = false;
    each_root(node, [&](size_t state) { is_read |= readers[state] > 0; });
    return !is_read;
  };
  for (Node* node : in_order) {
    emit(*node);
    std::erase_if(waiting, [&](Node* next) {
      const bool runs = can_run(*next);
      if (runs) emit(*next);
      return runs;
    });
  }
}

}  // namespace hg
