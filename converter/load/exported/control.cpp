// SPDX-License-Identifier: Apache-2.0
// Turns higher-order ops of an exported program into TorchScript's if and loop, or into plain
// nodes. Their subgraphs use only their operands.
#include <limits>

#include "converter/core/failure.h"
#include "converter/load/exported/graph.h"
#include "converter/load/exported/weights.h"
#include "converter/rows/rows.h"

namespace hg::convert {
namespace {

using Json = nlohmann::json;

const Json& graph_of(const Json& inputs, size_t at) {
  return inputs.at(at).at("arg").at("as_graph").at("graph");
}

bool flag_of(const Json& inputs, size_t at) {
  return inputs.at(at).at("arg").at("as_bool").get<bool>();
}

// A loop's condition is read twice, before the loop and in it. So nested loops in conditions
// multiply.
class InCondition {
 public:
  explicit InCondition(int& depth) : depth_(depth) {
    constexpr int kMost = 4;
    if (++depth_ <= kMost) return;
    --depth_;
    throw Failure{Exit::unsupported, "conditions of the program's loops are nested too deeply"};
  }
  ~InCondition() { --depth_; }
  InCondition(const InCondition&) = delete;
  InCondition& operator=(const InCondition&) = delete;

 private:
  int& depth_;
};

// Returns the dtype of autocast on the CPU: bf16 if the region names none. In regions with dtypes
// other than f16 and bf16, autocast has no effect in PyTorch.
std::optional<DType> autocast_dtype(const Json& argument) {
  if (!argument.contains("as_scalar_type")) return bf16;
  const DType dtype =
      dtype_of_torch(torch_dtype_of_schema(argument.at("as_scalar_type").get<int64_t>()));
  return dtype == bf16 || dtype == f16 ? std::optional(dtype) : std::nullopt;
}

}  // namespace

std::vector<ExportedGraph::Value> ExportedGraph::operands(const Json& inputs, size_t from,
                                                          const Scope& scope, ScriptBlock& block) {
  std::vector<Value> result;
  for (size_t i = from; i < inputs.size(); ++i) {
    const Json& given = inputs[i].at("arg");
    const auto& [kind, value] = kind_of(given);
    if (kind == "as_tensors") {
      for (const Json& one : value)
        result.push_back(argument(Json{{"as_tensor", one}}, scope, block));
    } else if (kind == "as_sym_ints") {
      for (const Json& one : value)
        result.push_back(argument(Json{{"as_sym_int", one}}, scope, block));
    } else if (kind == "as_ints") {
      for (const Json& one : value) result.push_back(argument(Json{{"as_int", one}}, scope, block));
    } else {
      result.push_back(argument(given, scope, block));
    }
  }
  return result;
}

std::vector<ExportedGraph::Value> ExportedGraph::inlined(const Json& graph,
                                                         const std::vector<Value>& operands,
                                                         ScriptBlock& block) {
  const Json& inputs = graph.at("inputs");
  if (inputs.size() != operands.size())
    throw Failure{Exit::unreadable,
                  str_cat("a graph of ", static_cast<int64_t>(inputs.size()),
                          " inputs is called with ", static_cast<int64_t>(operands.size()))};
  Scope scope;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Json& input = kind_of(inputs[i]).second;
    const char* key = input.contains("name") ? "name" : "as_name";
    if (input.is_object() && input.contains(key))
      scope[input.at(key).get<std::string>()] = operands[i];
  }
  read_nodes(graph, scope, block);
  std::vector<Value> results;
  for (const Json& output : graph.at("outputs")) results.push_back(argument(output, scope, block));
  return results;
}

