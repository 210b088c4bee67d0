// SPDX-License-Identifier: Apache-2.0
// Replaces inputs that are carried from run to run: by buffers, or by the values of a first run.
#include "hg/stateful.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "hg/ops.h"
#include "lib/graph/border.h"
#include "lib/graph/ends.h"
#include "lib/graph/past_names.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/training_state.h"

namespace hg {
namespace {

void fix_sizes(Attr& attr, const Bindings& sizes) {
  if (Dim* const dim = std::get_if<Dim>(&attr.value)) *dim = dim->substitute(sizes);
  if (auto* const dims = std::get_if<std::vector<Dim>>(&attr.value))
    for (Dim& dim : *dims) dim = dim.substitute(sizes);
}

// Applies to a graph and its bodies. Copies Node::subgraphs, because the original shares them.
void fix_sizes(Graph& graph, const Bindings& sizes) {
  GraphBody& body = GraphAccess::body(graph);
  for (ValueInfo& info : body.values)
    for (Dim& dim : info.type.shape) dim = dim.substitute(sizes);
  for (Guard& guard : body.guards)
    for (Dim* const side : {&guard.left, &guard.right}) *side = side->substitute(sizes);
  for (Node& node : body.nodes) {
    for (Attr& attr : node.attrs) fix_sizes(attr, sizes);
    for (std::shared_ptr<Graph>& subgraph : node.subgraphs) {
      subgraph = std::make_shared<Graph>(*subgraph);
      fix_sizes(*subgraph, sizes);
    }
  }
}

struct Carried {
  std::string name;  // of the input
  ValueId input = kNoValue, output = kNoValue;
  int grows = -1;           // the dim; -1: none
  Dim past = {}, all = {};  // its sizes before and after a run
  DType dtype = f32;        // of the model
  ValueId state = kNoValue;
  ValueId scale = kNoValue;  // of a state of 8 bits, per position
};

class Stateful {
 public:
  Stateful(Graph& graph, const StatefulOptions& options) : graph_(graph), options_(options) {}

  Status run() {
    HG_TRY(fix());
    const std::vector<CarriedValue> pairs =
        options_.carried.empty() ? carried_values(graph_) : options_.carried;
    HG_CHECK(!pairs.empty(),
             "the model carries no values: no output 'present...' has an input 'past...' or "
             "'past_key_values...'");
    for (const CarriedValue& pair : pairs) HG_TRY(find(pair));
    HG_TRY(make_states());
    HG_TRY(append());
    for (const Carried& each : all_)
      if (each.grows < 0) HG_TRY(assign(each.state, each.output));
    remove_dead_nodes(graph_);
    return check_sizes();
  }

 private:
  Status fix() {
    const std::vector<std::string> symbols = graph_.symbols();
    Bindings sizes;
    for (const auto& [symbol, size] : options_.dims) {
      HG_CHECK(std::find(symbols.begin(), symbols.end(), symbol) != symbols.end(),
               "there is no size '", symbol, "'");
      HG_CHECK(size >= 0, "the size '", symbol, "' is ", size);
      HG_TRY(sizes.bind(symbol, size));
    }
    fix_sizes(graph_, sizes);
    return {};
  }

  Status find(const CarriedValue& pair) {
    Carried each{.name = pair.input};
    each.input = input_named(graph_, pair.input);
    HG_CHECK(each.input != kNoValue, "there is no input '", pair.input, "'");
    each.output = output_named(graph_, pair.output);
    HG_CHECK(each.output != kNoValue, "there is no output '", pair.output, "'");
    for (const Carried& other : all_)
      HG_CHECK(other.input != each.input, "the input '", pair.input, "' is carried twice");
    const TensorType in = graph_.value_info(each.input).type,
                     out = graph_.value_info(each.output).type;
    const auto fits_not = [&] {
      return invalid_argument("the output '", pair.output, "' is ", out, ", the input '",
                              pair.input, "' is ", in);
    };
    if (in.dtype != out.dtype || in.rank() != out.rank()) return fits_not();
    for (int d = 0; d < in.rank(); ++d) {
      const Dim &before = in.shape[static_cast<size_t>(d)],
                &after = out.shape[static_cast<size_t>(d)];
      if (before == after) {
        HG_CHECK(before.is_constant(), "dim ", d, " of '", pair.input, "' is ", before,
                 ": give the size of '", before, "' in StatefulOptions::dims");
        continue;
      }
      if (each.grows >= 0) return fits_not();
      each.grows = d;
      each.past = before;
      each.all = after;
    }
    if (each.grows >= 0 && appending(each) == nullptr)
      return unsupported("the output '", pair.output, "' is not the input '", pair.input,
                         "' with something appended along dim ", each.grows);
    each.dtype = in.dtype;
    if (each.grows >= 0 && options_.stored)
      HG_CHECK(is_float(in.dtype) && each.grows + 1 < in.rank(), "'", pair.input, "' is ", in,
               ", which cannot be stored as ", *options_.stored);
    all_.push_back(std::move(each));
    carried_outputs_.push_back(pair.output);
    return {};
  }

