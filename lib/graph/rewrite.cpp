// SPDX-License-Identifier: Apache-2.0
#include "lib/graph/rewrite.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "lib/graph/symbols.h"

namespace hg {

Status rewrite(Graph& graph,
               const std::function<Result<std::optional<std::vector<Value>>>(const Node&)>& visit) {
  GraphBody& body = GraphAccess::body(graph);
  std::vector<Node> old = std::exchange(body.nodes, {});
  std::vector<ValueId> replacement(body.values.size());
  std::iota(replacement.begin(), replacement.end(), 0);
  const auto replaced = [&](ValueId id) {
    return id == kNoValue || static_cast<size_t>(id) >= replacement.size() ? id : replacement[id];
  };
  const Origin origin = body.origin;
  for (Node& node : old) {
    for (ValueId& id : node.inputs) id = replaced(id);
    body.origin = node.origin;
    const auto first_new = static_cast<ValueId>(body.values.size());
    HG_TRY_ASSIGN(const std::optional<std::vector<Value>> values, visit(node));
    HG_TRY(graph.take_status());
    if (!values) {
      GraphAccess::push_node(graph, std::move(node));
      continue;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId from = node.outputs[i], to = (*values)[i].id();
      replacement[from] = to;
      body.values[from].node = -1;
      if (to >= first_new) {
        const std::string name = body.values[from].name;
        GraphAccess::rename(graph, from, str_cat(name, "_replaced"));
        GraphAccess::rename(graph, to, name);
      }
    }
  }
  body.origin = origin;
  for (auto& [name, id] : body.outputs) id = replaced(id);
  for (auto& [target, source] : body.assignments) source = replaced(source);
  return {};
}

std::vector<int> use_counts(const Graph& graph) {
  std::vector<int> uses(graph.value_count(), 0);
  const auto use = [&](ValueId id) {
    if (id != kNoValue) ++uses[id];
  };
  for (const Node& node : graph.nodes())
    for (const ValueId id : node.inputs) use(id);
  for (const auto& [name, id] : graph.outputs()) use(id);
  for (const auto& [target, source] : graph.assignments()) use(source);
  return uses;
}

std::vector<ValueId> updated_states(const Graph& graph) {
  std::vector<ValueId> states(graph.value_count(), kNoValue);
  for (const auto& [target, source] : graph.assignments()) {
    ValueId id = source;
    while (id != target && std::exchange(states[id], target) == kNoValue) {
      const int32_t index = graph.value_info(id).node;
      if (index < 0) break;
      const Node& node = graph.nodes()[index];
      if (!(node.op->def.traits & kInPlace)) break;
      // Outputs are in the order of the inputs that are given.
      auto left = std::find(node.outputs.begin(), node.outputs.end(), id) - node.outputs.begin();
      for (const ValueId input : node.inputs)
        if (input != kNoValue && left-- == 0) id = input;
    }
  }
  return states;
}

// Guards of a body are checked even if nothing reads its results.
static bool is_assertion(const Node& node) {
  return (node.op->def.traits & kAssertion) != 0 ||
         std::any_of(node.subgraphs.begin(), node.subgraphs.end(),
                     [](const auto& body) { return has_assertions(*body); });
}

std::vector<bool> changed_states(const Graph& graph) {
  std::vector<bool> changed(graph.states().size(), false);
  for (const auto& [target, source] : graph.assignments())
    changed[graph.value_info(target).state] = true;
  return changed;
}

int remove_dead_nodes(Graph& graph, bool keep_assertions) {
  GraphBody& body = GraphAccess::body(graph);
  std::vector<int> uses = use_counts(graph);
  std::vector<bool> dead(body.nodes.size(), false);
  // Symbols in the attributes of used nodes and in guards.
  std::vector<std::string> sizes = guarded_symbols(graph);
  int removed = 0;
  for (size_t i = body.nodes.size(); i-- > 0;) {
    const Node& node = body.nodes[i];
    bool used = keep_assertions && is_assertion(node);
    for (const ValueId id : node.outputs) used |= uses[id] > 0;
    if (!sizes.empty())
      for (const Dim& dim : GraphAccess::fresh_symbols(graph, node))
        used |= std::find(sizes.begin(), sizes.end(), dim.symbol()) != sizes.end();
    if (used) {
      collect_symbols(node, sizes);
      continue;
    }
    dead[i] = true;
    ++removed;
    for (const ValueId id : node.inputs)
      if (id != kNoValue) --uses[id];
  }
  if (removed == 0) return 0;
  std::vector<Node> old = std::exchange(body.nodes, {});
  for (size_t i = 0; i < old.size(); ++i) {
    if (!dead[i])
      GraphAccess::push_node(graph, std::move(old[i]));
    else
      for (const ValueId id : old[i].outputs) body.values[id].node = -1;
  }
  return removed;
}

void forget(Graph& graph, const std::vector<bool>& states) {
  GraphBody& body = GraphAccess::body(graph);
  std::vector<State> old_states = std::exchange(body.states, {});
  std::deque<ValueInfo> old_values = std::exchange(body.values, {});
  body.names.clear();
  std::vector<ValueId> now(old_values.size(), kNoValue);
  const auto keep = [&](ValueId& id) {
    now[id] = static_cast<ValueId>(body.values.size());
    body.names[old_values[id].name] = now[id];
    body.values.push_back(std::move(old_values[id]));
    id = now[id];
  };
  const auto rename = [&](ValueId& id) {
    if (id != kNoValue) id = now[id];
  };
  for (ValueId& id : body.inputs) keep(id);
  for (size_t i = 0; i < old_states.size(); ++i) {
    if (i < states.size() && states[i]) continue;
    keep(old_states[i].value);
    body.values.back().state = static_cast<int32_t>(body.states.size());
    body.states.push_back(std::move(old_states[i]));
  }
  for (Node& node : body.nodes) {
    for (ValueId& id : node.inputs) rename(id);
    for (ValueId& id : node.outputs) keep(id);
  }
  for (auto& [name, id] : body.outputs) rename(id);
  for (auto& [target, source] : body.assignments) {
    rename(target);
    rename(source);
  }
}

}  // namespace hg
