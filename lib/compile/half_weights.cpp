// SPDX-License-Identifier: Apache-2.0
// Lets products and embeddings of f32 read constant weights of f16 or bf16 instead of a copy that a
// cast widens in each run. Embeddings widen the rows that they select.
#include <algorithm>

#include "lib/compile/passes.h"

namespace hg {
namespace {

using Replacement = std::optional<std::vector<Value>>;

class HalfReader {
 public:
  HalfReader(Graph& graph, const CompileContext& context) : graph_(graph), context_(context) {
    const auto& mutable_states = context.mutable_states;
    in_place_ =
        context.options->low_memory ||
        std::find(mutable_states.begin(), mutable_states.end(), true) != mutable_states.end();
  }

  Result<Replacement> replace(const Node& found) {
    const std::string_view op = found.op->name();
    const bool is_matmul = op == "matmul", is_linear = op == "linear",
               is_grouped = op == "grouped_mm";
    const bool is_rows = op == "embedding" || op == "index_select";
    if (!is_matmul && !is_linear && !is_grouped && !is_rows) return Replacement();
    const Node node = found;  // a copy: adding nodes moves the original
    graph_.set_origin(node.origin);
    const size_t at = is_rows ? 0 : 1;
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs)
      inputs.push_back(id == kNoValue ? Value() : graph_.value(id));
    const int rank = inputs[at].rank(), least = is_matmul ? 2 : 1;
    if (inputs[0].rank() < least || (is_grouped ? rank != 3 : rank != 2)) return Replacement();
    if (op == "index_select" && !(AttrReader(node.op, node.attrs).integer("dim") == Dim(0)))
      return Replacement();
    inputs[at] = half(node.inputs[at], !is_rows);
    if (!inputs[at]) return Replacement();
    const NamedAttrs attrs = named_attrs(node);
    if (is_rows)
      return Replacement({graph_.call("cast", {graph_.call(op, inputs, attrs)}, {{"dtype", f32}})});
    if (is_matmul) inputs[1] = graph_.call("permute", {inputs[1]}, {{"dims", {1, 0}}});
    return Replacement(
        {graph_.call(is_grouped ? "mixed_grouped_mm" : "mixed_linear", inputs, attrs)});
  }

 private:
  // What a cast widens to this value: a constant, or if `permuted` its permutation.
  Value half(ValueId id, bool permuted) {
    if (graph_.value_info(id).type.dtype != f32) return {};
    std::vector<NamedAttrs> permutes;
    bool is_cast = false;
    for (int32_t i; (i = graph_.value_info(id).node) >= 0;) {
      const Node& node = graph_.nodes()[static_cast<size_t>(i)];
      if (node.op->name() == "permute" && permuted)
        permutes.push_back(named_attrs(node));
      else if (node.op->name() == "cast" && !is_cast)
        is_cast = true;
      else
        return {};
      id = node.inputs[0];
    }
    const TensorData* const data = fixed_data(graph_, context_, id);
    if (!is_cast || data == nullptr) return {};
    const Tensor& t = data->tensor;
    if (t.dtype != f16 && t.dtype != bf16) return {};
    // What `fold` widens is packed once, unless the session reads weights in place.
    if (!in_place_ && t.count() * size_of(f32) <= kMostFolded) return {};
    Value value = graph_.value(id);
    for (size_t i = permutes.size(); i-- > 0;) value = graph_.call("permute", {value}, permutes[i]);
    return value;
  }

  Graph& graph_;
  const CompileContext& context_;
  bool in_place_ = false;
};

}  // namespace

Status read_half_weights(Graph& graph, const CompileContext& context) {
  if (context.options->device != Device::cpu) return {};
  HalfReader reader(graph, context);
  HG_TRY(rewrite(graph, [&](const Node& node) { return reader.replace(node); }));
  remove_dead_nodes(graph);
  return {};
}

}  // namespace hg
