// SPDX-License-Identifier: Apache-2.0
// Turns libtorch's module, with all calls inlined, into a ScriptProgram.
#include "converter/load/load.h"

#include <ATen/ops/view_as_real.h>
#include <caffe2/serialize/file_adapter.h>
#include <caffe2/serialize/inline_container.h>
#include <dlfcn.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "converter/load/levels.h"
#include "converter/load/source_place.h"
#include "converter/load/torchscript/archive_ops.h"
#include "converter/load/torchscript/inline.h"
#include "converter/load/torchscript/load_failure.h"
#include "converter/load/torchscript/packed_weights.h"
#include "converter/load/torchscript/quantized.h"
#include "converter/load/torchscript/torch_module.h"
#include "converter/load/torchscript/torchvision.h"
#include "converter/rows/rows.h"

namespace hg::convert {
namespace {

namespace jit = torch::jit;

jit::Operation cannot_run(std::string op) {
  return [op = std::move(op)](jit::Stack&) {
    throw std::runtime_error("libtorch does not have the op " + op);
  };
}

// Returns an implementation that copies the arguments that the results are declared to be like.
jit::Operation stand_in(const CustomOp& custom, std::vector<std::string> arguments) {
  return [custom, arguments = std::move(arguments)](jit::Stack& stack) {
    const size_t first = stack.size() - arguments.size();
    std::vector<c10::IValue> results;
    for (const auto& [name, input] : custom.likes) {
      const c10::IValue* like = nullptr;
      for (size_t i = 0, tensors = 0; i < arguments.size(); ++i) {
        const c10::IValue& given = stack[first + i];
        if (!given.isTensor()) continue;
        if (arguments[i] == name || (!like && tensors == static_cast<size_t>(input))) like = &given;
        ++tensors;
      }
      if (!like) throw std::runtime_error(custom.name + " gets no tensor '" + name + "'");
      results.emplace_back(like->toTensor().clone());
    }
    stack.resize(first);
    for (c10::IValue& result : results) stack.push_back(std::move(result));
  };
}

// Declares an op with arguments of any type and tensor results, which suffices for loading.
void declare_unknown(const std::string& op, const OpUse& use, const CustomOp* custom) {
  std::vector<c10::Argument> arguments, results;
  std::vector<std::string> names;
  for (int i = 0; i < use.positional; ++i)
    arguments.emplace_back("argument_" + std::to_string(i), c10::AnyType::get(), c10::nullopt,
                           c10::IValue());
  for (const std::string& keyword : use.keywords)
    arguments.emplace_back(keyword, c10::AnyType::get(), c10::nullopt, c10::IValue(), true);
  for (const c10::Argument& argument : arguments) names.push_back(argument.name());
  const int count = custom && !custom->bare ? static_cast<int>(custom->likes.size()) : use.results;
  for (int i = 0; i < count; ++i) results.emplace_back("", c10::TensorType::get());
  jit::registerOperator(jit::Operator(op, "", std::move(arguments), std::move(results),
                                      custom ? stand_in(*custom, std::move(names)) : cannot_run(op),
                                      c10::AliasAnalysisKind::CONSERVATIVE));
}

std::vector<std::string> declare_missing_ops(const std::string& path,
                                             const std::vector<CustomOp>& custom) {
  declare_torchvision();
  caffe2::serialize::PyTorchStreamReader reader(
      std::make_unique<caffe2::serialize::FileAdapter>(path));
  std::map<std::string, OpUse> uses;
  for (const std::string& record : reader.getAllRecords()) {
    if (!record.starts_with("code/") || !record.ends_with(".py")) continue;
    auto [data, size] = reader.getRecord(record);
    find_op_uses({static_cast<const char*>(data.get()), size}, uses);
  }
  std::vector<std::string> unknown;
  for (const auto& [op, use] : uses) {
    if (op.starts_with("aten::") || op.starts_with("prim::")) continue;
    const auto& known = jit::getAllOperatorsFor(c10::Symbol::fromQualString(op));
    // An earlier file of the batch may have declared it with fewer arguments.
    bool ours = !known.empty() && known.front()->schema().arguments().size() > 0 &&
                known.front()->schema().arguments()[0].name() == "argument_0";
    if (!known.empty() && !ours) continue;
    if (ours) jit::deregisterOperator(known.front()->schema());
    const auto declared =
        std::find_if(custom.begin(), custom.end(),
                     [kind = op](const CustomOp& each) { return each.kind() == kind; });
    declare_unknown(op, use, declared == custom.end() ? nullptr : &*declared);
    unknown.push_back(op);
  }
  return unknown;
}

// Returns the source line in the model's own code, or in the archive's code if the former is
// unknown.
std::string source_line(const jit::SourceRange& range) {
  auto origin = range.findSourceRangeThatGenerated();
  const jit::SourceRange& best = origin ? *origin : range;
  if (auto place = best.file_line_col()) {
    if (std::get<0>(*place).empty()) return "";
    return short_path(std::get<0>(*place)) + ":" + std::to_string(std::get<1>(*place));
  }
  if (!best.source()) return "";
  // A trace has a Python stack instead: "/path/model.py(12): forward", innermost first.
  std::string stack = best.text().str();
  std::string first;
  for (size_t at = 0; at < stack.size();) {
    size_t end = std::min(stack.find('\n', at), stack.size());
    std::string line = stack.substr(at, end - at);
    at = end + 1;
    size_t open = line.rfind('('), close = line.rfind("): ");
    if (open == std::string::npos || close == std::string::npos || close < open) continue;
    std::string place =
        short_path(line.substr(0, open)) + ":" + line.substr(open + 1, close - open - 1);
    if (first.empty()) first = place;
    // A line in the model's code is more useful than the line in torch.nn that it calls.
    if (line.find("/torch/") == std::string::npos) return place;
  }
  return first;
}

// Returns the type in Python's syntax, with the fields of a NamedTuple: Tuple[a: Tensor, b: int].
std::string type_text(const c10::Type& type) {
  const auto all = [&](const std::string& head) {
    std::string inner;
    auto tuple = type.cast<c10::TupleType>();
    size_t k = 0;
    for (const c10::TypePtr& element : type.containedTypes()) {
      inner += inner.empty() ? "" : ", ";
      if (tuple && tuple->schema()) inner += tuple->schema()->arguments()[k].name() + ": ";
      inner += type_text(*element);
      ++k;
    }
    return head + "[" + inner + "]";
  };
  switch (type.kind()) {
    case c10::TypeKind::TupleType:
      return all("Tuple");
    case c10::TypeKind::ListType:
      return all("List");
    case c10::TypeKind::DictType:
      return all("Dict");
    case c10::TypeKind::OptionalType:
      return all("Optional");
    default:
      return type.annotation_str();
  }
}

// Returns the type of the numbers in a list, or in lists in it; empty for other types.
std::string numbers_of(c10::TypePtr type) {
  if (type->kind() != c10::TypeKind::ListType) return "";
  while (auto list = type->cast<c10::ListType>()) type = list->getElementType();
  const std::string text = type->str();
  return text == "int" || text == "float" || text == "bool" ? text : "";
}

class ProgramReader {
 public:
  ProgramReader(ScriptProgram& program, TorchModule& torch) : program_(program), torch_(torch) {}