void ExportedGraph::read_higher_order(const Json& node, std::string_view op, Scope& scope,
                                      ScriptBlock& block) {
  if (op == "cond") return read_cond(node, scope, block);
  if (op == "while_loop") return read_while(node, scope, block);
  if (op == "scan") return read_each(node, true, scope, block);
  if (op == "map_impl") return read_each(node, false, scope, block);
  if (op == "associative_scan") return read_associative_scan(node, scope, block);
  if (op == "wrap_with_set_grad_enabled") return read_gradient_region(node, scope, block);
  if (op == "wrap_with_autocast") return read_autocast_region(node, scope, block);
  if (op == "with_effects") return read_effect(node, scope, block);
  const Json& inputs = node.at("inputs");
  if (op == "invoke_subgraph")  // inputs: the graph, its name, the operands
    return bind(node.at("outputs"),
                inlined(graph_of(inputs, 0), operands(inputs, 2, scope, block), block), scope,
                block);
  throw Refusal{"the higher-order op is not supported", ""};
}

// cond(condition, graph, graph, operands)
void ExportedGraph::read_cond(const Json& node, Scope& scope, ScriptBlock& block) {
  const Json& inputs = node.at("inputs");
  Value condition = argument(inputs.at(0).at("arg"), scope, block);
  if (condition.type == "Tensor")
    condition = emit({"aten::Bool", "Tensor", {"a"}, {condition}, {"bool"}}, block)[0];
  const std::vector<Value> given = operands(inputs, 3, scope, block);
  Call call{"prim::If", "", {}, {condition}, output_types(node.at("outputs"))};
  for (const size_t way : {1u, 2u}) {
    ScriptBlock inner;
    for (const Value& output : inlined(graph_of(inputs, way), given, inner))
      inner.outputs.push_back(output.id);
    if (inner.outputs.size() != call.types.size())
      throw Refusal{"a branch returns another number of results than the op", ""};
    call.blocks.push_back(std::move(inner));
  }
  bind(node.at("outputs"), emit(std::move(call), block), scope, block);
}

// while_loop(graph of the condition, graph of the body, carried values, further operands)
void ExportedGraph::read_while(const Json& node, Scope& scope, ScriptBlock& block) {
  const Json& inputs = node.at("inputs");
  std::vector<Value> carried = operands(Json::array({inputs.at(2)}), 0, scope, block);
  const std::vector<Value> further = operands(inputs, 3, scope, block);
  const auto asked = [&](std::vector<Value> state, ScriptBlock& in) {
    const InCondition reading(conditions_);
    state.insert(state.end(), further.begin(), further.end());
    const Value condition = inlined(graph_of(inputs, 0), state, in).at(0);
    return condition.type == "Tensor"
               ? emit({"aten::Bool", "Tensor", {"a"}, {condition}, {"bool"}}, in)[0]
               : condition;
  };
  Call call{"prim::Loop", "", {}, {}, output_types(node.at("outputs"))};
  call.inputs.push_back(constant(std::numeric_limits<int64_t>::max(), "int", block));
  call.inputs.push_back(asked(carried, block));
  ScriptBlock body;
  body.inputs.push_back(fresh("int").id);
  std::vector<Value> state;
  for (const Value& value : carried) {
    call.inputs.push_back(value);
    state.push_back(fresh(value.type));
    body.inputs.push_back(state.back().id);
  }
  std::vector<Value> all = state;
  all.insert(all.end(), further.begin(), further.end());
  const std::vector<Value> next = inlined(graph_of(inputs, 1), all, body);
  if (next.size() != carried.size() || call.types.size() != carried.size())
    throw Refusal{"the body returns another number of results than the loop carries", ""};
  body.outputs.push_back(asked(next, body).id);
  for (const Value& value : next) body.outputs.push_back(value.id);
  call.blocks.push_back(std::move(body));
  bind(node.at("outputs"), emit(std::move(call), block), scope, block);
}

