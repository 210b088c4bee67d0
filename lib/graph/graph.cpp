// SPDX-License-Identifier: Apache-2.0
// Builds graphs. Every call is checked and typed as it is added.
#include "hg/graph.h"

#include <algorithm>

#include "lib/graph/access.h"
#include "lib/graph/dim_text.h"
#include "lib/graph/element.h"
#include "lib/graph/lacks.h"
#include "lib/graph/split_mix.h"

namespace hg {

Graph::Graph() : Graph(Registry::built_in()) {}
Graph::Graph(const Registry& registry) : Graph(std::make_unique<GraphBody>()) {
  body_->registry = &registry;
}
Graph::Graph(std::unique_ptr<GraphBody> body) : body_(std::move(body)) {
  if (body_ != nullptr) body_->graph = this;
}
Graph::Graph(Graph&& other) noexcept : Graph(std::move(other.body_)) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  body_ = std::move(other.body_);
  if (body_ != nullptr) body_->graph = this;
  return *this;
}
Graph::Graph(const Graph& other)
    : Graph(other.body_ == nullptr ? nullptr : std::make_unique<GraphBody>(*other.body_)) {}
Graph& Graph::operator=(const Graph& other) {
  if (this != &other) *this = Graph(other);
  return *this;
}
Graph::~Graph() = default;

const GraphBody& GraphAccess::body(const Graph& graph) {
  static const GraphBody kNone = [] {
    GraphBody none;
    none.registry = &Registry::built_in();
    none.status = invalid_argument("the graph was moved from; assign a graph to it first");
    return none;
  }();
  return graph.body_ == nullptr ? kNone : *graph.body_;
}

void GraphAccess::share_companions(const Graph& original, const std::string& how, Graph& graph) {
  GraphCompanions& companions = *body(original).companions;
  GraphBody& made = body(graph);
  const std::lock_guard<std::mutex> looking(companions.mutex);
  std::erase_if(companions.made, [](const auto& other) { return other.second.expired(); });
  for (const auto& [text, others] : companions.made)
    if (text == how)
      if (auto found = others.lock()) {
        made.companions = std::move(found);
        return;
      }
  companions.made.emplace_back(how, made.companions);
  companions.is_used = true;
}

ValueId GraphAccess::add_value(Graph& graph, TensorType type, std::string_view name) {
  GraphBody& b = body(graph);
  const auto id = static_cast<ValueId>(b.values.size());
  b.values.push_back({std::move(type), "", -1, -1});
  rename(graph, id, name);
  return id;
}

void GraphAccess::rename(Graph& graph, ValueId id, std::string_view name) {
  GraphBody& b = body(graph);
  std::string& current = b.values[id].name;
  if (current == name) return;
  if (!current.empty()) b.names.erase(current);
  std::string candidate(name);
  while (!b.names.emplace(candidate, id).second)
    candidate = str_cat(name, "_", ++b.name_counters[std::string(name)]);
  b.values[id].name = std::move(candidate);
}

void GraphAccess::push_node(Graph& graph, Node node) {
  GraphBody& b = body(graph);
  for (const ValueId id : node.outputs) b.values[id].node = static_cast<int32_t>(b.nodes.size());
  b.nodes.push_back(std::move(node));
}

namespace {

// Runs `build`. If memory runs out during it, the graph is broken.
template <class Build>
std::invoke_result_t<Build> built(Graph& graph, Build&& build) {
  struct Broken {
    Graph* graph;
    ~Broken() {
      if (graph != nullptr) graph->fail(Status::no_memory());
    }
  } broken{&graph};
  std::invoke_result_t<Build> result = build();
  broken.graph = nullptr;
  return result;
}

}  // namespace

Value Graph::fail(Status status) {
  if (body_ != nullptr && body_->status.ok()) body_->status = std::move(status);
  return Value(this, kNoValue);
}

Value Graph::input(std::string name, DType dtype, Shape shape) {
  if (body_ == nullptr) return {};
  if (name.empty()) name = str_cat("input_", int64_t(body_->inputs.size()));
  if (body_->names.contains(name))
    return fail(invalid_argument("there are two values named '", name, "'"));
  if (shape.size() > kMaxRank)
    return fail(invalid_argument("input '", name, "' has rank ", int64_t(shape.size()),
                                 "; the limit is ", kMaxRank));
  for (const Dim& dim : shape)
    if (!is_size(dim))
      return fail(invalid_argument("input '", name, "' has the size '", dim,
                                   "'; expected 0 or more, or a name such as 'n'"));
  return built(*this, [&] {
    const ValueId id = GraphAccess::add_value(*this, {dtype, std::move(shape)}, name);
    body_->inputs.push_back(id);
    return value(id);
  });
}