  void read() {
    register_tensors(torch_.module._ivalue(), "");
    program_.root = object(torch_.module._ivalue(), "");
    program_.body = block(torch_.graph->block());
    if (!refused_.empty()) {
      std::string names;
      for (const std::string& name : refused_) names += (names.empty() ? "" : ", ") + name;
      throw Failure{Exit::unsupported, "tensors of a kind that a .hgm file cannot hold: " + names +
                                           "; convert them to dense real tensors in the model"};
    }
    program_.value_count = torch_.id_count;
    for (size_t i = 0; i < torch_.tensors.size(); ++i) {
      ScriptTensor& entry = program_.tensors[i];
      entry.data = data_of(torch_.tensors[i], entry.kind != State::Kind::parameter);
      entry.row_major = torch_.tensors[i].is_contiguous();
      entry.complex = is_pairs(torch_.tensors[i]);
      entry.requires_grad = torch_.tensors[i].requires_grad();
    }
  }

  ScriptInput input(const c10::Argument& argument) {
    ScriptInput result{argument.name(), type_text(*argument.type()), false, {}};
    if (auto value = argument.default_value(); value && !value->isTensor()) {
      result.has_default = true;
      result.default_value = item(*value, "");
    }
    return result;
  }

 private:
  using Identity =
      std::tuple<const void*, int64_t, std::vector<int64_t>, std::vector<int64_t>, int>;