  // The node that appends to the value.
  const Node* appending(const Carried& each) const {
    const int32_t index = graph_.value_info(each.output).node;
    if (index < 0) return nullptr;
    const Node& node = graph_.nodes()[static_cast<size_t>(index)];
    const Result<int> dim = axis_of(node);
    return dim.ok() && *dim == each.grows && node.inputs[0] == each.input &&
                   std::count(node.inputs.begin(), node.inputs.end(), each.input) == 1
               ? &node
               : nullptr;
  }
  Result<int> axis_of(const Node& node) const {
    if (node.op->name() != "concat" || node.inputs.size() < 2) return unsupported("not a concat");
    const Dim dim = AttrReader(node.op, node.attrs).integer("dim");
    if (!dim.is_constant()) return unsupported("a dim that is no number");
    return normalize_axis(dim.constant(), graph_.value_info(node.outputs[0]).type.rank());
  }

  // Adds the buffers, and the views of them that replace the inputs.
  Status make_states() {
    std::map<ValueId, ValueId> views;
    std::vector<Dim> limited;  // the same for most values
    const size_t nodes = graph_.nodes().size();
    for (Carried& each : all_) {
      const TensorType type = graph_.value_info(each.input).type;
      Sizes shape;
      for (int d = 0; d < type.rank(); ++d)
        shape.push_back(d == each.grows ? capacity_of(each)
                                        : type.shape[static_cast<size_t>(d)].constant());
      const bool is_stored = each.grows >= 0 && options_.stored;
      HG_TRY_ASSIGN(TensorData zeros, zeros_of(is_stored ? *options_.stored : type.dtype, shape));
      GraphAccess::rename(graph_, each.input, str_cat(each.name, "_given"));
      const Value state = graph_.buffer(each.name, std::move(zeros));
      each.state = state.id();
      Value scale;
      if (is_stored && *options_.stored == i8) {
        shape[type.rank() - 1] = 1;
        HG_TRY_ASSIGN(TensorData scales, zeros_of(f32, shape));
        scale = graph_.buffer(scale_name(each.name), std::move(scales));
        each.scale = scale.id();
      }
      HG_TRY(graph_.status());
      views[each.input] = each.grows < 0 ? state.id() : read(state, scale, each, each.past).id();
      HG_TRY(graph_.status());
      if (each.grows >= 0 && std::find(limited.begin(), limited.end(), each.all) == limited.end()) {
        limited.push_back(each.all);
        graph_.guard(each.all, Relation::le, capacity_of(each),
                     str_cat(kCapacityOf, each.name, "'"));
      }
    }
    replace(views, nodes);
    return graph_.status();
  }
  int64_t capacity_of(const Carried& each) const {
    for (const auto& [symbol, capacity] : options_.capacities)
      if (each.past.symbol() == symbol) return capacity;
    return options_.capacity;
  }
  // Buffers of one type share their initial value.
  Result<TensorData> zeros_of(DType dtype, const Sizes& shape) {
    for (const TensorData& known : zeros_)
      if (known.tensor.dtype == dtype && known.tensor.shape == shape) return known;
    HG_TRY_ASSIGN(TensorData zeros, TensorData::allocate(dtype, shape));
    return zeros_.emplace_back(std::move(zeros));
  }
  Value slice(const Value& state, const Carried& each, const Dim& end) {
    return graph_.call("slice", {state}, {{"dim", each.grows}, {"start", 0}, {"end", end}});
  }

  // The first positions, in the model's dtype.
  Value read(const Value& state, const Value& scale, const Carried& each, const Dim& end) {
    Value part = slice(state, each, end);
    if (each.scale != kNoValue) part = cast(part, f32) * slice(scale, each, end);
    return part.dtype() == each.dtype ? part : cast(part, each.dtype);
  }

  // New positions as they are stored, and their scales: the largest number of each is 127.
  std::pair<Value, Value> stored(const Value& added, const Carried& each) {
    if (each.scale == kNoValue)
      return {options_.stored ? cast(added, *options_.stored) : added, Value()};
    const Value x = cast(added, f32);
    const Value largest = amax(abs(x), {-1}, true);
    const Value scale = largest * (1.0 / 127) + 1e-30;  // not 0
    return {cast(round(x / scale), i8), scale};
  }

