// SPDX-License-Identifier: Apache-2.0
// Quantizes products and convolutions including their inputs to 8 bits, and all other weights as
// without samples.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lib/compile/passes.h"
#include "lib/graph/border.h"
#include "lib/quantize/fastest.h"
#include "lib/quantize/integers.h"
#include "lib/quantize/mixed.h"
#include "lib/quantize/weights.h"

namespace hg {
namespace {

// Expands composites as a session does, and turns products with constant matrices into linear.
Status prepare(Graph& graph) {
  const SessionOptions options;
  const CompileContext context{&graph.registry(), &options, changed_states(graph), nullptr};
  HG_TRY(expand_composites(graph, context));
  return form_linear(graph, context);
}

// The memory of the weights that `keep` allows to quantize, even if they have few elements.
Result<std::set<const void*>> free_weights(Graph& graph, const QuantizeOptions& options) {
  Graph* const graphs[] = {&graph};
  HG_TRY_ASSIGN(const std::vector<Weight> found, find_weights(graphs, options, true));
  std::set<const void*> weights;
  for (const Weight& weight : found) weights.insert(weight.data.tensor.data);
  return weights;
}

// The graph before it is rewritten.
struct Before {
  std::vector<bool> was_read;  // states, by index
  std::map<std::string, size_t> places;

  explicit Before(const Graph& graph) {
    const std::vector<int> uses = use_counts(graph);
    for (const State& state : graph.states()) {
      places.emplace(state.name, was_read.size());
      was_read.push_back(uses[static_cast<size_t>(state.value)] > 0);
    }
  }
  size_t place_of(const std::string& name) const {
    const auto found = places.find(name);
    return found == places.end() ? places.size() : found->second;
  }
};

// The levels take the names of the weights that are no longer read. Removes those weights and other
// states that are no longer read.
std::vector<QuantizedWeight> name_weights(Graph& graph, const std::vector<IntegerLayer>& layers,
                                          const Before& before, Model::Info& info) {
  const std::vector<int> uses = use_counts(graph);
  GraphBody& body = GraphAccess::body(graph);
  std::vector<bool> gone(body.states.size());
  for (size_t i = 0; i < before.was_read.size(); ++i)
    gone[i] = before.was_read[i] && uses[static_cast<size_t>(body.states[i].value)] == 0;
  const auto state_of = [&](ValueId id) -> State& {
    return body.states[static_cast<size_t>(graph.value_info(id).state)];
  };
  std::vector<QuantizedWeight> weights;
  std::set<ValueId> named, named_after;
  for (const IntegerLayer& layer : layers) {
    if (layer.made_weight == kNoValue || !named.insert(layer.made_weight).second) continue;
    State &made = state_of(layer.made_weight), &weight = state_of(layer.weight);
    if (gone[static_cast<size_t>(graph.value_info(layer.weight).state)] &&
        named_after.insert(layer.weight).second) {
      made.name = weight.name;
      made.aliases = weight.aliases;
      if (weight.kind != State::Kind::constant) made.kind = State::Kind::buffer;
      GraphAccess::rename(graph, layer.weight, str_cat(weight.name, "_gone"));
      GraphAccess::rename(graph, made.value, made.name);
    }
    const Tensor& levels = made.data.tensor;
    weights.push_back({.name = made.name,
                       .module_path = layer.node.origin.module,
                       .elements = levels.count(),
                       .bits = 8,
                       .bytes_before = weight.data.tensor.bytes(),
                       .bytes = levels.bytes() + layer.sum.bias.tensor.bytes(),
                       .error = layer.sum.error});
    info.quantized.push_back({made.name, layer.sum.error});
  }
  forget(graph, gone);
  return weights;
}

// Quantizes the weights that no 8-bit layer uses, as without samples. `faster` names weights that
// stay floats.
Status quantize_others(Graph& graph, const QuantizeOptions& options,
                       const std::vector<std::string>& faster, Model::Info& info,
                       std::vector<QuantizedWeight>& weights) {
  Graph* const graphs[] = {&graph};
  QuantizeOptions others = options;
  others.fastest = false;
  others.keep.insert(others.keep.end(), faster.begin(), faster.end());
  // Values that are now part of a layer no longer exist by name.
  std::erase_if(others.keep, [&](const std::string& name) { return !is_any_named(graphs, name); });
  HG_TRY_ASSIGN(const std::vector<QuantizedWeight> more, quantize_weights(graphs, others, info));
  weights.insert(weights.end(), more.begin(), more.end());
  return {};
}

void tell(const SessionOptions& session, const CalibratedLayer& layer) {
  if (session.log.write == nullptr || layer.stays.empty()) return;
  const std::string text =
      str_cat("quantize: '", layer.name, "' takes floats, since ", layer.stays);
  session.log.write(session.log.host, LogLevel::info, text.c_str());
}

// The prepared graph with some layers in 8 bits.
struct Calibration {
  const Graph& graph;
  const std::set<const void*>& free;
  std::unordered_map<ValueId, Range> ranges = {};