  // Returns the index in ScriptProgram::tensors; adds an entry on the first call.
  int32_t index_of(const at::Tensor& tensor, const std::string& name, State::Kind kind) {
    std::string trouble = unfit(tensor);
    if (!trouble.empty()) {
      refused_.insert((name.empty() ? "a constant" : name) + " (" + trouble + ")");
      return -1;
    }
    Identity identity{tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset(),
                      tensor.sizes().vec(), tensor.strides().vec(),
                      static_cast<int>(tensor.scalar_type())};
    // Empty tensors share a null storage without being tied.
    auto found = tensor.numel() == 0 ? by_identity_.end() : by_identity_.find(identity);
    int32_t index;
    if (found != by_identity_.end()) {
      index = found->second;
    } else {
      index = static_cast<int32_t>(torch_.tensors.size());
      by_identity_[identity] = index;
      torch_.tensors.push_back(tensor);
      program_.tensors.push_back({{}, kind, {}, true});
    }
    ScriptTensor& entry = program_.tensors[index];
    if (!name.empty()) {
      entry.names.push_back(name);
      if (kind < entry.kind)
        entry.kind = kind;  // a parameter that is a buffer elsewhere is trainable
    }
    return index;
  }

  static std::string unfit(const at::Tensor& tensor) {
    if (!tensor.defined()) return "undefined";
    if (tensor.layout() != at::kStrided) return "sparse";
    if (tensor.is_quantized()) return "quantized";
    if (tensor.dim() > kMaxRank)
      return "rank " + std::to_string(tensor.dim()) + ", at most " + std::to_string(kMaxRank);
    if (is_pairs(tensor))
      return tensor.dim() < kMaxRank ? "" : "complex, rank " + std::to_string(tensor.dim());
    try {
      dtype_of_torch(static_cast<int64_t>(tensor.scalar_type()));
    } catch (const Refusal&) {
      return c10::toString(tensor.scalar_type());
    }
    return "";
  }

  // Shares the memory of row-major parameters. Copies buffers and constants, because libtorch may
  // write to them when it runs.
  static TensorData data_of(const at::Tensor& tensor, bool copy) {
    at::Tensor dense = tensor.detach().contiguous();
    if (is_pairs(dense)) dense = at::view_as_real(dense.resolve_conj());
    if (dense.is_conj() || dense.is_neg()) dense = dense.clone().resolve_conj().resolve_neg();
    if (copy) dense = dense.clone();
    Sizes shape(std::span<const int64_t>(dense.sizes().data(), dense.sizes().size()));
    DType dtype = dtype_of_torch(static_cast<int64_t>(dense.scalar_type()));
    auto owner = std::make_shared<at::Tensor>(dense);
    TensorData data;
    data.tensor = view(dense.data_ptr(), dtype, shape);
    data.owner = std::shared_ptr<void>(owner, owner.get());
    return data;
  }

  void register_tensors(const c10::intrusive_ptr<c10::ivalue::Object>& object,
                        const std::string& path) {
    const c10::ClassTypePtr& type = object->type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      c10::IValue value = object->getSlot(slot);
      std::string name = join(path, type->getAttributeName(slot));
      if (value.isTensor()) {
        if (!value.toTensor().defined() || is_unpackable(value.toTensor())) continue;
        bool parameter = type->is_module() && type->is_parameter(slot);
        index_of(value.toTensor(), name, parameter ? State::Kind::parameter : State::Kind::buffer);
      } else if (value.isObject() && !value.toObject()->type()->name()->name().empty()) {
        register_tensors(value.toObject(), name);
      }
    }
  }

  static std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  std::shared_ptr<Object> object(const c10::intrusive_ptr<c10::ivalue::Object>& from,
                                 const std::string& path) {
    std::shared_ptr<Object>& known = objects_[from.get()];
    if (known) return known;
    held_.emplace_back(from);
    known = std::make_shared<Object>();
    std::shared_ptr<Object> result = known;
    const c10::ClassTypePtr& type = from->type();
    result->type = type->name() ? type->name()->qualifiedName() : type->str();
    result->path = path;
    if (const auto parts = unpacked(c10::IValue(from))) {
      // The layer has the state `weight`, its packed form is `_packed_params` once or twice.
      fill(*result, *parts, path.substr(0, path.find("._packed_params")));
      return result;
    }
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const std::string& name = type->getAttributeName(slot);
      result->attributes.emplace_back(name, item(from->getSlot(slot), join(path, name)));
    }
    for (size_t i = 0; i < type->numConstants(); ++i)
      result->attributes.emplace_back(type->getConstantName(i), item(type->getConstant(i), ""));
    return result;
  }

