// SPDX-License-Identifier: Apache-2.0
// Turns outer values that control-flow bodies read and no run changes into constants of the body.
// The body then folds and packs them once instead of in every iteration.
#include <algorithm>

#include "lib/compile/passes.h"
#include "lib/graph/options.h"
#include "lib/graph/symbols.h"

namespace hg {
namespace {

// The elements of a constant or of a view of one; empty for other values.
TensorData constant_elements(const Graph& graph, const CompileContext& context, ValueId id) {
  if (id == kNoValue) return {};
  if (const TensorData* data = fixed_data(graph, context, id)) return *data;
  const ValueInfo& value = graph.value_info(id);
  if (value.node < 0 || !is_constant(value.type.shape)) return {};
  const Node& node = graph.nodes()[static_cast<size_t>(value.node)];
  if (node.op->def.view == nullptr || std::any_of(node.attrs.begin(), node.attrs.end(), has_symbol))
    return {};
  TensorData data = constant_elements(graph, context, node.inputs[0]);
  const Result<Sizes> sizes = evaluate(value.type.shape, Bindings());
  if (data.empty() || !sizes.ok()) return {};
  Tensor& tensor = data.tensor;
  ViewContext view(AttrReader(node.op, node.attrs), tensor.shape, tensor.strides, *sizes);
  if (!node.op->def.view(view)) return {};
  tensor = {tensor.as<std::byte>() + view.offset() * size_of(tensor.dtype), value.type.dtype,
            *sizes, view.out_strides()};
  return data;
}

void make_constant(Graph& graph, size_t input, const TensorData& data) {
  GraphBody& body = GraphAccess::body(graph);
  const ValueId id = body.inputs[input];
  ValueInfo& value = body.values[static_cast<size_t>(id)];
  body.inputs.erase(body.inputs.begin() + static_cast<int64_t>(input));
  value.state = static_cast<int32_t>(body.states.size());
  State& state = body.states.emplace_back();
  state.name = value.name;
  state.data = data;
  state.value = id;
}

}  // namespace

Status capture_constants(Graph& graph, const CompileContext& context) {
  if (saves_memory(*context.options)) return {};
  for (Node& node : GraphAccess::body(graph).nodes) {
    if ((node.op->def.traits & kControl) == 0) continue;
    // The condition and, for a loop, the values that each iteration replaces.
    const bool is_loop = (node.op->def.traits & kLoop) != 0;
    const size_t first = is_loop ? node.subgraphs.front()->outputs().size() : 1;
    std::vector<std::shared_ptr<Graph>> bodies;
    for (size_t i = node.inputs.size(); i-- > first;) {
      const TensorData data = constant_elements(graph, context, node.inputs[i]);
      if (data.empty() || !data.tensor.is_contiguous()) continue;
      if (bodies.empty())
        for (const auto& body : node.subgraphs) bodies.push_back(std::make_shared<Graph>(*body));
      for (const auto& body : bodies) make_constant(*body, i - 1, data);
      node.inputs.erase(node.inputs.begin() + static_cast<int64_t>(i));
    }
    if (!bodies.empty()) node.subgraphs = std::move(bodies);
  }
  return {};
}

}  // namespace hg