  // Removes the carried inputs and outputs. Moves the views, which were made last, to the front.
  void replace(const std::map<ValueId, ValueId>& views, size_t nodes) {
    GraphBody& body = GraphAccess::body(graph_);
    std::rotate(body.nodes.begin(), body.nodes.begin() + static_cast<std::ptrdiff_t>(nodes),
                body.nodes.end());
    const auto replaced = [&](ValueId& id) {
      if (const auto view = views.find(id); view != views.end()) id = view->second;
    };
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      for (ValueId& id : body.nodes[n].inputs) replaced(id);
      for (const ValueId id : body.nodes[n].outputs)
        body.values[static_cast<size_t>(id)].node = static_cast<int32_t>(n);
    }
    std::erase_if(body.outputs, [&](const auto& output) {
      return std::find(carried_outputs_.begin(), carried_outputs_.end(), output.first) !=
             carried_outputs_.end();
    });
    for (auto& [name, id] : body.outputs) replaced(id);
    for (auto& [target, source] : body.assignments) replaced(source);
    std::erase_if(body.inputs, [&](ValueId id) { return views.contains(id); });
    for (Carried& each : all_) replaced(each.output);
  }

  // Rewrites concat({past, new...}): write `new` after the past, then read both.
  Status append() {
    std::map<ValueId, const Carried*> growing;
    for (const Carried& each : all_)
      if (each.grows >= 0) growing[each.output] = &each;
    std::vector<std::pair<ValueId, ValueId>> updates;
    HG_TRY(rewrite(graph_, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      const auto found = growing.find(node.outputs[0]);
      if (found == growing.end()) return std::optional<std::vector<Value>>();
      const Carried& each = *found->second;
      std::vector<Value> added;
      for (size_t i = 1; i < node.inputs.size(); ++i) added.push_back(graph_.value(node.inputs[i]));
      const Value one =
          added.size() == 1 ? added[0] : graph_.call("concat", added, {{"dim", each.grows}});
      const auto append_to = [&](ValueId state, const Value& positions) {
        const Value whole =
            graph_.call("slice_scatter", {graph_.value(state), positions},
                        {{"dim", each.grows}, {"start", each.past}, {"end", each.all}});
        updates.emplace_back(state, whole.id());
        return whole;
      };
      const auto [positions, scales] = stored(one, each);
      const Value whole = append_to(each.state, positions);
      const Value scale = each.scale == kNoValue ? Value() : append_to(each.scale, scales);
      return std::optional(std::vector<Value>{read(whole, scale, each, each.all)});
    }));
    for (const auto& [state, whole] : updates) HG_TRY(assign(state, whole));
    return {};
  }

  Status assign(ValueId state, ValueId value) {
    if (state != value) graph_.assign(graph_.value(state), graph_.value(value));
    return graph_.status();
  }

  // A size of carried inputs that nothing else determines would be unknown in each run.
  Status check_sizes() const {
    const std::vector<std::string> known = graph_.symbols();
    for (const Carried& each : all_) {
      std::vector<std::string> names;
      each.past.collect_symbols(names);
      for (const std::string& symbol : names)
        HG_CHECK(std::find(known.begin(), known.end(), symbol) != known.end(),
                 "no other input "
                 "has the size '",
                 symbol, "' of '", each.name, "'");
    }
    return {};
  }

  Graph& graph_;
  const StatefulOptions& options_;
  std::vector<Carried> all_;
  std::vector<std::string> carried_outputs_;
  std::vector<TensorData> zeros_;
};

// Replaces the inputs that a decoder has besides its ids by values of a first run.
class Stateless {
 public:
  Stateless(Graph& graph, std::span<const std::string> keep) : graph_(graph), keep_(keep) {}

  Status run() {
    const std::vector<CarriedValue> pairs = carried_values(graph_);
    HG_CHECK(!pairs.empty(),
             "the model carries no values: no output 'present...' has an input "
             "'past...' or 'past_key_values...'");
    HG_TRY(forget_past(pairs));
    GraphBody& body = GraphAccess::body(graph_);
    std::erase_if(body.outputs, [&](const auto& output) {
      return std::any_of(pairs.begin(), pairs.end(),
                         [&](const auto& pair) { return pair.output == output.first; });
    });
    std::vector<Node> nodes = std::exchange(body.nodes, {});
    for (const CarriedValue& pair : pairs)
      replace(input_named(graph_, pair.input),
              [](Graph& g, const TensorType& type) { return full(g, type.shape, 0, type.dtype); });
    replace(wanted("attention_mask"),
            [](Graph& g, const TensorType& type) { return full(g, type.shape, 1, type.dtype); });
    replace(wanted("position_ids"), [](Graph& g, const TensorType& type) {
      return expand(cast(arange(g, type.shape.back()), type.dtype), type.shape);
    });
    HG_TRY(graph_.status());
    for (Node& node : nodes) {
      for (ValueId& id : node.inputs)
        if (const auto found = now_.find(id); found != now_.end()) id = found->second;
      GraphAccess::push_node(graph_, std::move(node));
    }
    remove_dead_nodes(graph_);
    forget(graph_, {});
    return {};
  }

