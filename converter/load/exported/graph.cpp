// SPDX-License-Identifier: Apache-2.0
#include "converter/load/exported/graph.h"

#include <algorithm>
#include <limits>
#include <map>

#include "converter/core/failure.h"
#include "converter/interpret/autocast.h"
#include "converter/load/exported/aten_defaults.h"
#include "converter/load/exported/weights.h"
#include "converter/load/source_place.h"
#include "hg/status.h"

namespace hg::convert {
namespace {

using Json = nlohmann::json;

// Counts the nesting depth of graphs and arguments; an exception also restores it.
class Nesting {
 public:
  explicit Nesting(int& depth) : depth_(depth) {
    constexpr int kMost = 100;
    if (++depth_ <= kMost) return;
    --depth_;
    throw Failure{Exit::unsupported, "the program's graphs are nested too deeply"};
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

// Returns the innermost module from the module stack, which consists of entries like
// "L__self__conv,conv,torch.nn.modules.conv.Conv2d".
std::string module_of(const Json& metadata) {
  const std::string stack = metadata.value("nn_module_stack", "");
  const std::string last = stack.substr(stack.rfind(';') + 1);
  const size_t first = last.find(','), second = last.find(',', first + 1);
  if (second == std::string::npos) return "";
  const std::string path = last.substr(first + 1, second - first - 1);
  return path.starts_with("_empty_nn_module_stack") ? "" : path;
}

// Returns the innermost line of the model's own code, or of PyTorch's if the model has none.
std::string source_of(const Json& metadata) {
  const std::string stack = metadata.value("stack_trace", "");
  std::string place;
  for (size_t at = 0; at < stack.size();) {
    const size_t end = std::min(stack.find('\n', at), stack.size());
    const std::string line = stack.substr(at, end - at);
    at = end + 1;
    const size_t open = line.find("File \""), close = line.find("\", line ");
    if (open == std::string::npos || close == std::string::npos) continue;
    const std::string path = line.substr(open + 6, close - open - 6);
    const bool torch = path.find("torch/") != std::string::npos || path.starts_with("<");
    if (torch && !place.empty()) continue;
    const std::string number = line.substr(close + 8);
    place = short_path(path) + ":" + number.substr(0, number.find(','));
  }
  return place;
}

double real(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string word = value.get<std::string>();
  if (word == "Infinity") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw Refusal{str_cat("the number '", word, "'"), ""};
}

Item complex_number(const Json& value) {
  auto object = std::make_shared<Object>();
  object->type = kComplexNumber;
  object->attributes = {{"real", Item(real(value.at("real")))},
                        {"imag", Item(real(value.at("imag")))}};
  return object;
}

int64_t torch_memory_format(int64_t format) {
  constexpr int64_t kOfSchema[] = {0, 0, 2, 3, 1};  // contiguous, channels last 2d and 3d, preserve
  if (format < 1 || format > 4) throw Refusal{str_cat("the memory format ", format), ""};
  return kOfSchema[format];
}

template <class Get>
Item items(const Json& values, const Get& get) {
  auto list = std::make_shared<List>();
  for (const Json& value : values) list->items.emplace_back(get(value));
  return list;
}

// Returns the arguments that an op writes its results to, as in mul(a, b, out=c). The file has no
// schemas, but the overload and the argument names identify them.
std::vector<int> places_of_outs(std::string_view overload, const std::vector<std::string>& names) {
  std::vector<int> outs;
  const bool has_outs = overload == "out" || overload.ends_with("_out");
  const bool has_values = overload.ends_with("values") || overload == "values_stable";
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i];
    if ((has_outs && (name == "out" || (name.size() == 4 && name.starts_with("out")))) ||
        (has_values && (name == "values" || name == "indices")) ||
        (overload == "dim_max" && (name == "max" || name == "max_values")) ||
        (overload == "dim_min" && (name == "min" || name == "min_indices")))
      outs.push_back(static_cast<int>(i));
  }
  return outs;
}

}  // namespace

std::pair<std::string, const Json&> kind_of(const Json& all) {
  if (!all.is_object() || all.size() != 1)
    throw Failure{Exit::unreadable, str_cat("the program has ", all.dump().substr(0, 200),
                                            " where one kind of value is due; save it again")};
  return {all.begin().key(), all.begin().value()};
}

ExportedGraph::Value ExportedGraph::named(const std::string& name, const Scope& scope) const {
  const auto found = scope.find(name);
  if (found == scope.end())
    throw Failure{Exit::unreadable, str_cat("the value '", name,
                                            "' is used before it is made; save the program again")};
  return found->second;
}

std::vector<ExportedGraph::Value> ExportedGraph::emit(Call call, ScriptBlock& block) {
  ScriptNode node;
  node.kind = std::move(call.kind);
  node.overload = std::move(call.overload);
  node.argument_names = std::move(call.names);
  if (node.kind.starts_with("aten::"))
    node.outs = places_of_outs(node.overload, node.argument_names);
  for (const Value& input : call.inputs) node.inputs.push_back(input.id);
  node.output_types = std::move(call.types);
  node.blocks = std::move(call.blocks);
  node.origin = origin_;
  if (autocast_) set_autocast(node, *autocast_);
  std::vector<Value> results;
  for (const std::string& type : node.output_types) {
    results.push_back(fresh(type));
    node.outputs.push_back(results.back().id);
  }
  block.nodes.push_back(std::move(node));
  return results;
}

ExportedGraph::Value ExportedGraph::constant(Item item, std::string type, ScriptBlock& block) {
  const Value value = emit({"prim::Constant", "", {}, {}, {std::move(type)}}, block)[0];
  block.nodes.back().constant = std::move(item);
  return value;
}

ExportedGraph::Value ExportedGraph::list(const std::vector<Value>& elements,
                                         const std::string& type, ScriptBlock& block) {
  return emit({"prim::ListConstruct", "", {}, elements, {type}}, block)[0];
}

ExportedGraph::Value ExportedGraph::argument(const Json& argument, const Scope& scope,
                                             ScriptBlock& block) {
  const Nesting nesting(depth_);
  const std::pair<std::string, const Json&> given = kind_of(argument);
  const std::string& kind = given.first;
  const Json& value = given.second;
  const auto element = [&](const Json& one) { return this->argument(one, scope, block); };
  // SymInt, SymFloat and SymBool are a name or a number.
  const auto sym = [&](const Json& one) {
    return one.contains("as_name") ? named(one.at("as_name").get<std::string>(), scope)
                                   : element(one);
  };
  const auto all = [&](const auto& get, const std::string& type) {
    std::vector<Value> elements;
    for (const Json& one : value) elements.push_back(get(one));
    return list(elements, type, block);
  };
  const auto tensor = [&](const Json& one) {
    return named(one.at("name").get<std::string>(), scope);
  };
  if (kind == "as_tensor") return tensor(value);
  if (kind == "as_none") return constant(Item(), "NoneType", block);
  if (kind == "as_tensors") return all(tensor, "List[Tensor]");
  if (kind == "as_optional_tensor") return element(value);
  if (kind == "as_optional_tensors") return all(element, "List[Optional[Tensor]]");
  if (kind == "as_nested_tensors") {
    std::vector<Value> lists;
    for (const Json& inner : value) lists.push_back(element(Json{{"as_tensors", inner}}));
    return list(lists, "List[List[Tensor]]", block);
  }
  if (kind == "as_int") return constant(value.get<int64_t>(), "int", block);
  if (kind == "as_float") return constant(real(value), "float", block);
  if (kind == "as_bool") return constant(value.get<bool>(), "bool", block);
  if (kind == "as_string") return constant(value.get<std::string>(), "str", block);
  if (kind == "as_complex") return constant(complex_number(value), "complex", block);
  if (kind == "as_ints")
    return constant(items(value, [](const Json& v) { return v.get<int64_t>(); }), "List[int]",
                    block);
  if (kind == "as_floats") return constant(items(value, real), "List[float]", block);
  if (kind == "as_bools")
    return constant(items(value, [](const Json& v) { return v.get<bool>(); }), "List[bool]", block);
  if (kind == "as_strings")
    return constant(items(value, [](const Json& v) { return v.get<std::string>(); }), "List[str]",
                    block);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return sym(value);
  if (kind == "as_sym_ints") return all(sym, "List[int]");
  if (kind == "as_sym_floats") return all(sym, "List[float]");
  if (kind == "as_sym_bools") return all(sym, "List[bool]");
  if (kind == "as_scalar_type")
    return constant(torch_dtype_of_schema(value.get<int64_t>()), "int", block);
  if (kind == "as_memory_format")
    return constant(torch_memory_format(value.get<int64_t>()), "int", block);
  if (kind == "as_layout") {
    if (value.get<int64_t>() != 7) throw Refusal{"a sparse layout is not supported", ""};
    return constant(0, "int", block);
  }
  // Models exported on a GPU run on the CPU here.
  if (kind == "as_device") return constant(std::string("cpu"), "Device", block);
  throw Refusal{str_cat("an argument of the kind '", kind.substr(std::min<size_t>(3, kind.size())),
                        "' is not supported"),
                ""};
}

std::vector<std::string> ExportedGraph::output_types(const Json& outputs) {
  static const std::map<std::string, std::string> kTypes = {
      {"as_tensor", "Tensor"}, {"as_tensors", "List[Tensor]"},
      {"as_none", "NoneType"}, {"as_optional_tensor", "Tensor"},
      {"as_sym_int", "int"},   {"as_sym_float", "float"},
      {"as_sym_bool", "bool"}, {"as_int", "int"},
      {"as_float", "float"},   {"as_bool", "bool"}};
  std::vector<std::string> types;
  for (const Json& output : outputs) {
    const std::string kind = kind_of(output).first;
    const auto found = kTypes.find(kind);
    if (found == kTypes.end())
      throw Refusal{str_cat("a result of the kind '", kind, "' is not supported"), ""};
    types.push_back(found->second);
  }
  return types;
}

void ExportedGraph::bind(const Json& outputs, const std::vector<Value>& values, Scope& scope,
                         ScriptBlock& block) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [kind, output] = kind_of(outputs[i]);
    if (kind == "as_tensor") {
      scope[output.at("name").get<std::string>()] = values.at(i);
    } else if (kind == "as_optional_tensor") {
      if (output.contains("as_tensor"))
        scope[output.at("as_tensor").at("name").get<std::string>()] = values.at(i);
    } else if (kind == "as_tensors") {
      const std::vector<Value> elements = emit({"prim::ListUnpack",
                                                "",
                                                {},
                                                {values.at(i)},
                                                std::vector<std::string>(output.size(), "Tensor")},
                                               block);
      for (size_t k = 0; k < elements.size(); ++k)
        scope[output[k].at("name").get<std::string>()] = elements[k];
    } else if (output.is_object() && output.contains("as_name")) {
      scope[output.at("as_name").get<std::string>()] = values.at(i);
    }
  }
}

