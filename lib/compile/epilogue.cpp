// SPDX-License-Identifier: Apache-2.0
// Fuses residual additions and activations into conv, linear and quantized_linear, which apply them
// when they store their result.
#include <unordered_map>

#include "lib/compile/passes.h"
#include "lib/graph/activation.h"

namespace hg {
namespace {

class EpilogueFuser {
 public:
  explicit EpilogueFuser(Graph& graph) : graph_(graph), uses_(use_counts(graph)) {}

  Status run() {
    return rewrite(graph_, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      Value fused = node.op->name() == "add" ? fuse_residual(node) : fuse_activation(node);
      if (!fused) return std::optional<std::vector<Value>>();
      fused_uses_[fused.id()] = uses(node.outputs[0]);
      return std::optional(std::vector<Value>{fused});
    });
  }

 private:
  int uses(ValueId id) const {
    const auto found = fused_uses_.find(id);
    if (found != fused_uses_.end()) return found->second;
    return static_cast<size_t>(id) < uses_.size() ? uses_[id] : 0;
  }

  // Ops whose signature has a residual and an activation, applied in this order.
  static bool has_epilogue(const Op& op) {
    return op.signature.find_input("residual") >= 0 &&
           op.signature.find_attribute("activation") >= 0;
  }
  static size_t residual_of(const Node& node) {
    return static_cast<size_t>(node.op->signature.find_input("residual"));
  }
  static size_t index_of(const Node& node, std::string_view attr) {
    return static_cast<size_t>(node.op->signature.find_attribute(attr));
  }

  // The product that computes `id` for a single reader and has no activation yet, or null.
  const Node* producer(ValueId id) const {
    const int32_t index = graph_.value_info(id).node;
    if (index < 0 || uses(id) != 1) return nullptr;
    const Node& node = graph_.nodes()[index];
    if (!has_epilogue(*node.op)) return nullptr;
    if (!is_float(graph_.value_info(id).type.dtype)) return nullptr;
    return node.attrs[index_of(node, "activation")] == Attr("none") ? &node : nullptr;
  }

  Value emit(const Node& from, ValueId residual, Activation activation) {
    std::vector<Value> inputs;
    for (const ValueId id : from.inputs)
      inputs.push_back(id == kNoValue ? Value() : graph_.value(id));
    inputs[residual_of(from)] = residual == kNoValue ? Value() : graph_.value(residual);
    NamedAttrs attrs = named_attrs(from);
    attrs[index_of(from, "activation")].value = Attr(std::string(to_string(activation)));
    graph_.set_origin(from.origin);
    return graph_.call(from.op->name(), inputs, attrs);
  }

  Value fuse_residual(const Node& add) {
    // Fuses into the later of two products, because the other operand is known when it runs.
    const Node* best = nullptr;
    ValueId residual = kNoValue;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId product = add.inputs[i], other = add.inputs[1 - i];
      const Node* node = producer(product);
      if (node == nullptr || node->inputs[residual_of(*node)] != kNoValue || product == other)
        continue;
      if (!(graph_.value_info(product).type == graph_.value_info(other).type)) continue;
      if (best != nullptr &&
          graph_.value_info(product).node < graph_.value_info(best->outputs[0]).node)
        continue;
      best = node;
      residual = other;
    }
    if (best == nullptr) return Value();
    const Node from = *best;
    return emit(from, residual, Activation::none);
  }

  Value fuse_activation(const Node& node) {
    const Activation activation = activation_of(node);
    if (activation == Activation::none) return Value();
    const Node* found = producer(node.inputs[0]);
    if (found == nullptr) return Value();
    const Node from = *found;
    return emit(from, from.inputs[residual_of(from)], activation);
  }

  Graph& graph_;
  std::vector<int> uses_;
  std::unordered_map<ValueId, int> fused_uses_;
};

}  // namespace

Status fuse_epilogues(Graph& graph, const CompileContext&) { return EpilogueFuser(graph).run(); }

}  // namespace hg
