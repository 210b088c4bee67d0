// SPDX-License-Identifier: Apache-2.0
// Adapters as states of a graph, and the nodes that add them to layers. Each state is assigned to
// itself, so that sessions treat it as one that may change.
#include "hg/adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "hg/ops.h"
#include "lib/adapter/layers.h"
#include "lib/graph/access.h"
#include "lib/graph/adapter_names.h"
#include "lib/graph/checksum.h"
#include "lib/graph/rewrite.h"

namespace hg {
namespace {

std::string name_of(const std::string& layer, std::string_view suffix) {
  return str_cat(layer, suffix);
}

// -- Beside layers --------------------------------------------------------------------------------

// The states of one adapter in a graph.
struct Beside {
  const Adaptable* layer;
  std::string name;
  Value a, b, scale;
};

Status check_plain(const Graph& graph, const Node& node, const std::string& layer) {
  if (AttrReader(node.op, node.attrs).string("activation") == "none") return {};
  return unsupported("adapters: ", label(graph, node), " of '", layer,
                     "' has an activation; adapt the model before it is compiled");
}

// y + (scale * x A^T) B^T
Value adapted(Graph& graph, const Node& node, const Beside& with) {
  std::vector<Value> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? Value() : graph.value(id));
  const bool is_conv = node.op->name() == "conv";
  const Value y = graph.call(node.op->name(), inputs, named_attrs(node));
  const DType dtype = with.a.dtype();
  Value x = inputs[0].dtype() == dtype ? inputs[0] : cast(inputs[0], dtype);
  if (is_conv) {
    Shape channels(static_cast<size_t>(with.a.rank()) - 1, Dim(1));
    channels[0] = with.a.dim(0);
    x = graph.call("conv", {x, with.a}, named_attrs(node)) * reshape(with.scale, channels);
    x = graph.call("conv", {x, with.b});
  } else {
    x = graph.call("linear", {x, with.a}) * with.scale;
    x = graph.call("linear", {x, with.b});
  }
  return y + (x.dtype() == y.dtype() ? x : cast(x, y.dtype()));
}

// The contents of the states of one layer.
struct Tensors {
  TensorData a, b, scale;
};

// Adds adapters to the layers for which `choose` returns one of their names. `fill` returns their
// contents.
using Choose = std::function<std::string(const std::vector<std::string>& names)>;
Status add_to(Graph& graph, const Choose& choose,
              const std::function<Result<Tensors>(const std::string&, const Adaptable&)>& fill) {
  const std::vector<Adaptable> layers = find_layers(graph);
  std::map<std::string, Beside> known;
  std::map<ValueId, const Beside*> of_result;
  std::map<int32_t, std::string> chosen;  // by state
  for (const Adaptable& layer : layers) {
    const auto [of_state, is_first] = chosen.try_emplace(layer.state);
    std::string& name = of_state->second;
    if (is_first)
      name = choose(layer_names(graph.states()[static_cast<size_t>(layer.state)], layer.module));
    if (name.empty()) continue;
    const auto [entry, is_new] = known.try_emplace(name, Beside{&layer, name, {}, {}, {}});
    Beside& beside = entry->second;
    of_result[layer.result] = &beside;
    if (!is_new) {
      const Adaptable& first = *beside.layer;
      HG_CHECK(first.a_shape(1) == layer.a_shape(1) && first.b_shape(1) == layer.b_shape(1),
               "adapters: two products read the weight of '", name, "' as ", first.weight, " and ",
               layer.weight);
      continue;
    }
    for (const State& state : graph.states())
      HG_CHECK(state.name != name_of(name, kAdapterA), "adapters: '", name,
               "' has an adapter; apply_adapters() adds several to a model without one");
    HG_TRY_ASSIGN(const Tensors contents, fill(name, layer));
    beside.a = graph.parameter(name_of(name, kAdapterA), contents.a);
    beside.b = graph.parameter(name_of(name, kAdapterB), contents.b);
    beside.scale = graph.buffer(name_of(name, kAdapterScale), contents.scale);
    for (const Value& state : {beside.a, beside.b, beside.scale}) graph.assign(state, state);
    HG_TRY(graph.take_status());
  }
  HG_TRY(rewrite(graph, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
    const auto found = of_result.find(node.outputs.empty() ? kNoValue : node.outputs[0]);
    if (found == of_result.end()) return std::optional<std::vector<Value>>();
    if (node.op->name() != "matmul") HG_TRY(check_plain(graph, node, found->second->name));
    return std::optional(std::vector<Value>{adapted(graph, node, *found->second)});
  }));
  return graph.verify();
}