  void fill(Object& to, const Unpacked& from, const std::string& layer) {
    to.type = from.type;
    const auto kind = layer.empty() ? State::Kind::constant : State::Kind::buffer;
    for (const auto& [name, value] : from.values)
      to.attributes.emplace_back(
          name, value.isTensor() && value.toTensor().defined()
                    ? Item(ScriptTensorIndex{
                          index_of(value.toTensor(), layer.empty() ? "" : join(layer, name), kind)})
                    : item(value, join(layer, name)));
  }

  // Converts attributes of the module, and constants. A value that the program cannot express
  // becomes an Object with the name of its type; a row that gets it rejects it by name.
  Item item(const c10::IValue& value, const std::string& path) {
    if (value.isNone()) return Item();
    if (value.isTensor()) {
      if (!value.toTensor().defined()) return Item();
      if (is_unpackable(value.toTensor())) {
        auto levels = std::make_shared<Object>();
        levels->path = path;
        fill(*levels, unpacked_tensor(value.toTensor()), path);
        return levels;
      }
      return ScriptTensorIndex{index_of(value.toTensor(), "", State::Kind::constant)};
    }
    if (value.isBool()) return value.toBool();
    if (value.isInt()) return int64_t{value.toInt()};
    if (value.isDouble()) return value.toDouble();
    if (value.isString()) return value.toStringRef();
    if (value.isDevice()) return value.toDevice().str();
    if (value.isEnum()) {
      const auto& holder = value.toEnumHolder();
      auto member = std::make_shared<Object>();
      member->type = holder->qualifiedClassName();
      member->member = holder->name();
      member->attributes.emplace_back("value", item(holder->value(), path));
      return member;
    }
    if (value.isList()) {
      auto list = std::make_shared<List>();
      for (const c10::IValue& element : value.toListRef())
        list->items.push_back(item(element, path));
      return list;
    }
    if (value.isTuple()) {
      auto tuple = std::make_shared<Tuple>();
      for (const c10::IValue& element : value.toTupleRef().elements())
        tuple->items.push_back(item(element, path));
      auto type = value.type()->cast<c10::TupleType>();
      if (type && type->schema())
        for (const c10::Argument& field : type->schema()->arguments())
          tuple->names.push_back(field.name());
      return tuple;
    }
    if (value.isGenericDict()) {
      auto dict = std::make_shared<Dict>();
      for (const auto& entry : value.toGenericDict())
        dict->items.emplace_back(item(entry.key(), path), item(entry.value(), path));
      return dict;
    }
    if (value.isObject()) return object(value.toObject(), path);
    auto other = std::make_shared<Object>();
    other->type = value.type()->str();
    other->path = path;
    if (value.isComplexDouble()) {
      other->type = kComplexNumber;
      other->attributes = {{"real", Item(value.toComplexDouble().real())},
                           {"imag", Item(value.toComplexDouble().imag())}};
    }
    return other;
  }

  ScriptId id_of(const jit::Value* value) {
    auto [entry, fresh] = torch_.ids.try_emplace(value, torch_.id_count);
    if (fresh) ++torch_.id_count;
    return entry->second;
  }

  ScriptBlock block(const jit::Block* from) {
    ScriptBlock result;
    for (const jit::Value* value : from->inputs()) result.inputs.push_back(id_of(value));
    for (const jit::Node* each : from->nodes()) result.nodes.push_back(node(each));
    for (const jit::Value* value : from->outputs()) result.outputs.push_back(id_of(value));
    return result;
  }

