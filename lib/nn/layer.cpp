// SPDX-License-Identifier: Apache-2.0
// Functions of all layers: parameters, calls in a graph, immediate calls, text.
#include "lib/nn/layer.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/graph/split_mix.h"
#include "lib/graph/state_names.h"
#include "lib/nn/recurrent.h"

namespace hg::nn {
namespace {

using Body = Layer::Body;

std::string number_name(size_t index) { return str_cat(static_cast<int64_t>(index), "."); }

// -- Parameters -----------------------------------------------------------------------------------

Status fill(const Body& body, Body::State& own) {
  HG_TRY_ASSIGN(const TensorData made,
                first_contents(own.dtype, own.shape, own.rule, body.zero_row));
  if (!own.array) {
    HG_TRY_ASSIGN(own.array, Array::copy_of(made.tensor));
    return {};
  }
  copy_elements(made.tensor, own.array.tensor());  // all holders of the array see the new contents
  own.array.touch();
  return {};
}

// An incomplete layer stores the seed until it is complete.
Status initialise(Body& body, uint64_t& state) {
  for (const Layer& layer : body.layers) HG_TRY(initialise(LayerAccess::body(layer), state));
  for (Body::State& own : body.states) {
    own.rule.seed = split_mix(state);
    if (body.open.empty()) HG_TRY(fill(body, own));
  }
  body.is_initialised = true;
  return {};
}

// Completes a layer from its first x.
Status learn_from(Body& body, const TensorType& x) {
  if (body.open.empty()) return {};
  HG_TRY_ASSIGN(const Layer whole, complete(body, x));
  Body next = LayerAccess::body(whole);
  for (size_t i = 0; i < next.states.size(); ++i) {
    next.states[i].rule.seed = body.states[i].rule.seed;
    HG_TRY(fill(next, next.states[i]));
  }
  next.is_training = body.is_training;
  next.is_initialised = true;
  body = std::move(next);
  return {};
}

Status need_states(Body& body) {
  if (body.is_initialised) return {};
  uint64_t state = 0;
  return initialise(body, state);
}

// Visits the states by the names that they have in the outermost layer.
Status each_state(Body& body, const std::string& prefix,
                  const std::function<Status(const std::string&, Body::State&)>& visit) {
  for (size_t i = 0; i < body.layers.size(); ++i)
    HG_TRY(each_state(LayerAccess::body(body.layers[i]), prefix + number_name(i), visit));
  for (Body::State& state : body.states) HG_TRY(visit(prefix + state.name, state));
  return {};
}

Status none_open(const Body& body) {
  HG_CHECK(body.open.empty(), body.kind, "(", body.arguments, ") has no parameters yet: it learns ",
           body.open, " from the first x that it is called with");
  for (const Layer& layer : body.layers) HG_TRY(none_open(LayerAccess::body(layer)));
  return {};
}

Result<NamedArrays> states_of(Body& body, bool parameters) {
  HG_TRY(none_open(body));
  HG_TRY(need_states(body));
  NamedArrays found;
  HG_TRY(each_state(body, "", [&](const std::string& name, Body::State& state) -> Status {
    if (state.is_parameter == parameters) found.emplace_back(name, state.array);
    return {};
  }));
  return found;
}

// The state of the graph with this name or alias, or null.
const State* find_state(const Graph& graph, std::string_view name) {
  for (const State& state : graph.states())
    if (state.kind != State::Kind::constant && has_name(state, name)) return &state;
  return nullptr;
}

// -- In a graph -----------------------------------------------------------------------------------

Result<Value> state_in(Graph& graph, const Body::State& own, const std::string& name) {
  HG_TRY(own.array.to_host());
  if (const State* const known = find_state(graph, name)) {
    HG_CHECK(known->data.tensor.data == own.array.tensor().data, "the graph has another '", name,
             "' already; give the layer another prefix");
    return graph.value(known->value);
  }
  HG_TRY_ASSIGN(TensorData data, own.array.data());
  return own.is_parameter ? graph.parameter(name, std::move(data))
                          : graph.buffer(name, std::move(data));
}

Result<Value> add_to(Graph& graph, Body& body, const Value& x, const Value& target,
                     const std::string& prefix) {
  if (body.is_sequential()) {
    Value y = x;
    for (size_t i = 0; i < body.layers.size(); ++i) {
      HG_TRY_ASSIGN(
          y, add_to(graph, LayerAccess::body(body.layers[i]), y, target, prefix + number_name(i)));
    }
    return y;
  }
  HG_CHECK(body.takes_target == static_cast<bool>(target), body.kind,
           body.takes_target ? " takes x and a target" : " takes x alone");
  HG_TRY(learn_from(body, {x.dtype(), x.shape()}));
  const auto state_of = [&](const Body::State& own) {
    return state_in(graph, own, prefix + own.name);
  };
  std::vector<Value> inputs, states;
  for (const int slot : body.inputs) {
    Value input = slot == Body::kX ? x : slot == Body::kTarget ? target : Value();
    if (slot >= 0) {
      HG_TRY_ASSIGN(input, state_of(body.states[slot]));
    }
    inputs.push_back(input);
  }
  if (body.recurrent)
    for (const Body::State& own : body.states) {
      HG_TRY_ASSIGN(states.emplace_back(), state_of(own));
    }
  const Origin before = GraphAccess::body(graph).origin;
  std::string module = before.module;
  if (!prefix.empty()) module += (module.empty() ? "" : ".") + prefix.substr(0, prefix.size() - 1);
  graph.set_origin({module, before.source});
  HG_TRY_ASSIGN(const NamedAttrs attrs, attrs_for(body, {x.dtype(), x.shape()}));
  const auto call = [&](std::string_view op, std::span<const Value> values,
                        const NamedAttrs& given) -> Result<std::vector<Value>> {
    std::vector<Value> made = graph.calls(op, values, given);
    HG_TRY(graph.status());
    return made;
  };
  const Result<std::vector<Value>> outputs =
      body.recurrent ? run_recurrent<Value>(body, {x.dtype(), x.shape()}, x, {}, states, call)
                     : call(body.op, inputs, attrs);
  graph.set_origin(before);
  HG_TRY(outputs.status());
  return (*outputs)[0];
}

// -- At once --------------------------------------------------------------------------------------

Result<Array> run(ExecutorBase& ex, Body& body, const Operand& x, const Operand& target,
                  bool has_target) {
  if (body.is_sequential()) {
    Array held;
    const Operand* now = &x;
    Operand next;
    for (const Layer& layer : body.layers) {
      HG_TRY_ASSIGN(held, run(ex, LayerAccess::body(layer), *now, target, has_target));
      next = Operand(held);
      now = &next;
    }
    if (body.layers.empty()) return ex.call("detach", {x});
    return held;
  }
  HG_CHECK(body.takes_target == has_target, body.kind,
           body.takes_target ? " takes x and a target" : " takes x alone");
  if (!body.open.empty()) {
    HG_TRY(ex.call("detach", {x}).status());  // reports an error of x itself
    HG_CHECK(x.shape() != nullptr, body.kind, " learns ", body.open, " from x, which is a number");
    HG_TRY(learn_from(body, {f32, to_shape(*x.shape())}));
  }
  if (body.recurrent) {
    HG_TRY_ASSIGN(const Array held, ex.call("detach", {x}));
    std::vector<Array> states;
    for (const Body::State& own : body.states) states.push_back(own.array);
    const auto call = [&](std::string_view op, const std::vector<Array>& arrays,
                          const NamedAttrs& given) {
      std::vector<Operand> operands;
      for (const Array& each : arrays) operands.push_back(each ? Operand(each) : Operand());
      return ex.calls(op, operands, given);
    };
    HG_TRY_ASSIGN(
        const std::vector<Array> outputs,
        run_recurrent<Array>(body, {held.dtype(), to_shape(held.shape())}, held, {}, states, call));
    return outputs[0];
  }
  std::vector<Operand> inputs;
  for (const int slot : body.inputs)
    inputs.push_back(slot == Body::kX        ? x
                     : slot == Body::kTarget ? target
                     : slot == Body::kAbsent ? Operand()
                                             : Operand(body.states[slot].array));
  HG_CHECK(x.shape() != nullptr || !body.flattened, body.kind, " takes a tensor, not a number");
  HG_TRY_ASSIGN(NamedAttrs attrs,
                attrs_for(body, {f32, x.shape() != nullptr ? to_shape(*x.shape()) : Shape()}));
  if (body.has_mode) attrs.push_back({"training", body.is_training});
  HG_TRY_ASSIGN(const std::vector<Array> outputs, ex.calls(body.op, inputs, attrs));
  if (!body.is_training) return outputs[0];
  for (size_t i = 0; i < body.moved.size(); ++i) {
    Array& state = body.states[body.moved[i]].array;
    HG_TRY(outputs[i + 1].to_host());
    copy_elements(outputs[i + 1], state.tensor());
    state.touch();
  }
  for (Body::State& state : body.states)
    if (!state.is_read) ++*state.array.write<int64_t>();
  return outputs[0];
}

// -- Text -----------------------------------------------------------------------------------------

void append(std::string& out, const Body& body, const std::string& indent) {
  out += body.kind + "(" + body.arguments;
  for (size_t i = 0; i < body.layers.size(); ++i) {
    out += "\n" + indent + str_cat("  (", static_cast<int64_t>(i), "): ");
    append(out, LayerAccess::body(body.layers[i]), indent + "  ");
  }
  out += (body.layers.empty() ? "" : "\n" + indent) + std::string(")");
}

}  // namespace

Result<TensorData> first_contents(DType dtype, const Sizes& shape, const init::Rule& rule,
                                  int64_t zero_row) {
  Graph graph;  // used to fill parameters by their rule
  const Value value = graph.parameter("x", dtype, shape, rule);
  HG_TRY(graph.status());
  const auto index = static_cast<size_t>(graph.value_info(value.id()).state);
  TensorData made = graph.states()[index].data;
  if (zero_row >= 0) {
    const int64_t row = shape[1] * size_of(dtype);
    std::memset(made.tensor.as<std::byte>() + zero_row * row, 0, row);
  }
  return made;
}

Result<NamedAttrs> attrs_for(const Body& body, const TensorType& x) {
  NamedAttrs attrs = body.attrs;
  if (!body.flattened) return attrs;
  const int64_t rank = x.rank();
  const auto at = [&](int64_t dim) { return dim < 0 ? dim + rank : dim; };
  const int64_t first = at(body.flattened->first), last = at(body.flattened->second);
  HG_CHECK(first >= 0 && first <= last && last < rank, body.kind, "(", body.arguments,
           ") does not fit x, which is ", x);
  std::vector<Dim> shape(x.shape.begin(), x.shape.begin() + first);
  Dim size = 1;
  for (int64_t dim = first; dim <= last; ++dim) size = size * x.shape[dim];
  shape.push_back(size);
  shape.insert(shape.end(), x.shape.begin() + last + 1, x.shape.end());
  attrs.push_back({"shape", std::move(shape)});
  return attrs;
}

Result<Layer> complete(const Body& body, const TensorType& x) {
  const int dim = body.open_dim < 0 ? x.rank() + body.open_dim : body.open_dim;
  HG_CHECK(dim >= 0 && dim < x.rank(), body.kind, " learns ", body.open, " from dim ",
           body.open_dim, " of x, which is ", x);
  const Dim& size = x.shape[dim];
  HG_CHECK(size.is_constant(), body.kind, " learns ", body.open, " from dim ", body.open_dim,
           " of x, which is ", x, ": a number there, or the setting, must say it");
  Settings settings = body.settings;
  for (auto& [name, value] : settings)
    if (name == body.open) value = size;
  return make_layer(body.kind, settings);
}

// -- The public side ------------------------------------------------------------------------------

Value Layer::operator()(const Value& x, std::string_view prefix) const {
  Graph& graph = *x.graph();
  if (Status status = need_states(*body_); !status.ok()) return graph.fail(std::move(status));
  std::string begin(prefix);
  if (!begin.empty() && !begin.ends_with('.')) begin += '.';
  Result<Value> y = add_to(graph, *body_, x, {}, begin);
  return y.ok() ? *y : graph.fail(y.status());
}

Value Layer::operator()(const Value& x, const Value& target) const {
  Graph& graph = *x.graph();
  if (Status status = need_states(*body_); !status.ok()) return graph.fail(std::move(status));
  Result<Value> y = add_to(graph, *body_, x, target, "");
  return y.ok() ? *y : graph.fail(y.status());
}

Result<Array> Layer::operator()(ExecutorBase& ex, const Operand& x) const {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY(need_states(*body_));
    return run(ex, *body_, x, {}, false);
  });
}