namespace {

Value add_state(Graph& graph, State::Kind kind, std::string name, TensorData data) {
  GraphBody& body = GraphAccess::body(graph);
  if (data.empty()) return graph.fail(invalid_argument("the state '", name, "' has no data"));
  if (!data.tensor.is_contiguous())
    return graph.fail(invalid_argument("the state '", name, "' is not contiguous"));
  const bool named = !name.empty();
  if (!named) name = "constant";
  if (kind != State::Kind::constant && body.names.contains(name))
    return graph.fail(invalid_argument("there are two values named '", name, "'"));
  const TensorType type{data.tensor.dtype, to_shape(data.tensor.shape)};
  return built(graph, [&] {
    const ValueId id = GraphAccess::add_value(graph, type, name);
    ValueInfo& info = body.values[id];
    info.state = static_cast<int32_t>(body.states.size());
    body.states.push_back({kind, info.name, std::move(data), id, {}});
    return graph.value(id);
  });
}

double uniform01(uint64_t& state) { return static_cast<double>(split_mix(state) >> 11) * 0x1p-53; }

void fill(const Tensor& tensor, const init::Rule& rule) {
  double scale = 1;
  if (rule.scale_by_fan_in && tensor.rank() > 0) {
    int64_t fan_in = 1;
    for (int i = tensor.rank() > 1 ? 1 : 0; i < tensor.rank(); ++i) fan_in *= tensor.shape[i];
    if (fan_in > 0) scale = 1 / __builtin_sqrt(static_cast<double>(fan_in));
  }
  uint64_t state = rule.seed;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double value = rule.a;
    if (rule.kind == init::Rule::Kind::uniform) {
      value = scale * (rule.a + (rule.b - rule.a) * uniform01(state));
    } else if (rule.kind == init::Rule::Kind::normal) {  // Box and Muller 1958
      const double radius = __builtin_sqrt(-2 * __builtin_log(1 - uniform01(state)));
      value = rule.a + rule.b * radius * __builtin_cos(6.283185307179586 * uniform01(state));
    }
    set_element(tensor, i, value);
  }
}

}  // namespace

Value Graph::parameter(std::string name, DType dtype, const Sizes& shape, const init::Rule& rule) {
  Result<TensorData> data = TensorData::allocate(dtype, shape);
  if (!data.ok()) return fail(data.status());
  fill(data->tensor, rule);
  return parameter(std::move(name), *std::move(data));
}

Value Graph::parameter(std::string name, TensorData data) {
  if (body_ == nullptr) return {};
  return add_state(*this, State::Kind::parameter, std::move(name), std::move(data));
}

Value Graph::buffer(std::string name, TensorData data) {
  if (body_ == nullptr) return {};
  return add_state(*this, State::Kind::buffer, std::move(name), std::move(data));
}

Value Graph::constant(TensorData data, std::string name) {
  if (body_ == nullptr) return {};
  return add_state(*this, State::Kind::constant, std::move(name), std::move(data));
}

void Graph::set_requires_grad(Value parameter, bool required) {
  if (!status().ok()) return;
  const int32_t state =
      parameter && parameter.graph() == this ? value_info(parameter.id()).state : -1;
  if (state < 0 || body_->states[state].kind != State::Kind::parameter) {
    fail(invalid_argument("'", parameter.name(), "' is not a parameter of this graph"));
    return;
  }
  body_->changes();
  body_->states[state].requires_grad = required;
}

void Graph::add_alias(Value state, std::string name) {
  if (!status().ok()) return;
  if (!state || state.graph() != this || value_info(state.id()).state < 0) {
    fail(invalid_argument("'", name, "' cannot be another name of '", state.name(),
                          "', which is not a state"));
    return;
  }
  body_->changes();
  body_->states[value_info(state.id()).state].aliases.push_back(std::move(name));
}

Value Graph::scalar(double value, DType dtype) {
  if (!holds(dtype, value))
    return fail(invalid_argument("the number ", value, " does not fit a tensor of ", dtype));
  Result<TensorData> data = TensorData::allocate(dtype, {});
  if (!data.ok()) return fail(data.status());
  fill(data->tensor, init::constant(value));
  return constant(*std::move(data));
}

Value Graph::scalar(int64_t value, DType dtype) {
  if (dtype != i64) return scalar(static_cast<double>(value), dtype);
  Result<TensorData> data = TensorData::allocate(i64, {});
  if (!data.ok()) return fail(data.status());
  *data->tensor.as<int64_t>() = value;
  return constant(*std::move(data));
}

