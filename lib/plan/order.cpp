// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/order.h"

#include <algorithm>

#include "lib/graph/rewrite.h"

namespace hg {
namespace {

constexpr size_t kMostNodes = 20000;  // beyond this, the greedy order takes too long

// Which nodes of a part read which results. A reader of a view reads the memory of its root.
struct Links {
  explicit Links(const Liveness& liveness) : graph(liveness.graph()) {
    const NodeOrder& base = liveness.plan().schedule;
    needs.resize(graph.nodes().size());
    feeds.resize(graph.nodes().size());
    std::vector<char> here(graph.nodes().size(), 0);
    for (const int32_t index : base) {
      here[index] = 1;
      for (const ValueId id : graph.nodes()[index].inputs) {
        const int32_t from = id == kNoValue ? -1 : graph.value_info(id).node;
        if (from < 0 || !here[from]) continue;
        auto& list = needs[index];
        if (std::find(list.begin(), list.end(), from) != list.end()) continue;
        list.push_back(from);
        feeds[from].push_back(index);
      }
    }
    // An in-place update of a state runs after all readers of the old contents, as in the base
    // order.
    std::vector<std::vector<int32_t>> readers(graph.states().size());
    std::vector<int32_t> state_of(graph.value_count(), -1);
    for (size_t i = 0; i < graph.states().size(); ++i)
      state_of[graph.states()[i].value] = static_cast<int32_t>(i);
    const std::vector<ValueId> updated = updated_states(graph);
    for (const int32_t index : base) {
      const Node& node = graph.nodes()[index];
      for (const ValueId id : node.outputs) {
        const ValueId target = updated[id];
        if (target == kNoValue) continue;
        const int32_t state = graph.value_info(target).state;
        for (const int32_t reader : readers[state]) {
          if (reader == index) continue;
          needs[index].push_back(reader);
          feeds[reader].push_back(index);
        }
      }
      for (const ValueId id : node.inputs) {
        if (id == kNoValue || state_of[id] < 0) continue;
        const int32_t state = state_of[id];
        readers[state].push_back(index);
        if (node.op->def.view != nullptr) state_of[node.outputs[0]] = state;
      }
    }
  }

  const Graph& graph;
  std::vector<std::vector<int32_t>> needs, feeds;  // by node
};

// Greedy: always the node that adds the fewest live bytes; ties follow the base order.
NodeOrder greedy(const Liveness& liveness, const Links& links) {
  const Graph& graph = liveness.graph();
  const NodeOrder& base = liveness.plan().schedule;
  std::vector<int> waits(graph.nodes().size(), 0);
  std::vector<int> readers(graph.value_count(), 0);  // of roots
  const auto each_root = [&](int32_t index, auto visit) {
    const Node& node = graph.nodes()[index];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId root = node.inputs[i] == kNoValue ? kNoValue : liveness.root(node.inputs[i]);
      bool first = root != kNoValue;
      for (size_t j = 0; first && j < i; ++j)
        first = node.inputs[j] == kNoValue || liveness.root(node.inputs[j]) != root;
      if (first) visit(root);
    }
  };
  const auto keep = [&](ValueId id) {
    if (liveness.root(id) != kNoValue) ++readers[liveness.root(id)];
  };
  for (const auto& [name, id] : graph.outputs()) keep(id);
  for (const auto& [target, source] : graph.assignments()) keep(source);
  std::vector<int32_t> ready;
  for (const int32_t index : base) {
    waits[index] = static_cast<int>(links.needs[index].size());
    if (waits[index] == 0) ready.push_back(index);
    each_root(index, [&](ValueId root) { ++readers[root]; });
  }
  const auto growth = [&](int32_t index) {
    int64_t bytes = 0;
    if (!liveness.is_view(index))
      for (const ValueId id : graph.nodes()[index].outputs) bytes += liveness.bytes(id);
    each_root(index, [&](ValueId root) {
      if (readers[root] == 1) bytes -= liveness.bytes(root);
    });
    return bytes;
  };
  NodeOrder order;
  while (!ready.empty()) {
    size_t best = 0;
    int64_t least = 0;
    for (size_t i = 0; i < ready.size(); ++i) {
      const int64_t bytes = growth(ready[i]);
      if (i == 0 || bytes < least || (bytes == least && ready[i] < ready[best])) {
        best = i;
        least = bytes;
      }
    }
    const int32_t index = ready[best];
    ready.erase(ready.begin() + static_cast<int64_t>(best));
    order.push_back(index);
    each_root(index, [&](ValueId root) { --readers[root]; });
    for (const int32_t next : links.feeds[index])
      if (--waits[next] == 0) ready.push_back(next);
  }
  return order;
}

// Each node as late as possible: visits the sinks in order, each after its dependencies.
NodeOrder late(const Liveness& liveness, const Links& links) {
  const NodeOrder& base = liveness.plan().schedule;
  std::vector<char> done(liveness.graph().nodes().size(), 0);
  NodeOrder order;
  std::vector<std::pair<int32_t, size_t>> stack;  // node, its next dependency
  for (const int32_t sink : base) {
    if (!links.feeds[sink].empty()) continue;
    stack.emplace_back(sink, 0);
    while (!stack.empty()) {
      const auto [index, at] = stack.back();
      const auto& needs = links.needs[index];
      if (done[index] || at == needs.size()) {
        if (!done[index]) order.push_back(index);
        done[index] = 1;
        stack.pop_back();
        continue;
      }
      ++stack.back().second;
      if (!done[needs[at]]) stack.emplace_back(needs[at], 0);
    }
  }
  return order;
}

// The base order, but each sink runs as soon as its inputs exist, and a node whose results only one
// node reads runs directly before that node.
NodeOrder early_sinks(const Liveness& liveness, const Links& links) {
  const NodeOrder& base = liveness.plan().schedule;
  std::vector<int> waits(liveness.graph().nodes().size(), 0);
  for (const int32_t index : base) waits[index] = static_cast<int>(links.needs[index].size());
  std::vector<char> done(liveness.graph().nodes().size(), 0);
  NodeOrder order;
  std::vector<int32_t> stack;
  for (const int32_t first : base) {
    stack.push_back(first);
    while (!stack.empty()) {
      const int32_t index = stack.back();
      stack.pop_back();
      if (std::exchange(done[index], 1)) continue;
      order.push_back(index);
      for (const int32_t next : links.feeds[index])
        if (--waits[next] == 0 && links.feeds[next].empty()) stack.push_back(next);
    }
  }
  return order;
}

}  // namespace

std::vector<NodeOrder> other_orders(const Liveness& liveness) {
  const NodeOrder& base = liveness.plan().schedule;
  const Links links(liveness);
  std::vector<NodeOrder> orders;
  const auto add = [&](NodeOrder order) {
    if (order.size() == base.size() && order != base) orders.push_back(std::move(order));
  };
  add(early_sinks(liveness, links));
  add(late(liveness, links));
  if (base.size() <= kMostNodes) add(greedy(liveness, links));
  return orders;
}

}  // namespace hg
