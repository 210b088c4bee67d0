// SPDX-License-Identifier: Apache-2.0
// Computes equal nodes once. Merges equal small constants first.
#include <unordered_map>

#include "lib/compile/passes.h"

namespace hg {
namespace {

constexpr int64_t kSmallConstant = 64;  // bytes

void merge_constants(Graph& graph) {
  GraphBody& body = GraphAccess::body(graph);
  std::unordered_map<std::string, ValueId> first;
  std::unordered_map<ValueId, ValueId> same;
  for (const State& state : body.states) {
    const Tensor& tensor = state.data.tensor;
    if (state.kind != State::Kind::constant || tensor.bytes() > kSmallConstant) continue;
    std::string key = str_cat(tensor.dtype, tensor.shape, ":");
    key.append(tensor.as<const char>(), static_cast<size_t>(tensor.bytes()));
    const auto [entry, is_new] = first.try_emplace(std::move(key), state.value);
    if (!is_new) same[state.value] = entry->second;
  }
  for (Node& node : body.nodes)
    for (ValueId& id : node.inputs)
      if (const auto found = same.find(id); found != same.end()) id = found->second;
}

std::string key_of(const Node& node) {
  std::string key(node.op->name());
  for (const ValueId id : node.inputs) key += str_cat(" ", id);
  for (const Attr& attr : node.attrs) key += str_cat(" ", attr);
  return key;
}

}  // namespace

Status merge_common(Graph& graph, const CompileContext&) {
  merge_constants(graph);
  std::unordered_map<std::string, std::vector<ValueId>> known;
  HG_TRY(rewrite(graph, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
    if (node.op->def.traits & (kRandom | kDataDependent | kControl))
      return std::optional<std::vector<Value>>();
    const auto [entry, is_new] = known.try_emplace(key_of(node), node.outputs);
    if (is_new) return std::optional<std::vector<Value>>();
    std::vector<Value> values;
    for (const ValueId id : entry->second) values.push_back(graph.value(id));
    return std::optional(std::move(values));
  }));
  return {};
}

}  // namespace hg