Value Graph::call(std::string_view op, std::span<const Value> inputs, const NamedAttrs& attrs) {
  std::vector<Value> outputs = calls(op, inputs, attrs);
  if (outputs.empty()) return Value(this, kNoValue);
  return outputs[0];
}

namespace {

// The stream of a random op without one: above the numbers that users typically choose.
void give_stream(Node& node, size_t place) {
  constexpr int64_t kFirst = 1 << 20;
  const int at = node.op->signature.find_attribute("stream");
  if (at < 0) return;
  const Dim* const given = std::get_if<Dim>(&node.attrs[at].value);
  if (given != nullptr && *given == Dim(-1))
    node.attrs[at] = Attr(kFirst + static_cast<int64_t>(place));
}

}  // namespace

std::vector<Value> Graph::calls(std::string_view op_name, std::span<const Value> inputs,
                                const NamedAttrs& attrs,
                                std::vector<std::shared_ptr<Graph>> subgraphs) {
  const Op* op = registry().find(op_name);
  if (op == nullptr) {
    if (!kHoldsAll) {
      fail(lacks(str_cat("the op '", op_name, "'")));
      return {};
    }
    const std::string_view near = registry().closest(op_name);
    fail(unsupported("the op '", op_name, "' is not registered",
                     near.empty() ? "" : str_cat("; did you mean '", near, "'?")));
    return {};
  }
  std::vector<Value> broken(op->signature.outputs.size(), Value(this, kNoValue));
  if (!status().ok()) return broken;

  const auto& expected = op->signature.inputs;
  const bool variadic = !expected.empty() && expected.back().variadic;
  if (inputs.size() > expected.size() && !variadic) {
    fail(invalid_argument(op_name, ": takes ", int64_t(expected.size()), " inputs, not ",
                          int64_t(inputs.size()), "; the signature is ", op->def.signature));
    return broken;
  }
  Node node;
  node.op = op;
  node.origin = body_->origin;
  node.subgraphs = std::move(subgraphs);
  for (const Value& input : inputs) {
    const size_t i = node.inputs.size();
    if (input && input.graph() != this) {
      fail(invalid_argument(op_name, ": input ", int64_t(i), " belongs to another graph"));
      return broken;
    }
    node.inputs.push_back(input.id());
  }
  while (node.inputs.size() < expected.size() && !expected[node.inputs.size()].variadic)
    node.inputs.push_back(kNoValue);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Signature::Input& slot = expected[std::min(i, expected.size() - 1)];
    if (node.inputs[i] == kNoValue && !slot.optional) {
      fail(invalid_argument(op_name, ": input '", slot.name, "' is missing; the signature is ",
                            op->def.signature));
      return broken;
    }
  }
  Result<std::vector<Attr>> normal = GraphAccess::normalize_attrs(*op, attrs);
  if (!normal.ok()) {
    fail(normal.status());
    return broken;
  }
  node.attrs = *std::move(normal);
  if ((op->def.traits & kRandom) != 0) give_stream(node, body_->nodes.size());

  GraphAccess::InferCall call = GraphAccess::infer_call(*this, node);
  call.graph = this;
  call.assumptions = body_->assumptions;
  Result<std::vector<TensorType>> types = GraphAccess::infer(call);
  if (!types.ok()) {
    fail(types.status());
    return broken;
  }
  return built(*this, [&] {
    std::vector<Value> outputs;
    for (TensorType& type : *types) {
      const ValueId id = GraphAccess::add_value(
          *this, std::move(type),
          str_cat(op_name, "_", ++body_->name_counters[std::string(op_name)]));
      node.outputs.push_back(id);
      outputs.push_back(value(id));
    }
    GraphAccess::push_node(*this, std::move(node));
    return outputs;
  });
}

void Graph::assign(Value state, Value new_value) {
  if (!status().ok()) return;
  if (!state || state.graph() != this || value_info(state.id()).state < 0 ||
      states()[value_info(state.id()).state].kind == State::Kind::constant) {
    fail(invalid_argument("assign: '", state.name(), "' is not a parameter or buffer"));
    return;
  }
  if (!new_value || new_value.graph() != this ||
      value_info(state.id()).type != value_info(new_value.id()).type) {
    fail(invalid_argument("assign: '", state.name(), "' is ", value_info(state.id()).type,
                          ", the new value is ", TensorType{new_value.dtype(), new_value.shape()}));
    return;
  }
  body_->changes();
  for (auto& [target, source] : body_->assignments)
    if (target == state.id()) {
      source = new_value.id();
      return;
    }
  body_->assignments.emplace_back(state.id(), new_value.id());
}