void ExportedGraph::read_nodes(const Json& graph, Scope& scope, ScriptBlock& block) {
  const Nesting nesting(depth_);
  const Origin outer = origin_;
  const Json& nodes = graph.at("nodes");
  for (size_t i = 0; i < nodes.size(); ++i)
    if (begins_vmap(nodes[i]))
      i = read_vmap(graph, i, scope, block);
    else
      read_node(nodes[i], scope, block);
  origin_ = outer;
}

void ExportedGraph::read_node(const Json& node, Scope& scope, ScriptBlock& block) {
  const Json& metadata = node.at("metadata");
  origin_ = {module_of(metadata), source_of(metadata)};
  const std::string target = node.at("target").get<std::string>();
  constexpr std::string_view kHigherOrder = "torch.ops.higher_order.", kOps = "torch.ops.";
  // In PyTorch, vmap loads a table with this call; it has no effect here.
  if (target == "torch._functorch.predispatch.lazy_load_decompositions") return;
  try {
    if (target.starts_with(kHigherOrder))
      read_higher_order(node, std::string_view(target).substr(kHigherOrder.size()), scope, block);
    else if (target.starts_with(kOps))
      read_op(node, std::string_view(target).substr(kOps.size()), scope, block);
    else
      read_number_op(node, target, scope, block);
  } catch (const Refusal& refusal) {
    leave_out(node, refusal, scope, block);
  }
}

