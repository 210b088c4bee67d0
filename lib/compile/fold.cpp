// SPDX-License-Identifier: Apache-2.0
// Computes nodes that depend only on constants. Views of constants need no memory and stay.
#include <algorithm>
#include <limits>

#include "lib/compile/passes.h"
#include "lib/graph/options.h"
#include "lib/graph/symbols.h"

namespace hg {
namespace {

int64_t bytes_of(const TensorType& type) {
  const Result<Sizes> sizes = evaluate(type.shape, Bindings());
  return sizes.ok() ? sizes->count() * size_of(type.dtype) : std::numeric_limits<int64_t>::max();
}

class Folder {
 public:
  Folder(Graph& graph, const CompileContext& context)
      : graph_(graph), context_(context), foldable_(static_cast<size_t>(graph.value_count())) {}

  Status run() {
    for (const Node& node : graph_.nodes())
      if (can_fold(node))
        for (const ValueId id : node.outputs) foldable_[id] = true;
    find_roots();
    if (roots_.empty()) return {};

    HG_TRY_ASSIGN(std::vector<TensorData> results, context_.evaluate(graph_of_roots(), context_));
    std::vector<Value> replacement(graph_.value_count());
    for (size_t i = 0; i < roots_.size(); ++i)
      replacement[roots_[i]] =
          graph_.constant(std::move(results[i]), graph_.value_info(roots_[i]).name + "_folded");
    HG_TRY(graph_.take_status());
    HG_TRY(rewrite(graph_, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      std::vector<Value> values;
      for (const ValueId id : node.outputs)
        if (replacement[id]) values.push_back(replacement[id]);
      // A node of which only some outputs are used keeps the unused ones, which are then dead.
      if (values.size() != node.outputs.size()) return std::optional<std::vector<Value>>();
      return std::optional(std::move(values));
    }));
    remove_dead_nodes(graph_);
    return {};
  }

 private:
  bool is_fixed(ValueId id) const {
    return id == kNoValue || foldable_[id] || fixed_data(graph_, context_, id) != nullptr;
  }

  bool can_fold(const Node& node) const {
    if (node.op->def.traits & (kRandom | kDataDependent | kControl | kAssertion)) return false;
    int64_t in = 0, out = 0;
    for (const ValueId id : node.inputs) {
      if (!is_fixed(id)) return false;
      if (id != kNoValue) in += bytes_of(graph_.value_info(id).type);
    }
    if (std::any_of(node.attrs.begin(), node.attrs.end(), has_symbol)) return false;
    for (const ValueId id : node.outputs) {
      const TensorType& type = graph_.value_info(id).type;
      if (!is_constant(type.shape)) return false;
      out += bytes_of(type);
    }
    return node.op->def.view != nullptr || out <= std::max(in, kMostFolded) || widens_bytes(node);
  }

  // 8-bit weights, or those unpacked to 8 bits, that kernels read and pack as floats.
  bool widens_bytes(const Node& node) const {
    if (node.op->name() != "cast" || saves_memory(*context_.options)) return false;
    const TensorType& type = graph_.value_info(node.inputs[0]).type;
    return size_of(type.dtype) == 1 && is_float(graph_.value_info(node.outputs[0]).type.dtype) &&
           bytes_of(type) <= bytes_of(graph_.value_info(seen_by(node.inputs[0])).type);
  }

  // The value whose memory the view shares.
  ValueId seen_by(ValueId id) const {
    for (int32_t i = graph_.value_info(id).node;
         i >= 0 && graph_.nodes()[static_cast<size_t>(i)].op->def.view != nullptr;
         i = graph_.value_info(id).node)
      id = graph_.nodes()[static_cast<size_t>(i)].inputs[0];
    return id;
  }

  // The values that other nodes read, directly or through views.
  void find_roots() {
    std::vector<bool> wanted(foldable_.size(), false);
    const auto want = [&](ValueId id) {
      if (id != kNoValue && foldable_[id]) wanted[id] = true;
    };
    for (const auto& [name, id] : graph_.outputs()) want(id);
    for (const auto& [target, source] : graph_.assignments()) want(source);
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      const Node& node = graph_.nodes()[i];
      const bool folds = foldable_[node.outputs[0]];
      const bool is_view = node.op->def.view != nullptr;
      if (folds && !is_view) continue;
      if (folds && !wanted[node.outputs[0]]) continue;
      for (const ValueId id : node.inputs) want(id);
    }
    for (const Node& node : graph_.nodes()) {
      if (node.op->def.view != nullptr || node.outputs.size() != 1) continue;
      if (wanted[node.outputs[0]]) roots_.push_back(node.outputs[0]);
    }
  }

  // Only the nodes that the roots need: a copy of the model's graph would take longer than most
  // constants.
  Graph graph_of_roots() const {
    std::vector<bool> needed(foldable_.size(), false);
    for (const ValueId id : roots_) needed[id] = true;
    const auto is_used = [&](const Node& node) {
      return std::any_of(node.outputs.begin(), node.outputs.end(),
                         [&](ValueId id) { return needed[id]; });
    };
    const std::vector<Node>& nodes = graph_.nodes();
    for (size_t i = nodes.size(); i-- > 0;)
      if (is_used(nodes[i]))
        for (const ValueId id : nodes[i].inputs)
          if (id != kNoValue) needed[id] = true;
    Graph made(graph_.registry());
    std::vector<ValueId> now(foldable_.size(), kNoValue);
    const auto add = [&](ValueId id) {
      if (id == kNoValue || now[id] != kNoValue) return;
      const ValueInfo& value = graph_.value_info(id);
      now[id] =
          value.state < 0
              ? GraphAccess::add_value(made, value.type, value.name)
              : made.constant(graph_.states()[static_cast<size_t>(value.state)].data, value.name)
                    .id();
    };
    for (const Node& node : nodes) {
      if (!is_used(node)) continue;
      Node copy = node;
      for (auto* ids : {&copy.inputs, &copy.outputs})
        for (ValueId& id : *ids) {
          add(id);
          if (id != kNoValue) id = now[id];
        }
      GraphAccess::push_node(made, std::move(copy));
    }
    for (const ValueId id : roots_) made.output("", made.value(now[id]));
    return made;
  }

  Graph& graph_;
  const CompileContext& context_;
  std::vector<bool> foldable_;
  std::vector<ValueId> roots_;
};

}  // namespace

Status fold_constants(Graph& graph, const CompileContext& context) {
  return Folder(graph, context).run();
}

}  // namespace hg