Result<Array> Layer::operator()(ExecutorBase& ex, const Operand& x, const Operand& target) const {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY(need_states(*body_));
    return run(ex, *body_, x, target, true);
  });
}

void Layer::train(bool training) {
  body_->is_training = training;
  for (Layer& layer : body_->layers) layer.train(training);
}

bool Layer::is_training() const { return body_->is_training; }

Status Layer::initialise(uint64_t seed) {
  return or_no_memory([&]() -> Status {
    uint64_t state = seed;
    return nn::initialise(*body_, state);
  });
}

Result<NamedArrays> Layer::parameters() const {
  return or_no_memory([&]() -> Result<NamedArrays> { return states_of(*body_, true); });
}
Result<NamedArrays> Layer::buffers() const {
  return or_no_memory([&]() -> Result<NamedArrays> { return states_of(*body_, false); });
}

Status Layer::load(const Graph& graph, std::string_view prefix) {
  return or_no_memory([&]() -> Status {
    HG_TRY(none_open(*body_));
    HG_TRY(need_states(*body_));
    std::string begin(prefix);
    if (!begin.empty() && !begin.ends_with('.')) begin += '.';
    // Checks all states before changing any.
    for (const bool copies : {false, true})
      HG_TRY(each_state(*body_, begin, [&](const std::string& name, Body::State& own) -> Status {
        const State* const found = find_state(graph, name);
        if (found == nullptr && !own.is_read) return {};
        if (found == nullptr) return not_found("the graph has no '", name, "'");
        const Tensor& from = found->data.tensor;
        HG_CHECK(from.dtype == own.dtype && from.shape == own.shape, "'", name, "' is ", from.dtype,
                 from.shape, " in the graph, ", own.dtype, own.shape, " in the layer");
        if (!copies) return {};
        copy_elements(from, own.array.tensor());
        own.array.touch();
        return {};
      }));
    return {};
  });
}

std::string Layer::text() const {
  std::string out;
  append(out, *body_, "");
  return out;
}

void append_text(std::string& out, const Layer& layer) { out += layer.text(); }

}  // namespace hg::nn
