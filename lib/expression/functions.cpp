// SPDX-License-Identifier: Apache-2.0
// Finds the properties of ops by calling them in a graph of their own.
#include "lib/expression/functions.h"

#include "lib/graph/access.h"

namespace hg {
namespace {

constexpr int32_t kMostNodes = 256;  // of an expansion

// Calls the op with tensors of one dtype and shape. A condition is bool.
Value try_call(Graph& graph, const Op& op, const NamedAttrs& attrs, DType dtype) {
  std::vector<Value> inputs;
  for (const Signature::Input& input : op.signature.inputs)
    inputs.push_back(graph.input(input.name, input.name == "condition" ? boolean : dtype, {2, 3}));
  return graph.call(op.name(), inputs, attrs);
}

}  // namespace

const Op* function_op(const Registry& registry, std::string_view name) {
  if (name == "min") name = "minimum";
  if (name == "max") name = "maximum";
  if (name == "select") name = "where";
  return registry.find(name);
}

bool is_function_of_elements(const Registry& registry, const Op& op, const NamedAttrs& attrs) {
  constexpr uint32_t kOthers = kRandom | kDataDependent | kControl | kComplex | kAssertion;
  if (op.def.traits & kElementwise) return true;
  if (op.def.expand == nullptr || (op.def.traits & kOthers) || op.signature.outputs.size() != 1)
    return false;
  Graph graph(registry);
  DType dtype = f32;
  for (const DType other : {i64, boolean})
    if (!takes(registry, op, attrs, dtype)) dtype = other;
  const Value y = try_call(graph, op, attrs, dtype);
  if (!graph.status().ok() || !(y.shape() == Shape{2, 3})) return false;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {  // the list grows
    const Node node = graph.nodes()[i];
    if (node.op->def.traits & kElementwise) continue;
    if (node.op->def.expand == nullptr || graph.nodes().size() > kMostNodes) return false;
    if (!GraphAccess::expand(graph, node).ok()) return false;
  }
  return true;
}

bool takes(const Registry& registry, const Op& op, const NamedAttrs& attrs, DType dtype) {
  Graph graph(registry);
  try_call(graph, op, attrs, dtype);
  return graph.status().ok();
}

}  // namespace hg
