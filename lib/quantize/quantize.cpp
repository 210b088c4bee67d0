// SPDX-License-Identifier: Apache-2.0
// Quantizes weights, and adds the nodes that dequantize them before their first reader.
#include "hg/quantize.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/graph/training_state.h"
#include "lib/graph/word_table.h"
#include "lib/quantize/weights.h"

namespace hg {

HG_WORDS(Rounding, parse_rounding, "rounding", "nearest", "least_squares", "second_order")

namespace {

// The tensors with each name, in the graph and its bodies.
using Names = std::map<std::string, std::set<const void*>>;
void collect_names(const Graph& graph, Names& names) {
  for (const State& state : graph.states()) names[state.name].insert(state.data.tensor.data);
  for (const Node& node : graph.nodes())
    for (const auto& body : node.subgraphs) collect_names(*body, names);
}

// The name, or a similar one that no state of the model has: errors are stored by name.
std::string name_of_one(const std::string& name, Names& names) {
  if (names[name].size() == 1) return name;
  std::string other;
  for (int i = 1; other.empty() || names.contains(other); ++i) other = str_cat(name, "_", i);
  names[other] = {};
  return other;
}

// The replacement of a state in the new graph.
struct Replacement {
  ValueId levels, scales;  // no scales: numbers of 16 bits
  const Blocks* blocks;
  DType dtype;
  int bits;
};
using Replacements = std::map<ValueId, Replacement>;

Replacement replace_state(Graph& graph, int32_t index, const std::string& name,
                          const Weight& weight, const Rounded& rounded) {
  GraphBody& body = GraphAccess::body(graph);
  State& state = body.states[static_cast<size_t>(index)];
  const bool is_constant = state.kind == State::Kind::constant;
  if (!is_constant) state.kind = State::Kind::buffer;
  state.name = name;
  state.data = rounded.levels;
  ValueInfo& value = body.values[static_cast<size_t>(state.value)];
  Replacement made{state.value, kNoValue, &weight.blocks, value.type.dtype, rounded.bits};
  value.type = {rounded.levels.tensor.dtype, to_shape(rounded.levels.tensor.shape)};
  GraphAccess::rename(graph, made.levels, name);
  if (rounded.bits == 16) return made;
  std::string scale_name = str_cat(name, "_scale");
  for (int i = 1; body.names.contains(scale_name); ++i) scale_name = str_cat(name, "_scale_", i);
  made.scales = (is_constant ? graph.constant(rounded.scales, scale_name)
                             : graph.buffer(scale_name, rounded.scales))
                    .id();
  return made;
}

// Dequantizes each state before its first reader.
Status widen_states(Graph& graph, const Replacements& replacements) {
  GraphBody& body = GraphAccess::body(graph);
  std::map<ValueId, ValueId> numbers;
  const bool has_four = std::any_of(replacements.begin(), replacements.end(),
                                    [](const auto& made) { return made.second.bits == 4; });
  const Value four = has_four ? graph.scalar(int64_t{4}, i8) : Value();
  const auto put = [&](ValueId& id) {
    const auto found = replacements.find(id);
    if (found == replacements.end()) return;
    const auto [entry, is_new] = numbers.try_emplace(id, kNoValue);
    if (is_new) {
      const Replacement& made = found->second;
      const Value scales = made.bits == 16 ? Value() : graph.value(made.scales);
      entry->second = widened(graph.value(made.levels), scales, Value(), four, *made.blocks,
                              made.bits, made.dtype)
                          .id();
    }
    id = entry->second;
  };
  std::vector<Node> old = std::exchange(body.nodes, {});
  const Origin origin = body.origin;
  for (Node& node : old) {
    body.origin = node.origin;
    for (ValueId& id : node.inputs) put(id);
    HG_TRY(graph.status());
    GraphAccess::push_node(graph, std::move(node));
  }
  body.origin = origin;
  for (auto& [name, id] : body.outputs) put(id);
  for (auto& [target, source] : body.assignments) put(source);
  return graph.status();
}

}  // namespace

Graph copy_with_bodies(const Graph& graph) {
  Graph copy(graph);
  take_training_state(copy);
  for (Node& node : GraphAccess::body(copy).nodes)
    for (std::shared_ptr<Graph>& body : node.subgraphs)
      body = std::make_shared<Graph>(copy_with_bodies(*body));
  return copy;
}

Result<std::vector<QuantizedWeight>> replace_weights(std::span<Graph* const> graphs,
                                                     std::span<const Weight> weights,
                                                     const Round& round, Model::Info& info) {
  Names names;
  for (const Graph* graph : graphs) collect_names(*graph, names);
  std::vector<QuantizedWeight> made;
  std::map<Graph*, Replacements> replacements;
  for (size_t w = 0; w < weights.size(); ++w) {
    const Weight& weight = weights[w];
    const Tensor& tensor = weight.data.tensor;
    HG_TRY_ASSIGN(const std::optional<Rounded> rounded, round(w));
    if (!rounded) continue;
    std::map<std::string, std::string> new_names;  // several if tied states are separate
    for (const auto& [owner, index] : weight.states) {
      const State& state = owner->states()[static_cast<size_t>(index)];
      const ValueId id = state.value;
      const auto [entry, is_new] = new_names.try_emplace(state.name);
      if (is_new) {
        entry->second = name_of_one(state.name, names);
        info.quantized.push_back({entry->second, rounded->error});
      }
      replacements[owner].emplace(id,
                                  replace_state(*owner, index, entry->second, weight, *rounded));
      HG_TRY(owner->status());
    }
    made.push_back({.name = new_names.at(weight.name),
                    .module_path = weight.module_path,
                    .elements = tensor.count(),
                    .bits = rounded->bits,
                    .bytes_before = tensor.bytes(),
                    .bytes = rounded->bytes(),
                    .error = rounded->error});
  }
  for (auto& [owner, states] : replacements) HG_TRY(widen_states(*owner, states));
  for (const Graph* graph : graphs) HG_TRY(graph->verify());
  return made;
}

Result<std::vector<QuantizedWeight>> quantize_weights(std::span<Graph* const> graphs,
                                                      const QuantizeOptions& options,
                                                      Model::Info& info) {
  HG_CHECK(options.rounding != Rounding::second_order,
           "quantize: `rounding` is second_order, which requires samples");
  HG_CHECK(!options.max_error && !options.metric,
           "quantize: `max_error` and `metric` require samples");
  HG_CHECK(!options.fastest, "quantize: `fastest` requires samples");
  HG_TRY_ASSIGN(const std::vector<Weight> weights, find_weights(graphs, options));
  const auto round = [&](size_t i) -> Result<std::optional<Rounded>> {
    const Weight& weight = weights[i];
    HG_TRY_ASSIGN(Rounded rounded,
                  round_to_levels(weight.name, weight.data.tensor, weight.blocks, options.bits,
                                  options.rounding == Rounding::least_squares));
    if (options.progress)
      options.progress(static_cast<int64_t>(i + 1), static_cast<int64_t>(weights.size()));
    return std::optional(std::move(rounded));
  };
  return replace_weights(graphs, weights, round, info);
}

Result<Quantized> quantize(const Model& model, const QuantizeOptions& options) {
  return or_no_memory([&]() -> Result<Quantized> {
    const std::vector<std::string> entries = model.entries();
    std::vector<Graph> copies;
    copies.reserve(entries.size() + 1);  // pointers to them stay valid
    std::vector<Graph*> graphs;
    for (const std::string& name : entries) {
      HG_TRY_ASSIGN(const Model entry, model.entry(name));
      graphs.push_back(&copies.emplace_back(copy_with_bodies(entry.graph())));
    }
    if (entries.empty()) {
      HG_TRY(model.graph().status());
      graphs.push_back(&copies.emplace_back(copy_with_bodies(model.graph())));
    }
    Model::Info info = model.info();
    Quantized out;
    HG_TRY_ASSIGN(out.weights, quantize_weights(graphs, options, info));
    for (size_t i = 0; i < entries.size(); ++i)
      HG_TRY(out.model.add_entry(entries[i], std::move(copies[i])));
    if (entries.empty()) {
      HG_TRY_ASSIGN(out.model, Model::from_graph(std::move(copies[0])));
    }
    out.model.set_info(std::move(info));
    return out;
  });
}

}  // namespace hg