std::vector<ExportedGraph::Value> ExportedGraph::rounds(const Value& count,
                                                        const std::vector<Value>& carried,
                                                        const std::vector<Value>& lists,
                                                        const Round& round, ScriptBlock& block) {
  Call call{"prim::Loop", "", {}, {count, constant(true, "bool", block)}, {}};
  ScriptBlock body;
  const Value at = fresh("int");
  body.inputs.push_back(at.id);
  std::vector<Value> state;
  for (const Value& value : carried) {
    call.inputs.push_back(value);
    call.types.push_back(value.type);
    state.push_back(fresh(value.type));
    body.inputs.push_back(state.back().id);
  }
  const std::vector<Value> results = round(at, state, body);
  if (results.size() != carried.size() + lists.size())
    throw Refusal{"the graph returns another number of results than the op", ""};
  body.outputs.push_back(constant(true, "bool", body).id);
  for (size_t k = 0; k < results.size(); ++k)
    if (k < carried.size())
      body.outputs.push_back(results[k].id);
    else
      append(lists[k - carried.size()], results[k], body);
  call.blocks.push_back(std::move(body));
  return emit(std::move(call), block);
}

void ExportedGraph::append(const Value& to, const Value& element, ScriptBlock& block) {
  emit({"aten::append", "t", {"self", "el"}, {to, element}, {"List[Tensor]"}}, block);
}

std::vector<ExportedGraph::Value> ExportedGraph::empty_lists(size_t count, ScriptBlock& block) {
  std::vector<Value> lists;
  for (size_t k = 0; k < count; ++k) lists.push_back(list({}, "List[Tensor]", block));
  return lists;
}

ExportedGraph::Value ExportedGraph::selected(const Value& x, const Value& dim, const Value& index,
                                             ScriptBlock& block) {
  return emit({"aten::select", "int", {"self", "dim", "index"}, {x, dim, index}, {"Tensor"}},
              block)[0];
}

ExportedGraph::Value ExportedGraph::stacked(const Value& tensors, const Value& dim,
                                            ScriptBlock& block) {
  return emit({"aten::stack", "", {"tensors", "dim"}, {tensors, dim}, {"Tensor"}}, block)[0];
}

// scan(graph, carried, xs, further operands) and map_impl(graph, xs, further operands): run the
// graph for each x along the first dim and stack its results.
void ExportedGraph::read_each(const Json& node, bool scan, Scope& scope, ScriptBlock& block) {
  const Json& inputs = node.at("inputs");
  const auto group = [&](size_t at) {
    return operands(Json::array({inputs.at(at)}), 0, scope, block);
  };
  const std::vector<Value> carried = scan ? group(1) : std::vector<Value>();
  const std::vector<Value> xs = group(scan ? 2 : 1);
  const std::vector<Value> further = operands(inputs, scan ? 3 : 2, scope, block);
  const size_t results = node.at("outputs").size();
  if (xs.empty() || results < carried.size()) throw Refusal{"there is nothing to go through", ""};

  const Value first = constant(0, "int", block);
  const std::vector<Value> lists = empty_lists(results - carried.size(), block);
  const auto round = [&](const Value& at, std::vector<Value> all, ScriptBlock& body) {
    for (const Value& x : xs) all.push_back(selected(x, first, at, body));
    all.insert(all.end(), further.begin(), further.end());
    return inlined(graph_of(inputs, 0), all, body);
  };
  const Value count =
      emit({"aten::size", "int", {"self", "dim"}, {xs[0], first}, {"int"}}, block)[0];
  std::vector<Value> outputs = rounds(count, carried, lists, round, block);
  for (const Value& each : lists) outputs.push_back(stacked(each, first, block));
  bind(node.at("outputs"), outputs, scope, block);
}

