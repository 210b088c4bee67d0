// SPDX-License-Identifier: Apache-2.0
// A training step updates states in place, after all readers of the old contents. This pass runs
// each update as early as possible, and right before it the nodes that only the update needs. Only
// one weight gradient is then alive at a time.
#include <algorithm>

#include "lib/compile/passes.h"
#include "lib/graph/access.h"

namespace hg {
namespace {

class Order {
 public:
  explicit Order(Graph& graph)
      : graph_(graph), nodes_(std::exchange(GraphAccess::body(graph).nodes, {})) {
    const GraphBody& body = GraphAccess::body(graph);
    root_.assign(body.values.size(), kNoValue);
    ready_.assign(body.values.size(), true);
    done_.assign(nodes_.size(), false);
    left_.assign(body.values.size(), 0);
    for (const State& state : body.states) root_[index(state.value)] = state.value;
    for (const Node& node : nodes_) {
      for (const ValueId id : node.outputs) ready_[index(id)] = false;
      if (node.op->def.view != nullptr) root_[index(node.outputs[0])] = root_of(node.inputs[0]);
      count(node, 1);
    }
    find_lone();
  }

  void run() {
    waiting_.resize(root_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!is_update(nodes_[i])) continue;
      for (const size_t k : chain(i))
        for (const ValueId id : nodes_[k].inputs)
          if (id != kNoValue)
            waiting_[index(root_of(id) == kNoValue ? id : root_of(id))].push_back(i);
    }
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (!lone_[i] && !is_update(nodes_[i])) emit_when_ready(i);
    // If states wait for each other, keeps the order of the graph.
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (!lone_[i] && !done_[i]) emit_when_ready(i, true);
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  static bool is_update(const Node& node) { return (node.op->def.traits & kInPlace) != 0; }
  ValueId root_of(ValueId id) const { return id == kNoValue ? kNoValue : root_[index(id)]; }

  void count(const Node& node, int by) {
    if (is_update(node)) return;
    for (const ValueId id : node.inputs)
      if (const ValueId root = root_of(id); root != kNoValue) left_[index(root)] += by;
  }

  // Nodes with a single reader, which is an update or another such node.
  void find_lone() {
    constexpr size_t kNobody = ~size_t{0};
    std::vector<int> uses(root_.size(), 0);
    std::vector<size_t> reader(root_.size(), kNobody);
    for (const auto& [name, id] : graph_.outputs()) uses[index(id)] += 2;
    for (const auto& [target, source] : graph_.assignments()) uses[index(source)] += 2;
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (const ValueId id : nodes_[i].inputs) {
        if (id == kNoValue) continue;
        ++uses[index(id)];
        reader[index(id)] = i;
      }
    lone_.assign(nodes_.size(), false);
    maker_.assign(root_.size(), kNobody);
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node& node = nodes_[i];
      for (const ValueId id : node.outputs) maker_[index(id)] = i;
      if (node.op->def.traits & (kInPlace | kControl | kDataDependent | kRandom)) continue;
      int all = 0;
      size_t only = kNobody;
      for (const ValueId id : node.outputs) {
        all += uses[index(id)];
        if (uses[index(id)] > 0) only = reader[index(id)];
      }
      lone_[i] = all == 1 && only != kNobody && (lone_[only] || is_update(nodes_[only]));
    }
  }

  // The nodes that only this node needs, in order, ending with the node itself.
  std::vector<size_t> chain(size_t i) const {
    std::vector<size_t> all = {i};
    for (size_t k = 0; k < all.size(); ++k)
      for (const ValueId id : nodes_[all[k]].inputs)
        if (id != kNoValue && !ready_[index(id)] && maker_[index(id)] < nodes_.size() &&
            lone_[maker_[index(id)]])
          all.push_back(maker_[index(id)]);
    std::sort(all.begin(), all.end());
    return all;
  }

  bool can_run(size_t i) {
    const std::vector<size_t> all = chain(i);
    for (const size_t k : all)
      for (const ValueId id : nodes_[k].inputs)
        if (id != kNoValue && !ready_[index(id)] && !lone_[maker_[index(id)]]) return false;
    if (!is_update(nodes_[i])) return true;
    for (const size_t k : all) count(nodes_[k], -1);
    bool is_read = false;
    for (const ValueId id : nodes_[i].inputs)
      if (const ValueId root = root_of(id); root != kNoValue) is_read |= left_[index(root)] > 0;
    for (const size_t k : all) count(nodes_[k], 1);
    return !is_read;
  }

  // Adds the node with its chain, then the updates that waited for the values it makes or reads.
  void emit_when_ready(size_t first, bool at_once = false) {
    std::vector<size_t> next = {first};
    for (size_t at = 0; at < next.size(); ++at) {
      const size_t i = next[at];
      if (done_[i] || !(can_run(i) || (at_once && at == 0))) continue;
      for (const size_t k : chain(i)) {
        done_[k] = true;
        count(nodes_[k], -1);
        const auto add = [&](ValueId id) {
          if (id != kNoValue)
            next.insert(next.end(), waiting_[index(id)].begin(), waiting_[index(id)].end());
        };
        for (const ValueId id : nodes_[k].outputs) {
          ready_[index(id)] = true;
          add(id);
        }
        for (const ValueId id : nodes_[k].inputs) add(root_of(id));
        GraphAccess::push_node(graph_, std::move(nodes_[k]));
      }
    }
  }

  Graph& graph_;
  std::vector<Node> nodes_;
  std::vector<ValueId> root_;  // the state that a value is or views
  std::vector<bool> ready_;
  std::vector<int> left_;                     // remaining readers of a state, excluding updates
  std::vector<bool> lone_, done_;             // by node
  std::vector<size_t> maker_;                 // by value
  std::vector<std::vector<size_t>> waiting_;  // by value or state: updates that wait for it
};

}  // namespace

Status update_early(Graph& graph, const CompileContext&) {
  const bool updates = std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& n) {
    return (n.op->def.traits & kInPlace) != 0;
  });
  if (updates) Order(graph).run();
  return {};
}

}  // namespace hg
