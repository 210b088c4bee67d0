// SPDX-License-Identifier: Apache-2.0
// Adds adapters to the weights of their layers, and removes the nodes beside them.
#include <algorithm>
#include <map>
#include <set>

#include "hg/adapter.h"
#include "lib/adapter/layers.h"
#include "lib/graph/access.h"
#include "lib/graph/adapter_names.h"
#include "lib/graph/element.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/state_names.h"
#include "lib/graph/training_state.h"

namespace hg {
namespace {

// Copies of the values of a graph that depend on states alone, in the order of `ids`.
Result<std::vector<TensorData>> computed(const Graph& graph, const std::vector<ValueId>& ids) {
  Graph copy = graph;
  GraphBody& body = GraphAccess::body(copy);
  body.inputs.clear();
  body.assignments.clear();
  body.guards.clear();
  body.outputs.clear();
  for (const ValueId id : ids) body.outputs.emplace_back(str_cat("w", int64_t{id}), id);
  remove_dead_nodes(copy, false);
  HG_TRY_ASSIGN(const Model model, Model::from_graph(std::move(copy)));
  HG_TRY_ASSIGN(Session session, Session::create(model, {.low_memory = true}));
  HG_TRY(session.run());
  std::vector<TensorData> values;
  for (size_t i = 0; i < ids.size(); ++i) {
    HG_TRY_ASSIGN(const Tensor value, session.output(static_cast<int>(i)));
    HG_TRY_ASSIGN(values.emplace_back(), TensorData::copy_of(value));
  }
  return values;
}

// A layer with its adapter.
struct Adapted {
  Adaptable layer;
  AdapterStates states;
};

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph) {}

  // Returns whether there was an adapter. `removed`: names of quantized weights that became floats.
  Result<bool> run(std::set<std::string>& removed) {
    const std::vector<AdapterStates> all = adapter_states(graph_);
    if (all.empty()) return false;
    take_training_state(graph_);  // that of the adapter
    find_products(all);
    HG_TRY(check_uses(all));
    HG_TRY(make_weights(removed));
    const std::vector<int> before = use_counts(graph_);
    HG_TRY(replace_products());
    std::vector<ValueId> own;
    for (const AdapterStates& states : all)
      for (const int32_t at : {states.a, states.b, states.scale})
        own.push_back(graph_.states()[static_cast<size_t>(at)].value);
    std::erase_if(GraphAccess::body(graph_).assignments, [&](const auto& assignment) {
      return std::find(own.begin(), own.end(), assignment.first) != own.end();
    });
    remove_dead_nodes(graph_);
    const std::vector<int> after = use_counts(graph_);
    std::vector<bool> unused;
    for (const State& state : graph_.states()) {
      const auto at = static_cast<size_t>(state.value);
      unused.push_back(at < before.size() && before[at] > 0 && after[at] == 0);
    }
    forget(graph_, unused);
    HG_TRY(graph_.verify());
    return true;
  }

 private:
  const Node* producer(ValueId id) const {
    const int32_t node = id == kNoValue ? -1 : graph_.value_info(id).node;
    return node < 0 ? nullptr : &graph_.nodes()[static_cast<size_t>(node)];
  }
  const Tensor& tensor(int32_t state) const {
    return graph_.states()[static_cast<size_t>(state)].data.tensor;
  }

  // add(product, [cast](product of B)), where B is that of a layer.
  void find_products(const std::vector<AdapterStates>& all) {
    std::map<ValueId, const AdapterStates*> of_b;
    for (const AdapterStates& states : all)
      of_b[graph_.states()[static_cast<size_t>(states.b)].value] = &states;
    std::map<ValueId, Adaptable> layers;
    for (Adaptable& layer : find_layers(graph_)) layers[layer.result] = std::move(layer);
    for (const Node& node : graph_.nodes()) {
      if (node.op->name() != "add") continue;
      const Node* beside = producer(node.inputs[1]);
      if (beside != nullptr && beside->op->name() == "cast") beside = producer(beside->inputs[0]);
      if (beside == nullptr || beside->inputs.size() < 2) continue;
      const auto b = of_b.find(beside->inputs[1]);
      const auto layer = layers.find(node.inputs[0]);
      if (b != of_b.end() && layer != layers.end())
        products_[node.outputs[0]] = {layer->second, *b->second};
    }
  }