 private:
  // Sets the number of past positions to 0.
  Status forget_past(const std::vector<CarriedValue>& pairs) {
    Bindings none;
    std::set<std::string> known;
    for (const CarriedValue& pair : pairs) {
      const Shape before = graph_.value_info(input_named(graph_, pair.input)).type.shape,
                  after = graph_.value_info(output_named(graph_, pair.output)).type.shape;
      for (size_t d = 0; d < std::min(before.size(), after.size()); ++d) {
        if (before[d] == after[d]) continue;
        const std::string symbol(before[d].symbol());
        if (symbol.empty())
          return unsupported("dim ", static_cast<int>(d), " of '", pair.input, "' is ", before[d],
                             ", not a symbol that could be 0");
        if (known.insert(symbol).second) HG_TRY(none.bind(symbol, 0));
      }
    }
    fix_sizes(graph_, none);
    return {};
  }

  ValueId wanted(const std::string& name) const {
    return std::find(keep_.begin(), keep_.end(), name) == keep_.end() ? input_named(graph_, name)
                                                                      : kNoValue;
  }

  template <class Make>
  void replace(ValueId input, const Make& make) {
    if (input == kNoValue) return;
    const TensorType type = graph_.value_info(input).type;
    now_[input] = make(graph_, type).id();
    std::erase(GraphAccess::body(graph_).inputs, input);
  }

  Graph& graph_;
  std::span<const std::string> keep_;
  std::map<ValueId, ValueId> now_;
};

std::string description(const StatefulOptions& options) {
  std::string text = str_cat("stateful ", options.capacity);
  if (options.stored) text += str_cat("\n", *options.stored);
  for (const auto* const sizes : {&options.dims, &options.capacities})
    for (const auto& [symbol, size] : *sizes) text += str_cat("\n", symbol, "=", size);
  for (const CarriedValue& each : options.carried)
    text += str_cat("\n", each.output, "\n", each.input);
  return text;
}

}  // namespace

std::string scale_name(std::string_view input) { return str_cat(input, ".scale"); }

std::vector<CarriedValue> carried_values(const Graph& graph) {
  std::vector<CarriedValue> found;
  for (const auto& [output, id] : graph.outputs()) {
    const auto suffix = present_suffix(output);
    if (!suffix) continue;
    for (const ValueId in : graph.inputs()) {
      const std::string& input = graph.value_info(in).name;
      if (past_suffix(input) != suffix) continue;
      found.push_back({output, input});
      break;
    }
  }
  return found;
}

Result<Model> make_stateful(const Model& model, const StatefulOptions& options) {
  return or_no_memory([&]() -> Result<Model> {
    HG_TRY(model.graph().status());
    HG_CHECK(!options.stored || *options.stored == f16 || *options.stored == bf16 ||
                 *options.stored == f32 || *options.stored == i8,
             "a past is stored as f32, f16, bf16 or i8, not as ", *options.stored);
    HG_CHECK(options.capacity > 0, "a capacity of ", options.capacity, " holds nothing");
    for (const auto& [symbol, capacity] : options.capacities)
      HG_CHECK(capacity > 0, "a capacity of ", capacity, " for '", symbol, "' holds nothing");
    Graph graph(model.graph());
    HG_TRY(Stateful(graph, options).run());
    HG_TRY(graph.verify());
    HG_TRY_ASSIGN(Model stateful, Model::from_graph(std::move(graph)));
    stateful.set_info(model.info());
    GraphAccess::share_companions(model.graph(), description(options), stateful.graph());
    return stateful;
  });
}

Result<Model> make_stateless(const Model& model, std::span<const std::string> keep) {
  return or_no_memory([&]() -> Result<Model> {
    HG_TRY(model.graph().status());
    Graph graph(model.graph());
    take_training_state(graph);
    HG_TRY(Stateless(graph, keep).run());
    HG_TRY(graph.verify());
    HG_TRY_ASSIGN(Model stateless, Model::from_graph(std::move(graph)));
    stateless.set_info(model.info());
    return stateless;
  });
}

}  // namespace hg