  ScriptNode node(const jit::Node* from) {
    ScriptNode result;
    result.kind = from->kind().toQualString();
    if (const c10::FunctionSchema* schema = from->maybeSchema()) {
      result.overload = schema->overload_name();
      for (const c10::Argument& argument : schema->arguments()) {
        if (argument.is_out())
          result.outs.push_back(static_cast<int>(result.argument_names.size()));
        result.argument_names.push_back(argument.name());
      }
    }
    for (const jit::Value* value : from->inputs()) result.inputs.push_back(id_of(value));
    for (const jit::Value* value : from->outputs()) {
      result.outputs.push_back(id_of(value));
      auto tuple = value->type()->cast<c10::TupleType>();
      result.output_types.push_back(tuple && tuple->schema() ? type_text(*tuple)
                                                             : value->type()->str());
    }
    for (const jit::Block* inner : from->blocks()) result.blocks.push_back(block(inner));
    if (from->hasAttribute(jit::attr::name)) result.attribute = from->s(jit::attr::name);
    if (from->kind() == c10::prim::isinstance)
      for (const c10::TypePtr& type : from->tys(jit::attr::types))
        result.attribute += (result.attribute.empty() ? "" : ", ") + type_text(*type);
    if (result.kind == "aten::tensor" || result.kind == "aten::as_tensor")
      result.numbers = numbers_of(from->input(0)->type());
    if (from->kind() == c10::prim::TupleSlice)
      result.attribute =
          std::to_string(from->i(jit::attr::beg)) + ":" + std::to_string(from->i(jit::attr::end));
    if (from->kind() == c10::prim::Constant) {
      if (auto value = jit::toIValue(from->output())) result.constant = item(*value, "");
    }
    std::string scope = from->scopeName();
    size_t at = scope.rfind("at:");
    if (at != std::string::npos) result.origin.module = scope.substr(at + 3);
    result.origin.source = source_line(from->sourceRange());
    return result;
  }

  ScriptProgram& program_;
  TorchModule& torch_;
  std::map<Identity, int32_t> by_identity_;
  std::map<const void*, std::shared_ptr<Object>> objects_;
  std::vector<c10::IValue> held_;  // whose addresses are in objects_
  std::set<std::string> refused_;
};

jit::Module load_module(const std::string& path) {
  try {
    return jit::load(path, c10::Device(c10::kCPU));
  } catch (const std::exception& error) {
    throw load_failure(path, error.what(), libtorch_version());
  }
}

}  // namespace

std::string libtorch_version() { return TORCH_VERSION; }

std::string libtorch_file() {
  Dl_info info;
  const auto* symbol = reinterpret_cast<const void*>(&jit::getAllOperators);
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

namespace {

// Explains that the module has no such method, and which option to use instead.
Failure no_method(const std::string& path, const jit::Module& module, const std::string& method) {
  std::string names, options;
  for (const jit::Method& each : module.get_methods()) {
    names += (names.empty() ? "" : ", ") + each.name();
    options += (options.empty() ? "" : " or ") + ("--method " + each.name());
  }
  const std::string what = path + ": the module has no method `" + method + "`";
  if (names.empty())
    return {Exit::unsupported, what + "; trace or script a module whose forward does the work"};
  if (method == "forward")
    return {Exit::unsupported, what + ", only " + names + "; give " + options};
  return {Exit::usage, what + "; it has " + names};
}

Loaded load_method(const std::string& path, const jit::Module& module, const std::string& method) {
  Loaded loaded;
  loaded.module = std::make_shared<TorchModule>();
  TorchModule& torch = *loaded.module;
  const auto found = module.find_method(method);
  if (!found) throw no_method(path, module, method);
  torch.module = module;
  torch.method = method;
  torch.graph = inlined_graph(module, found->function());
  loaded.program.libtorch_version = libtorch_version();
  const auto& arguments = found->function().getSchema().arguments();
  ProgramReader reader(loaded.program, torch);
  reader.read();
  if (has_levels(loaded.program.body)) {
    loaded.original = std::make_shared<const ScriptProgram>(loaded.program);
    lower_quantized(loaded.program);
    join_levels(loaded.program);
  }
  for (size_t i = 1; i < arguments.size(); ++i)
    loaded.program.inputs.push_back(reader.input(arguments[i]));
  return loaded;
}

}  // namespace

std::vector<Loaded> load_script(const std::string& path, const std::vector<CustomOp>& custom,
                                const std::vector<std::string>& methods) {
  std::vector<std::string> unknown_ops;
  try {
    unknown_ops = declare_missing_ops(path, custom);
  } catch (const std::exception& error) {
    throw load_failure(path, error.what(), libtorch_version());
  }
  const jit::Module module = load_module(path);
  std::vector<Loaded> all;
  try {
    for (const std::string& method : methods) {
      all.push_back(load_method(path, module, method));
      all.back().unknown_ops = unknown_ops;
    }
  } catch (const std::exception& error) {
    throw load_failure(path, error.what(), libtorch_version());
  }
  return all;
}

}  // namespace hg::convert