void ExportedGraph::leave_out(const Json& node, const Refusal& refusal, Scope& scope,
                              ScriptBlock& block) {
  const Json& outputs = node.at("outputs");
  const std::vector<Value> missing = emit({node.at("target").get<std::string>(),
                                           "",
                                           {},
                                           {},
                                           std::vector<std::string>(outputs.size(), "Tensor")},
                                          block);
  block.nodes.back().trouble = refusal.reason;
  bind(outputs, missing, scope, block);
}

void ExportedGraph::read_op(const Json& node, std::string_view target, Scope& scope,
                            ScriptBlock& block) {
  const size_t dot = target.find('.'), second = target.find('.', dot + 1);
  if (dot == target.npos || second == target.npos)
    throw Failure{Exit::unreadable,
                  str_cat("the op '", target, "' has no namespace or no overload")};
  Call call;
  call.kind = str_cat(target.substr(0, dot), "::", target.substr(dot + 1, second - dot - 1));
  call.overload = target.substr(second + 1);
  if (call.overload == "default") call.overload.clear();
  if (read_assertion(node, call.kind, scope, block)) return;
  if (call.kind == "export::access_subclass_inner_tensor") return read_part(node, scope, block);
  if (call.kind.starts_with("aten::sym_")) call.kind.erase(6, 4);  // sym_size becomes size
  if (call.kind == "aten::_local_scalar_dense") call.kind = "aten::item";
  if (!call.kind.starts_with("aten::") &&
      std::find(foreign_.begin(), foreign_.end(), call.kind) == foreign_.end())
    foreign_.push_back(call.kind);

  const auto defaults = aten_defaults(call.kind, call.overload);
  const auto is_default = [&](const std::string& name) {
    return std::any_of(defaults.begin(), defaults.end(),
                       [&](const auto& each) { return each.first == name; });
  };
  std::map<std::string, const Json*> given;
  for (const Json& input : node.at("inputs")) {
    const std::string name = input.at("name").get<std::string>();
    given[name] = &input.at("arg");
    if (is_default(name)) continue;
    call.names.push_back(name);
    call.inputs.push_back(argument(input.at("arg"), scope, block));
  }
  for (const auto& [name, item] : defaults) {
    const auto found = given.find(name);
    call.names.push_back(name);
    call.inputs.push_back(found != given.end() ? argument(*found->second, scope, block)
                                               : constant(item, "default", block));
  }
  call.types = output_types(node.at("outputs"));
  const bool of_layout = call.kind == "aten::storage_offset" || call.kind == "aten::stride";
  const std::vector<Value> results = emit(std::move(call), block);
  for (const Value& result : results)
    if (of_layout) of_layout_.insert(result.id);
  bind(node.at("outputs"), results, scope, block);
}