// -- New adapters ---------------------------------------------------------------------------------

// Equal names get equal numbers, whatever the other layers are.
uint64_t seed_of(const std::string& layer, uint64_t seed) {
  return checksum_of(std::as_bytes(std::span(layer))) ^ seed;
}

Result<TensorData> initialized(DType dtype, const Sizes& shape, const init::Rule& rule) {
  Graph graph;
  graph.parameter("x", dtype, shape, rule);
  HG_TRY(graph.take_status());
  return graph.states()[0].data;
}

Result<Model> with_new_adapter(const Model& model, const AdapterOptions& options) {
  HG_CHECK(options.rank >= 1, "adapters: the rank is ", options.rank, ", but must be 1 or more");
  HG_CHECK(std::isfinite(options.alpha), "adapters: alpha is ", options.alpha,
           ", but must be a finite number");
  HG_CHECK(!options.layers.empty(), "adapters: no layers are given");
  std::vector<bool> used(options.layers.size(), false);
  std::vector<std::string> known;  // layers
  std::vector<std::string> instead(options.layers.size());
  const auto choose = [&](const std::vector<std::string>& names) {
    known.push_back(names[0]);
    std::string chosen;
    for (const std::string& name : names)
      for (size_t i = 0; i < options.layers.size(); ++i)
        if (matches_layer(options.layers[i], name)) {
          used[i] = true;
          if (chosen.empty()) chosen = name;
        }
    return chosen;
  };
  const auto fill = [&](const std::string& name, const Adaptable& layer) -> Result<Tensors> {
    const DType dtype = layer.adapter_dtype();
    Tensors made;
    init::Rule rule = init::uniform(-1, 1, seed_of(name, options.seed));
    rule.scale_by_fan_in = true;
    HG_TRY_ASSIGN(made.a, initialized(dtype, layer.a_shape(options.rank), rule));
    HG_TRY_ASSIGN(made.b, initialized(dtype, layer.b_shape(options.rank), init::zeros()));
    const double scale = options.alpha / static_cast<double>(options.rank);
    HG_TRY_ASSIGN(made.scale, initialized(dtype, {options.rank}, init::constant(scale)));
    return made;
  };
  HG_TRY_ASSIGN(Model made, with_graphs(model, [&](Graph& graph) -> Status {
                  for (size_t i = 0; i < instead.size(); ++i)
                    if (instead[i].empty()) instead[i] = other_reader(graph, options.layers[i]);
                  take_training_state(graph);  // that of the whole model
                  return add_to(graph, choose, fill);
                }));
  std::string others;
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(known.size(), kShown); ++i)
    others += str_cat(i == 0 ? "'" : ", '", known[i], "'");
  for (size_t i = 0; i < used.size(); ++i)
    HG_CHECK(used[i], "adapters: no layer matches '", options.layers[i], "'",
             instead[i].empty() ? "" : "; ", instead[i], "; the model has ", uint64_t{known.size()},
             " linear, matmul and conv with constant weights", known.empty() ? "" : ": ", others,
             known.size() > kShown ? ", ..." : "");
  return made;
}

// -- Existing adapters ----------------------------------------------------------------------------

// One adapter of a layer.
struct Part {
  Tensor a, b, scale;
};
using Parts = std::map<std::string, std::vector<Part>>;  // by layer