// associative_scan(graph, xs, further operands): y_0 = x_0 and y_i = graph(y_(i-1), x_i). An
// associative graph allows any order; this is the order of the elements.
void ExportedGraph::read_associative_scan(const Json& node, Scope& scope, ScriptBlock& block) {
  const Json& inputs = node.at("inputs");
  const std::vector<Value> xs = operands(Json::array({inputs.at(1)}), 0, scope, block);
  const std::vector<Value> further = operands(inputs, 2, scope, block);
  if (xs.empty()) throw Refusal{"there is nothing to go through", ""};
  const Value first = constant(0, "int", block), one = constant(1, "int", block);
  const std::vector<Value> lists = empty_lists(xs.size(), block);
  std::vector<Value> before;
  for (size_t k = 0; k < xs.size(); ++k) {
    before.push_back(selected(xs[k], first, first, block));
    append(lists[k], before[k], block);
  }
  const auto round = [&](const Value& at, std::vector<Value> all, ScriptBlock& body) {
    const Value next = compute("_operator.add", {at, one}, "int", body);
    for (const Value& x : xs) all.push_back(selected(x, first, next, body));
    all.insert(all.end(), further.begin(), further.end());
    std::vector<Value> made = inlined(graph_of(inputs, 0), all, body);
    const std::vector<Value> kept = made;
    made.insert(made.end(), kept.begin(), kept.end());  // carried values, and elements to stack
    return made;
  };
  const Value size =
      emit({"aten::size", "int", {"self", "dim"}, {xs[0], first}, {"int"}}, block)[0];
  rounds(compute("_operator.sub", {size, one}, "int", block), before, lists, round, block);
  std::vector<Value> outputs;
  for (const Value& each : lists) outputs.push_back(stacked(each, first, block));
  bind(node.at("outputs"), outputs, scope, block);
}

// wrap_with_set_grad_enabled(enabled, graph, operands...)
void ExportedGraph::read_gradient_region(const Json& node, Scope& scope, ScriptBlock& block) {
  const Json& inputs = node.at("inputs");
  const bool before = gradients_;
  const auto set = [&](bool on) {
    gradients_ = on;
    emit({"aten::set_grad_enabled", "", {"val"}, {constant(on, "bool", block)}, {"NoneType"}},
         block);
  };
  const std::vector<Value> given = operands(inputs, 2, scope, block);
  set(flag_of(inputs, 0));
  const std::vector<Value> results = inlined(graph_of(inputs, 1), given, block);
  set(before);
  bind(node.at("outputs"), results, scope, block);
}

// with_effects(token, op, arguments...): returns a token and the results of the op. The token
// orders effects and has no data.
void ExportedGraph::read_effect(const Json& node, Scope& scope, ScriptBlock& block) {
  Json inner = node;
  Json &inputs = inner.at("inputs"), &outputs = inner.at("outputs");
  if (inputs.size() < 2 || outputs.empty()) throw Refusal{"the op with effects has no token", ""};
  inner.at("target") = inputs.at(1).at("arg").at("as_operator");
  inputs.erase(inputs.begin(), inputs.begin() + 2);
  outputs.erase(outputs.begin());
  std::erase_if(outputs.get_ref<Json::array_t&>(),
                [](const Json& output) { return output.contains("as_none"); });
  if (inner.at("target").get<std::string>().starts_with("torch.ops.higher_order."))
    throw Refusal{"the higher-order op has effects, which is not supported", ""};
  read_node(inner, scope, block);
}

// wrap_with_autocast(device, dtype, enabled, cache, graph, operands...)
void ExportedGraph::read_autocast_region(const Json& node, Scope& scope, ScriptBlock& block) {
  const Json& inputs = node.at("inputs");
  const std::string device = inputs.at(0).at("arg").at("as_string").get<std::string>();
  const bool on = flag_of(inputs, 2);
  if (on && device != "cpu")
    throw Refusal{str_cat("a region of autocast for the device '", device,
                          "' casts by rules that are not known here; save "
                          "program.run_decompositions(), in which the casts are written out"),
                  ""};
  const std::vector<Value> given = operands(inputs, 5, scope, block);
  const std::optional<DType> outer = autocast_;
  if (device == "cpu") autocast_ = on ? autocast_dtype(inputs.at(1).at("arg")) : std::nullopt;
  const std::vector<Value> results = inlined(graph_of(inputs, 4), given, block);
  autocast_ = outer;
  bind(node.at("outputs"), results, scope, block);
}

}  // namespace hg::convert