void ExportedGraph::read_part(const Json& node, Scope& scope, ScriptBlock& block) {
  const Json& inputs = node.at("inputs");
  const std::string of = inputs.at(0).at("arg").at("as_tensor").at("name").get<std::string>(),
                    part = inputs.at(1).at("arg").at("as_string").get<std::string>();
  const auto found = scope.find(str_cat(of, ".", part));
  if (found == scope.end())
    throw Refusal{str_cat("the file holds no tensor '", part, "' of ", of), ""};
  bind(node.at("outputs"), {Value(found->second)}, scope, block);
}

void ExportedGraph::read_number_op(const Json& node, std::string_view target, Scope& scope,
                                   ScriptBlock& block) {
  std::vector<Value> arguments;
  for (const Json& input : node.at("inputs"))
    arguments.push_back(argument(input.at("arg"), scope, block));
  const Json& outputs = node.at("outputs");
  const std::vector<std::string> types = output_types(outputs);
  if (types.size() != 1) throw Refusal{"the function does not give one number", ""};
  bind(outputs, {compute(target, arguments, types[0], block)}, scope, block);
}

ExportedGraph::Value ExportedGraph::compute(std::string_view target,
                                            const std::vector<Value>& arguments,
                                            const std::string& result, ScriptBlock& block) {
  static const std::map<std::string_view, std::string_view> kKinds = {
      {"_operator.add", "aten::add"},
      {"_operator.sub", "aten::sub"},
      {"_operator.mul", "aten::mul"},
      {"_operator.floordiv", "aten::floordiv"},
      {"_operator.mod", "aten::remainder"},
      {"_operator.truediv", "aten::div"},
      {"_operator.pow", "aten::pow"},
      {"_operator.neg", "aten::neg"},
      {"_operator.eq", "aten::eq"},
      {"_operator.ne", "aten::ne"},
      {"_operator.lt", "aten::lt"},
      {"_operator.le", "aten::le"},
      {"_operator.gt", "aten::gt"},
      {"_operator.ge", "aten::ge"},
      {"_operator.and_", "aten::__and__"},
      {"_operator.or_", "aten::__or__"},
      {"_operator.lshift", "aten::__lshift__"},
      {"_operator.rshift", "aten::__rshift__"},
      {"torch.sym_not", "aten::__not__"},
      {"torch.sym_max", "prim::max"},
      {"torch.sym_min", "prim::min"},
      {"torch.sym_int", "aten::Int"},
      {"torch.sym_float", "aten::Float"},
      {"math.trunc", "aten::Int"},
      {"math.ceil", "aten::ceil"},
      {"math.floor", "aten::floor"},
      {"torch.sym_sqrt", "aten::sqrt"},
      {"torch._sym_sqrt", "aten::sqrt"},
      {"torch.sym_log2", "aten::log2"},
      {"torch._sym_log2", "aten::log2"},
      {"_operator.abs", "prim::abs"},
  };
  const auto type = [&](size_t i) { return arguments.at(i).type; };
  // Functions that return their argument unchanged.
  const bool same = target == "_operator.pos" || (target == "torch.sym_int" && type(0) == "int") ||
                    (target == "torch.sym_float" && type(0) == "float") ||
                    ((target == "math.trunc" || target == "math.floor" || target == "math.ceil") &&
                     type(0) == "int");
  if (same) return arguments.at(0);
  if (target == "torch.sym_ite") {
    Call call{"prim::If", "", {}, {arguments.at(0)}, {result}};
    for (size_t way : {1u, 2u}) call.blocks.push_back({{}, {}, {arguments.at(way).id}});
    return emit(std::move(call), block)[0];
  }
  const auto found = kKinds.find(target);
  if (found == kKinds.end())
    throw Refusal{target.starts_with("torch._functorch.")
                      ? "it is a part of a transform of torch.func; save "
                        "program.run_decompositions(), in which these are written out"
                      : "the function is not supported",
                  ""};
  std::string overload = type(0);
  if (arguments.size() == 2 && type(0) != type(1)) overload += "_" + type(1);
  if (found->second == "aten::pow" && overload == "int") overload = "int_to_int";
  if (found->second == "aten::__not__" || found->second == "prim::abs") overload.clear();
  const std::vector<std::string> names =
      arguments.size() == 2 ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{"a"};
  const Value value =
      emit({std::string(found->second), overload, names, arguments, {result}}, block)[0];
  for (const Value& each : arguments)
    if (of_layout_.contains(each.id)) of_layout_.insert(value.id);
  return value;
}

}  // namespace hg::convert
