// SPDX-License-Identifier: Apache-2.0
#include "lib/adapter/layers.h"

#include <algorithm>

#include "lib/graph/access.h"
#include "lib/graph/draws.h"
#include "lib/graph/name_pattern.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/state_names.h"

namespace hg {
namespace {

constexpr std::string_view kWeight = ".weight";

// For each value: whether it depends on states alone, none of which a run changes.
std::vector<bool> fixed_values(const Graph& graph) {
  std::vector<bool> fixed(static_cast<size_t>(graph.value_count()), false);
  const std::vector<bool> changed = changed_states(graph);
  for (size_t i = 0; i < graph.states().size(); ++i)
    fixed[static_cast<size_t>(graph.states()[i].value)] = !changed[i];
  for (const Node& node : graph.nodes()) {
    const bool is_fixed = node.subgraphs.empty() && !node.inputs.empty() && !draws(node) &&
                          std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                            return id == kNoValue || fixed[static_cast<size_t>(id)];
                          });
    for (const ValueId id : node.outputs) fixed[static_cast<size_t>(id)] = is_fixed;
  }
  return fixed;
}

const Node* producer(const Graph& graph, ValueId id) {
  const int32_t node = graph.value_info(id).node;
  return node < 0 ? nullptr : &graph.nodes()[static_cast<size_t>(node)];
}

bool is_transposition(const Node& node) {
  if (node.op->name() != "permute") return false;
  const std::span<const Dim> dims = AttrReader(node.op, node.attrs).integers("dims");
  return dims.size() == 2 && (dims[0] == Dim(1) || dims[0] == Dim(-1));
}

// Finds the state behind a weight that depends on states alone. The first input of each node is
// what the others scale, shift or shape.
bool look_behind(const Graph& graph, Adaptable& layer) {
  for (const Node* node; (node = producer(graph, layer.base)) != nullptr;) {
    const bool turns = is_transposition(*node);
    if (!turns &&
        (node->op->name() != "cast" || !is_float(graph.value_info(node->inputs[0]).type.dtype)))
      break;
    layer.is_transposed ^= turns;
    layer.views.insert(layer.views.begin(), static_cast<size_t>(graph.value_info(layer.base).node));
    layer.base = node->inputs[0];
  }
  ValueId id = layer.base;
  for (const Node* node; (node = producer(graph, id)) != nullptr;) {
    id = node->inputs[0];
    if (id == kNoValue) return false;
  }
  layer.state = graph.value_info(id).state;
  return layer.state >= 0;
}

// Whether an adapter can be beside the node, apart from its weight.
bool is_product(const Graph& graph, const Node& node) {
  const std::string_view op = node.op->name();
  if (op == "linear") return true;
  const TensorType& weight = graph.value_info(node.inputs[1]).type;
  if (op == "matmul") return weight.rank() == 2;
  const AttrReader attrs(node.op, node.attrs);
  return op == "conv" && !attrs.flag("transposed") && attrs.integer("groups") == Dim(1);
}

}  // namespace

Sizes Adaptable::a_shape(int64_t rank) const {
  if (is_matmul) return {rank, weight[0]};
  Sizes shape = weight;
  shape[0] = rank;
  return shape;
}

Sizes Adaptable::b_shape(int64_t rank) const {
  if (is_matmul) return {weight[1], rank};
  Sizes shape(weight.rank(), 1);
  shape[0] = weight[0];
  shape[1] = rank;
  return shape;
}

std::vector<Adaptable> find_layers(const Graph& graph) {
  std::vector<Adaptable> layers;
  const std::vector<bool> fixed = fixed_values(graph);
  for (const Node& node : graph.nodes()) {
    constexpr std::string_view kOps[] = {"linear", "matmul", "conv"};
    if (std::find(std::begin(kOps), std::end(kOps), node.op->name()) == std::end(kOps)) continue;
    if (!is_product(graph, node) || !fixed[static_cast<size_t>(node.inputs[1])] ||
        fixed[static_cast<size_t>(node.inputs[0])])
      continue;
    const TensorType& weight = graph.value_info(node.inputs[1]).type;
    const Result<Sizes> sizes = evaluate(weight.shape, Bindings());
    if (!is_float(weight.dtype) || !sizes.ok()) continue;
    Adaptable layer;
    layer.result = node.outputs[0];
    layer.module = node.origin.module;
    layer.base = node.inputs[1];
    layer.is_matmul = node.op->name() == "matmul";
    layer.weight = *sizes;
    layer.dtype = weight.dtype;
    if (look_behind(graph, layer)) layers.push_back(std::move(layer));
  }
  return layers;
}

std::vector<std::string> layer_names(const State& state, std::string_view module) {
  std::vector<std::string> names;
  for (std::string_view name : names_of(state)) {
    if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
    names.emplace_back(name);
  }
  if (const auto own = std::find(names.begin(), names.end(), module); own != names.end())
    std::rotate(names.begin(), own, own + 1);
  return names;
}

bool matches_layer(std::string_view pattern, std::string_view layer) {
  return matches(pattern, layer) || matches(str_cat("*.", pattern), layer);
}

std::string other_reader(const Graph& graph, std::string_view pattern) {
  const std::vector<bool> fixed = fixed_values(graph);
  for (const State& state : graph.states()) {
    const std::vector<std::string> names = layer_names(state);
    const auto name = std::find_if(names.begin(), names.end(), [&](const std::string& each) {
      return matches_layer(pattern, each);
    });
    if (name == names.end()) continue;
    std::vector<bool> from(fixed.size(), false);
    from[static_cast<size_t>(state.value)] = true;
    for (const Node& node : graph.nodes()) {
      const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
        return id != kNoValue && from[static_cast<size_t>(id)];
      });
      if (!reads) continue;
      if (!fixed[static_cast<size_t>(node.outputs[0])])
        return str_cat("'", names_of(state)[static_cast<size_t>(name - names.begin())],
                       "' is read by ", label(graph, node));
      for (const ValueId id : node.outputs) from[static_cast<size_t>(id)] = true;
    }
  }
  return "";
}

}  // namespace hg