Status collect(const Graph& graph, Parts& parts) {
  HG_TRY(graph.status());
  const std::vector<AdapterStates> layers = adapter_states(graph);
  HG_CHECK(!layers.empty(), "adapters: the model has no adapter: no states LAYER", kAdapterA,
           ", LAYER", kAdapterB, " and LAYER", kAdapterScale);
  for (const State& state : graph.states())
    for (const std::string_view suffix : {kAdapterA, kAdapterB, kAdapterScale})
      if (state.name.ends_with(suffix) && !is_training_state(state))
        HG_CHECK(std::any_of(layers.begin(), layers.end(),
                             [&](const AdapterStates& layer) {
                               return state.name == name_of(layer.layer, suffix);
                             }),
                 "adapters: '", state.name, "' lacks the other states of its layer");
  for (const AdapterStates& layer : layers) {
    const auto tensor = [&](int32_t at) {
      return graph.states()[static_cast<size_t>(at)].data.tensor;
    };
    const Part part{tensor(layer.a), tensor(layer.b), tensor(layer.scale)};
    HG_CHECK(part.a.rank() >= 2 && part.b.rank() == part.a.rank() && part.scale.rank() == 1 &&
                 part.b.shape[1] == part.a.shape[0] && part.scale.shape[0] == part.a.shape[0],
             "adapters: '", layer.layer, "' has A ", part.a.shape, ", B ", part.b.shape,
             " and scales ", part.scale.shape, ", whose ranks differ");
    parts[layer.layer].push_back(part);
  }
  return {};
}

Result<Parts> collect(std::span<const Model> adapters) {
  Parts parts;
  for (const Model& adapter : adapters) {
    HG_CHECK(adapter.entries().empty(),
             "adapters: a model of several entries is not an adapter; "
             "take_adapter() returns its adapter");
    HG_TRY(collect(adapter.graph(), parts));
  }
  return parts;
}

int64_t rank_of(const std::vector<Part>& parts) {
  int64_t rank = 0;
  for (const Part& part : parts) rank += part.a.shape[0];
  return rank;
}

// The parts one after another along the rank, and zeros. `a` and `b` are the shapes of the result.
Result<Tensors> joined(const std::string& layer, const std::vector<Part>& parts, const Sizes& a,
                       const Sizes& b, DType dtype) {
  Tensors made;
  HG_TRY_ASSIGN(made.a, TensorData::allocate(dtype, a));
  HG_TRY_ASSIGN(made.b, TensorData::allocate(dtype, b));
  HG_TRY_ASSIGN(made.scale, TensorData::allocate(dtype, {a[0]}));
  HG_CHECK(rank_of(parts) <= a[0], "adapters: '", layer, "' has room for rank ", a[0],
           ", the ranks add up to ", rank_of(parts));
  const int64_t size = size_of(dtype);
  int64_t at = 0;
  for (const Part& part : parts) {
    const int64_t rank = part.a.shape[0];
    Sizes a_fits = a, b_fits = b;
    a_fits[0] = b_fits[1] = rank;
    HG_CHECK(part.a.shape == a_fits && part.b.shape == b_fits && part.a.dtype == dtype &&
                 part.b.dtype == dtype && part.scale.dtype == dtype,
             "adapters: '", layer, "' takes A ", dtype, a_fits, " and B ", dtype, b_fits,
             ", the adapter has A ", part.a.dtype, part.a.shape, ", B ", part.b.dtype, part.b.shape,
             " and scales of ", part.scale.dtype);
    const auto copy = [&](const Tensor& to, int64_t first, const Tensor& from, int64_t from_first,
                          int64_t count) {
      if (count > 0)
        std::memcpy(to.as<std::byte>() + first * size, from.as<std::byte>() + from_first * size,
                    static_cast<size_t>(count * size));
    };
    const int64_t row = rank == 0 ? 0 : part.a.count() / rank;
    copy(made.a.tensor, at * row, part.a, 0, part.a.count());
    for (int64_t i = 0; i < b[0]; ++i) copy(made.b.tensor, i * a[0] + at, part.b, i * rank, rank);
    copy(made.scale.tensor, at, part.scale, 0, rank);
    at += rank;
  }
  return made;
}