void Graph::output(std::string name, Value value) {
  if (!status().ok()) return;
  if (name.empty()) name = str_cat("output_", int64_t(body_->outputs.size()));
  if (!value || value.graph() != this) {
    fail(invalid_argument("output '", name, "' is not a value of this graph"));
    return;
  }
  for (const auto& [other, id] : body_->outputs)
    if (other == name) {
      fail(invalid_argument("there are two outputs named '", name, "'"));
      return;
    }
  body_->changes();
  body_->outputs.emplace_back(std::move(name), value.id());
}

void Graph::set_origin(Origin origin) {
  if (body_ != nullptr) body_->origin = std::move(origin);
}

void Graph::guard(Dim left, Relation relation, Dim right, std::string reason) {
  if (body_ == nullptr) return;
  Guard guard{std::move(left), relation, std::move(right), std::move(reason), body_->origin};
  if (const std::optional<bool> known = truth(guard)) {
    if (*known) return;
    Status status = check(guard, Bindings());
    fail(status.ok() ? invalid_argument("no size is such that ", guard) : std::move(status));
    return;
  }
  const bool is_new =
      std::none_of(body_->guards.begin(), body_->guards.end(), [&](const Guard& other) {
        return other.left == guard.left && other.relation == guard.relation &&
               other.right == guard.right;
      });
  body_->changes();
  if (is_new) body_->guards.push_back(std::move(guard));
}

const std::vector<Guard>& Graph::guards() const { return GraphAccess::body(*this).guards; }

Dim Graph::fresh_symbol() {
  if (body_ == nullptr) return Dim("u0");
  const std::vector<std::string> taken = symbols();
  for (;;) {
    const std::string name = str_cat("u", body_->fresh_count++);
    if (std::find(taken.begin(), taken.end(), name) == taken.end())
      return Dim(std::string_view(name));
  }
}

const Status& Graph::status() const { return GraphAccess::body(*this).status; }
Status Graph::take_status() {
  return body_ == nullptr ? status() : std::exchange(body_->status, Status());
}
const Registry& Graph::registry() const { return *GraphAccess::body(*this).registry; }
const std::vector<Node>& Graph::nodes() const { return GraphAccess::body(*this).nodes; }
const std::vector<State>& Graph::states() const { return GraphAccess::body(*this).states; }
const ValueInfo& Graph::value_info(ValueId id) const { return GraphAccess::body(*this).values[id]; }
int32_t Graph::value_count() const {
  return static_cast<int32_t>(GraphAccess::body(*this).values.size());
}
const std::vector<ValueId>& Graph::inputs() const { return GraphAccess::body(*this).inputs; }
const std::vector<std::pair<std::string, ValueId>>& Graph::outputs() const {
  return GraphAccess::body(*this).outputs;
}
const std::vector<std::pair<ValueId, ValueId>>& Graph::assignments() const {
  return GraphAccess::body(*this).assignments;
}

std::vector<std::string> Graph::symbols() const {
  std::vector<std::string> symbols;
  for (const ValueId id : GraphAccess::body(*this).inputs)
    for (const Dim& dim : value_info(id).type.shape) dim.collect_symbols(symbols);
  return symbols;
}

const TensorData* Graph::constant_of(ValueId id) const {
  if (id == kNoValue) return nullptr;
  const int32_t state = value_info(id).state;
  if (state < 0) return nullptr;
  const State& s = GraphAccess::body(*this).states[state];
  return s.kind == State::Kind::constant ? &s.data : nullptr;
}

Value::Value(Graph* graph, ValueId id)
    : body_(graph == nullptr ? nullptr : graph->body_.get()), id_(id) {}

Graph* Value::graph() const {
  static Graph nowhere = GraphAccess::without_body();
  return body_ == nullptr ? &nowhere : body_->graph;
}

DType Value::dtype() const { return *this ? body_->values[id_].type.dtype : f32; }

const Shape& Value::shape() const {
  static const Shape kNone;
  return *this ? body_->values[id_].type.shape : kNone;
}

const Dim& Value::dim(int i) const {
  static const Dim kZero;
  const int at = i < 0 ? i + rank() : i;
  return at >= 0 && at < rank() ? shape()[at] : kZero;
}

const std::string& Value::name() const {
  static const std::string kNone;
  return *this ? body_->values[id_].name : kNone;
}

}  // namespace hg