  // Every adapter must be merged, so all readers of B must be known.
  Status check_uses(const std::vector<AdapterStates>& all) const {
    const std::vector<int> uses = use_counts(graph_);
    for (const AdapterStates& states : all) {
      const auto known = std::count_if(products_.begin(), products_.end(), [&](const auto& each) {
        return each.second.states.layer == states.layer;
      });
      const ValueId b = graph_.states()[static_cast<size_t>(states.b)].value;
      const auto assigned =
          std::count_if(graph_.assignments().begin(), graph_.assignments().end(),
                        [&](const auto& assignment) { return assignment.second == b; });
      if (known > 0 && uses[static_cast<size_t>(b)] == known + assigned) continue;
      return unsupported("adapters: ", uses[static_cast<size_t>(b)] - assigned, " nodes read '",
                         graph_.states()[static_cast<size_t>(states.b)].name, "', but only ", known,
                         " add it to a layer");
    }
    return {};
  }

  // Whether only products with this adapter read the weight, and only it reads the state.
  bool is_alone(ValueId base, ValueId state, const std::string& layer) const {
    std::set<ValueId> weights;
    for (const auto& [sum, product] : products_)
      if (product.layer.base == base && product.states.layer == layer)
        weights.insert(product.layer.result);
    std::vector<bool> before(static_cast<size_t>(graph_.value_count()), false), from = before;
    before[static_cast<size_t>(state)] = from[static_cast<size_t>(base)] = true;
    for (const Node& node : graph_.nodes())
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId id = node.inputs[i];
        if (id == kNoValue) continue;
        if (before[static_cast<size_t>(id)] && id != base)
          for (const ValueId output : node.outputs) before[static_cast<size_t>(output)] = true;
        if (!from[static_cast<size_t>(id)]) continue;
        if (node.op->name() == "permute" || node.op->name() == "cast")
          from[static_cast<size_t>(node.outputs[0])] = true;
        else if (i != 1 || !weights.contains(node.outputs[0]))
          return false;
      }
    const auto is_read = [&](ValueId id) {
      return from[static_cast<size_t>(id)] || before[static_cast<size_t>(id)];
    };
    return std::none_of(graph_.outputs().begin(), graph_.outputs().end(),
                        [&](const auto& output) { return is_read(output.second); }) &&
           std::none_of(graph_.assignments().begin(), graph_.assignments().end(),
                        [&](const auto& assignment) { return is_read(assignment.second); });
  }

  // W + B diag(scale) A in the layout of the weight before its transposition.
  TensorData sum(TensorData weight, const Adapted& adapted) const {
    const Tensor &a = tensor(adapted.states.a), &b = tensor(adapted.states.b),
                 &scale = tensor(adapted.states.scale), &w = weight.tensor;
    const int64_t rank = a.shape[0], out = b.shape[0], row = rank == 0 ? 0 : a.count() / rank;
    const bool turned = adapted.layer.is_matmul != adapted.layer.is_transposed;
    std::vector<double> line(static_cast<size_t>(row));
    for (int64_t o = 0; o < out; ++o) {
      std::fill(line.begin(), line.end(), 0);
      for (int64_t r = 0; r < rank; ++r) {
        const double factor = element(b, o * rank + r) * element(scale, r);
        for (int64_t i = 0; i < row; ++i)
          line[static_cast<size_t>(i)] += factor * element(a, r * row + i);
      }
      for (int64_t i = 0; i < row; ++i) {
        const int64_t at = turned ? i * out + o : o * row + i;
        set_element(w, at, element(w, at) + line[static_cast<size_t>(i)]);
      }
    }
    return weight;
  }

  Status make_weights(std::set<std::string>& removed) {
    std::map<std::pair<ValueId, std::string>, const Adapted*> different;
    for (const auto& [result, adapted] : products_)
      different[{adapted.layer.base, adapted.states.layer}] = &adapted;
    std::vector<ValueId> bases;
    for (const auto& [key, adapted] : different) bases.push_back(key.first);
    HG_TRY_ASSIGN(std::vector<TensorData> weights, computed(graph_, bases));
    size_t at = 0;
    for (const auto& [key, adapted] : different) {
      TensorData data = sum(std::move(weights[at++]), *adapted);
      const auto& [base, layer] = key;
      const int32_t index = adapted->layer.state;
      GraphBody& body = GraphAccess::body(graph_);
      State& state = body.states[static_cast<size_t>(index)];
      if (!is_alone(base, state.value, layer)) {
        std::string name = layer_names(state, adapted->layer.module)[0] + ".weight";
        if (!has_name(state, name) || name == state.name) name = layer + ".weight";
        if (body.names.contains(name)) name = str_cat(layer, ".merged_weight");
        std::erase(state.aliases, name);
        weights_[key] = graph_.parameter(name, std::move(data)).id();
        HG_TRY(graph_.take_status());
        continue;
      }
      if (state.value != base) {
        removed.insert(state.name);
        state.kind = State::Kind::parameter;
        body.values[static_cast<size_t>(state.value)].type = {data.tensor.dtype,
                                                              to_shape(data.tensor.shape)};
      }
      state.data = std::move(data);
      weights_[key] = state.value;
    }
    return {};
  }

  Status replace_products() {
    const Graph before = graph_;
    return rewrite(graph_, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      const auto found = products_.find(node.outputs.empty() ? kNoValue : node.outputs[0]);
      if (found == products_.end()) return std::optional<std::vector<Value>>();
      const Adaptable& layer = found->second.layer;
      Value weight = graph_.value(weights_.at({layer.base, found->second.states.layer}));
      for (const size_t view : layer.views) {
        const Node& each = before.nodes()[view];
        weight = graph_.call(each.op->name(), {weight}, named_attrs(each));
      }
      const Node& product =
          before.nodes()[static_cast<size_t>(before.value_info(layer.result).node)];
      std::vector<Value> inputs;
      // In the graph, the inputs of the product are those after earlier replacements.
      const Node& now = graph_.nodes()[static_cast<size_t>(graph_.value_info(node.inputs[0]).node)];
      for (const ValueId id : now.inputs)
        inputs.push_back(id == kNoValue ? Value() : graph_.value(id));
      inputs[1] = weight;
      graph_.set_origin(product.origin);
      return std::optional(
          std::vector<Value>{graph_.call(product.op->name(), inputs, named_attrs(product))});
    });
  }

  Graph& graph_;
  std::map<ValueId, Adapted> products_;                         // by the sum of layer and adapter
  std::map<std::pair<ValueId, std::string>, ValueId> weights_;  // by base and layer
};

}  // namespace

Result<Model> merge_adapters(const Model& model) {
  return or_no_memory([&]() -> Result<Model> {
    bool any = false;
    std::set<std::string> removed;
    HG_TRY_ASSIGN(Model made, with_graphs(model, [&](Graph& graph) -> Status {
                    HG_TRY_ASSIGN(const bool had, Merger(graph).run(removed));
                    any = any || had;
                    return {};
                  }));
    if (!any) return not_found("adapters: the model has no adapter");
    Model::Info info = made.info();
    std::erase_if(info.quantized,
                  [&](const Model::QuantizedState& state) { return removed.contains(state.name); });
    made.set_info(std::move(info));
    return made;
  });
}

}  // namespace hg