Result<Model> with_adapters(const Model& model, std::span<const Model> adapters, int64_t rank) {
  HG_CHECK(rank >= 0, "adapters: the rank is ", rank, ", but must not be negative");
  HG_CHECK(!adapters.empty(), "adapters: none is given");
  HG_TRY_ASSIGN(const Parts parts, collect(adapters));
  std::map<std::string, bool> used;
  const auto choose = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (parts.contains(name)) {
        used[name] = true;
        return name;
      }
    return std::string();
  };
  const auto fill = [&](const std::string& name, const Adaptable& layer) {
    const std::vector<Part>& own = parts.at(name);
    const int64_t room = std::max(rank, rank_of(own));
    return joined(name, own, layer.a_shape(room), layer.b_shape(room), layer.adapter_dtype());
  };
  HG_TRY_ASSIGN(Model made, with_graphs(model, [&](Graph& graph) -> Status {
                  take_training_state(graph);  // that of the whole model
                  HG_TRY(add_to(graph, choose, fill));
                  if (adapters.size() == 1 && rank == 0)
                    for (const State& state : adapters[0].graph().states())
                      if (is_training_state(state)) graph.buffer(state.name, state.data);
                  return graph.status();
                }));
  for (const auto& [name, own] : parts)
    HG_CHECK(used.contains(name), "adapters: the adapter is for '", name,
             "', but the model has no linear, matmul or conv of this name with constant weights");
  return made;
}

}  // namespace

Result<Model> add_adapter(const Model& model, const AdapterOptions& options) {
  return or_no_memory([&] { return with_new_adapter(model, options); });
}

Result<Model> take_adapter(const Model& model) {
  return or_no_memory([&]() -> Result<Model> {
    Graph taken;
    const auto take = [&](const Graph& graph) -> Status {
      HG_TRY(graph.status());
      for (const AdapterStates& layer : adapter_states(graph)) {
        const auto& all = graph.states();
        const State &a = all[static_cast<size_t>(layer.a)], &b = all[static_cast<size_t>(layer.b)],
                    &scale = all[static_cast<size_t>(layer.scale)];
        if (std::any_of(taken.states().begin(), taken.states().end(),
                        [&](const State& state) { return state.name == a.name; }))
          continue;  // of another entry
        taken.parameter(a.name, a.data);
        taken.parameter(b.name, b.data);
        taken.buffer(scale.name, scale.data);
      }
      return taken.status();
    };
    const std::vector<std::string> entries = model.entries();
    for (const std::string& name : entries) {
      HG_TRY_ASSIGN(const Model entry, model.entry(name));
      HG_TRY(take(entry.graph()));
    }
    if (entries.empty()) HG_TRY(take(model.graph()));
    if (taken.states().empty()) return not_found("adapters: the model has no adapter");
    HG_TRY_ASSIGN(Model made, Model::from_graph(std::move(taken)));
    Model::Info info;
    info.producer = model.info().producer;
    made.set_info(std::move(info));
    return made;
  });
}

Result<Model> apply_adapters(const Model& model, std::span<const Model> adapters, int64_t rank) {
  return or_no_memory([&] { return with_adapters(model, adapters, rank); });
}

Status set_adapters(Session& session, std::span<const Model> adapters) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(const Parts parts, collect(adapters));
    const Graph& graph = session.compiled_graph();
    const std::vector<AdapterStates> layers = adapter_states(graph);
    for (const auto& [name, own] : parts)
      HG_CHECK(std::any_of(layers.begin(), layers.end(),
                           [&](const AdapterStates& layer) { return layer.layer == name; }),
               "adapters: the adapter is for '", name, "', which the session does not adapt");
    std::vector<Tensors> contents;  // all of them before the first is set
    for (const AdapterStates& layer : layers) {
      const Tensor a = graph.states()[static_cast<size_t>(layer.a)].data.tensor;
      const Tensor b = graph.states()[static_cast<size_t>(layer.b)].data.tensor;
      const auto own = parts.find(layer.layer);
      HG_TRY_ASSIGN(contents.emplace_back(),
                    joined(layer.layer, own == parts.end() ? std::vector<Part>() : own->second,
                           a.shape, b.shape, a.dtype));
    }
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string& name = layers[i].layer;
      HG_TRY(session.set_value(name_of(name, kAdapterA), contents[i].a.tensor));
      HG_TRY(session.set_value(name_of(name, kAdapterB), contents[i].b.tensor));
      HG_TRY(session.set_value(name_of(name, kAdapterScale), contents[i].scale.tensor));
    }
    return {};
  });
}

}  // namespace hg