  Integers layers_of(Graph& copy) const {
    return Integers(copy, [this](const IntegerLayer& layer) {
      const auto state = static_cast<size_t>(graph.value_info(layer.weight).state);
      return free.contains(graph.states()[state].data.tensor.data);
    });
  }
  // `stays`: layers that stay float for a reason, by index.
  Result<Mixed> mixed(const std::vector<std::string>& stays) const {
    Graph copy = copy_with_bodies(graph);
    Integers integers = layers_of(copy);
    integers.leave(stays);
    HG_TRY(integers.apply(ranges));
    Mixed made;
    for (const CalibratedLayer& layer : integers.report()) made.stays.push_back(layer.stays);
    HG_TRY_ASSIGN(made.model, Model::from_graph(std::move(copy)));
    return made;
  }
};

}  // namespace

Result<Quantized> quantize(const Model& model, std::span<const std::vector<ConstTensor>> samples,
                           const QuantizeOptions& options, const SessionOptions& session) {
  return or_no_memory([&]() -> Result<Quantized> {
    HG_TRY(model.graph().status());
    HG_CHECK(!samples.empty(), "quantize: there are no samples");
    HG_CHECK(!options.metric || options.max_error,
             "quantize: there is a metric, but no `max_error`");
    if (options.max_error || options.rounding == Rounding::second_order) {
      HG_CHECK(!options.fastest && options.percentile == 100, "quantize: `",
               options.fastest ? "fastest" : "percentile",
               "` is about layers that take their inputs in 8 bits; with `rounding` second_order "
               "or `max_error`, inputs stay floats");
      HG_TRY(check_samples(samples));
      return options.max_error ? quantize_to_limit(model, samples, options, session)
                               : quantize_by_samples(model, samples, options, session);
    }
    HG_CHECK(options.bits == 8, "quantize: `bits` is ", options.bits,
             "; layers that take their inputs in 8 bits have weights of 8 bits; with `rounding` "
             "second_order or `max_error`, inputs stay floats");
    HG_CHECK(options.percentile > 0 && options.percentile <= 100, "quantize: `percentile` is ",
             options.percentile, ", not above 0 and up to 100");
    Graph graph = copy_with_bodies(model.graph());
    HG_TRY_ASSIGN(const std::set<const void*> free, free_weights(graph, options));
    HG_TRY(prepare(graph));
    const Before before(graph);
    HG_TRY_ASSIGN(const Model floats, Model::from_graph(graph));
    Calibration calibration{floats.graph(), free};
    Integers integers = calibration.layers_of(graph);
    HG_TRY_ASSIGN(calibration.ranges,
                  observe(floats, integers.wanted(), samples, options, session));
    Fastest fastest;
    if (options.fastest) {
      HG_TRY_ASSIGN(fastest,
                    find_fastest([&](const auto& stays) { return calibration.mixed(stays); },
                                 samples, options.progress, session));
      integers.leave(fastest.stays);
    }
    HG_TRY(integers.apply(calibration.ranges));
    Quantized made;
    Model::Info info = model.info();
    made.layers = integers.report();
    made.ms = fastest.ms;
    made.float_ms = fastest.float_ms;
    std::vector<std::string> faster;  // in floats
    for (size_t i = 0; i < fastest.layers.size(); ++i) {
      const std::optional<LayerTimes>& times = fastest.layers[i];
      if (!times) continue;
      made.layers[i].ms = times->ms;
      made.layers[i].float_ms = times->float_ms;
      if (made.layers[i].stays.empty()) continue;
      faster.push_back(graph.value_info(integers.layers()[i].weight).name);
    }
    for (const CalibratedLayer& layer : made.layers) tell(session, layer);
    made.weights = name_weights(graph, integers.layers(), before, info);
    HG_TRY(quantize_others(graph, options, faster, info, made.weights));
    std::stable_sort(made.weights.begin(), made.weights.end(),
                     [&](const QuantizedWeight& a, const QuantizedWeight& b) {
                       return before.place_of(a.name) < before.place_of(b.name);
                     });
    HG_TRY_ASSIGN(made.model, Model::from_graph(std::move(graph)));
    made.model.set_info(std::move(info));
    return made;
  });
}

}  // namespace hg
