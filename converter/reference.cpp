// SPDX-License-Identifier: Apache-2.0
// libtorch writes to its own copies of buffers and constants only (see load.cpp); they and the
// module's attributes are put back before each run, so that runs do not depend on each other.
#include "converter/reference.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/runtime/print_handler.h>

#include <limits>
#include <map>
#include <set>

#include "converter/rows.h"
#include "converter/torch_module.h"

namespace hg::convert {

at::Tensor to_torch(const Tensor& tensor) {
  auto options =
      at::TensorOptions().dtype(static_cast<at::ScalarType>(torch_of_dtype(tensor.dtype)));
  std::vector<int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
  std::vector<int64_t> strides(tensor.strides.begin(), tensor.strides.end());
  // A copy, since models may write to their inputs.
  return at::from_blob(tensor.data, sizes, strides, options).clone();
}

TensorData to_ours(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  at::Tensor dense = tensor.detach();
  if (dense.layout() != at::kStrided || dense.is_quantized() || dense.dim() > kMaxRank) return {};
  if (is_pairs(dense)) dense = at::view_as_real(dense.resolve_conj().resolve_neg());
  DType dtype;
  try {
    dtype = dtype_of_torch(static_cast<int64_t>(dense.scalar_type()));
  } catch (const Refusal&) {
    return {};
  }
  dense = dense.resolve_neg().contiguous();
  auto owner = std::make_shared<at::Tensor>(dense);
  TensorData data;
  Sizes shape(std::span<const int64_t>(dense.sizes().data(), dense.sizes().size()));
  static const char kNothing = 0;  // an empty tensor has no memory
  const void* memory = dense.numel() > 0 ? dense.data_ptr() : static_cast<const void*>(&kNothing);
  data.tensor = view(memory, dtype, shape);
  data.owner = std::shared_ptr<void>(owner, owner.get());
  return data;
}

namespace {

namespace jit = torch::jit;
using c10::IValue;

std::string one_line(std::string_view what) {
  // An interpreter's error has a stack of TorchScript in front of the reason.
  constexpr std::string_view kReason = "Error: ";
  size_t start = what.starts_with("The following operation failed") ? what.rfind(kReason) : 0;
  if (start == std::string_view::npos)
    start = 0;
  else if (start > 0)
    start += kReason.size();
  what = what.substr(start);
  what = what.substr(0, what.find('\n'));
  size_t place = what.find(" (at ");
  if (place != std::string_view::npos) what = what.substr(0, place);
  place = what.find("Exception raised from");
  if (place != std::string_view::npos) what = what.substr(0, place);
  while (!what.empty() && (what.back() == ' ' || what.back() == '.')) what.remove_suffix(1);
  return std::string(what);
}

void flatten(const IValue& value, std::vector<TensorData>& out) {
  if (value.isTensor()) {
    // Copied, since the next run may write to it.
    out.push_back(to_ours(value.toTensor().clone()));
  } else if (value.isDouble() || value.isInt() || value.isBool()) {
    at::ScalarType type = value.isDouble() ? at::kDouble : value.isInt() ? at::kLong : at::kBool;
    out.push_back(to_ours(at::scalar_tensor(value.toScalar(), at::TensorOptions().dtype(type))));
  } else if (value.isTuple()) {
    for (const IValue& element : value.toTupleRef().elements()) flatten(element, out);
  } else if (value.isList()) {
    for (const IValue& element : value.toListRef()) flatten(element, out);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) flatten(entry.value(), out);
  }
}

// Builds the arguments of forward from the flat list, by the rules of import_program.
class InputBinder {
 public:
  explicit InputBinder(std::span<const ReferenceInput> inputs) : inputs_(inputs) {}

  std::vector<IValue> bind(const jit::Graph& graph, const std::vector<c10::Argument>& arguments) {
    std::vector<IValue> result;
    int64_t fixed = 0;
    const auto optional = [&](size_t i) {
      return i < arguments.size() && arguments[i].default_value().has_value();
    };
    const auto least = [&](size_t i) {
      return optional(i) ? 0 : needed(*graph.inputs()[i]->type());
    };
    for (size_t i = 1; i < graph.inputs().size(); ++i) fixed += least(i);
    for (size_t i = 1; i < graph.inputs().size(); ++i) {
      const c10::TypePtr& type = graph.inputs()[i]->type();
      fixed -= least(i);
      int64_t left = static_cast<int64_t>(inputs_.size() - next_);
      int64_t spare = std::max<int64_t>(left - fixed, 0);
      if (optional(i) && spare == 0) {
        result.push_back(*arguments[i].default_value());
        continue;
      }
      result.push_back(value(type, spare));
    }
    return result;
  }

 private:
  static int64_t needed(const c10::Type& type) {
    switch (type.kind()) {
      case c10::TypeKind::OptionalType:
      case c10::TypeKind::ListType:
      case c10::TypeKind::DictType:
        return 0;
      case c10::TypeKind::TupleType: {
        int64_t sum = 0;
        for (const c10::TypePtr& element : type.containedTypes()) sum += needed(*element);
        return sum;
      }
      default:
        return 1;
    }
  }

  IValue value(const c10::TypePtr& type, int64_t spare) {
    switch (type->kind()) {
      case c10::TypeKind::OptionalType:
        return spare > 0 ? value(type->containedType(0), spare) : IValue();
      case c10::TypeKind::TupleType: {
        std::vector<IValue> elements;
        for (const c10::TypePtr& element : type->containedTypes())
          elements.push_back(value(element, spare));
        auto tuple = type->expect<c10::TupleType>();
        return tuple->name() ? c10::ivalue::Tuple::createNamed(std::move(elements), tuple)
                             : c10::ivalue::Tuple::create(std::move(elements));
      }
      case c10::TypeKind::ListType: {
        c10::impl::GenericList list(type->containedType(0));
        for (size_t end = next_ + static_cast<size_t>(spare); next_ < end;)
          list.push_back(value(type->containedType(0), 0));
        return list;
      }
      case c10::TypeKind::DictType: {
        c10::impl::GenericDict dict(type->containedType(0), type->containedType(1));
        for (size_t end = next_ + static_cast<size_t>(spare); next_ < end;) {
          std::string key = inputs_[next_].name;
          dict.insert(key, value(type->containedType(1), 0));
        }
        return dict;
      }
      default:
        break;
    }
    if (next_ >= inputs_.size()) throw ReferenceFailure{"", {}, "too few inputs"};
    at::Tensor tensor = to_torch(inputs_[next_++].tensor);
    switch (type->kind()) {
      case c10::TypeKind::IntType:
        return tensor.item().toLong();
      case c10::TypeKind::FloatType:
        return tensor.item().toDouble();
      case c10::TypeKind::BoolType:
        return tensor.item().toBool();
      default:
        return tensor;
    }
  }

  std::span<const ReferenceInput> inputs_;
  size_t next_ = 0;
};

using Slots = std::vector<std::pair<c10::intrusive_ptr<c10::ivalue::Object>, std::vector<IValue>>>;

void collect_slots(const c10::intrusive_ptr<c10::ivalue::Object>& object, Slots& out) {
  for (const auto& known : out)
    if (known.first == object) return;
  out.emplace_back(object, std::vector<IValue>());
  size_t mine = out.size() - 1;
  for (size_t slot = 0; slot < object->type()->numAttributes(); ++slot) {
    IValue value = object->getSlot(slot);
    out[mine].second.push_back(value);
    if (value.isObject()) collect_slots(value.toObject(), out);
  }
}

// The model's own print() must not get into what hg-convert writes to standard output.
class Silence {
 public:
  Silence() : before_(jit::getPrintHandler()) {
    jit::setPrintHandler([](const std::string&) {});
  }
  ~Silence() { jit::setPrintHandler(before_); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  jit::PrintHandler before_;
};

// Puts the module back as it was loaded when it goes out of scope.
class Restore {
 public:
  explicit Restore(const Loaded& loaded) : loaded_(loaded) {
    TorchModule& torch = *loaded.module;
    collect_slots(torch.module._ivalue(), slots_);
    for (const at::Tensor& tensor : torch.tensors) versions_.push_back(version(tensor));
  }
  ~Restore() {
    for (auto& [object, values] : slots_)
      for (size_t slot = 0; slot < values.size(); ++slot) object->setSlot(slot, values[slot]);
    const auto& tensors = loaded_.module->tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ScriptTensor& ours = loaded_.program.tensors[i];
      if (version(tensors[i]) == versions_[i] || ours.kind == State::Kind::parameter) continue;
      at::Tensor target = is_pairs(tensors[i]) ? at::view_as_real(tensors[i]) : tensors[i];
      target.copy_(to_torch(ours.data.tensor));
    }
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

  // The name of a parameter that forward wrote to, or nothing.
  std::string written_parameter() const {
    const auto& tensors = loaded_.module->tensors;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (loaded_.program.tensors[i].kind == State::Kind::parameter &&
          version(tensors[i]) != versions_[i])
        return loaded_.program.tensors[i].names.empty() ? "a parameter"
                                                        : loaded_.program.tensors[i].names[0];
    return "";
  }

 private:
  static uint32_t version(const at::Tensor& tensor) {
    return tensor.is_inference() ? 0 : static_cast<uint32_t>(tensor._version());
  }
  const Loaded& loaded_;
  Slots slots_;
  std::vector<uint32_t> versions_;
};

bool is_uninitialised(const jit::Node& node) {
  static const std::set<std::string> kKinds = {
      "aten::empty",          "aten::empty_like",        "aten::empty_strided", "aten::new_empty",
      "aten::empty_permuted", "aten::new_empty_strided", "aten::resize_"};
  return kKinds.count(node.kind().toQualString()) > 0;
}

bool any_node(const jit::Block* block, const std::function<bool(const jit::Node&)>& question) {
  for (const jit::Node* node : block->nodes()) {
    if (question(*node)) return true;
    for (const jit::Block* inner : node->blocks())
      if (any_node(inner, question)) return true;
  }
  return false;
}

struct Stop {};  // the observer has seen enough

class NodeRunner {
 public:
  NodeRunner(const TorchModule& torch, uint64_t seed, const Observer& observer, int64_t most_rounds)
      : torch_(torch),
        seed_(seed),
        observer_(observer),
        rounds_left_(most_rounds > 0 ? most_rounds : std::numeric_limits<int64_t>::max()),
        values_(static_cast<size_t>(torch.id_count)) {}

  void set(const jit::Value* value, IValue to) { values_[id(value)] = std::move(to); }
  const IValue& get(const jit::Value* value) const { return values_[id(value)]; }

  void run(const jit::Block& block, const ScriptBlock& script) {
    size_t i = 0;
    for (jit::Node* node : const_cast<jit::Block&>(block).nodes()) run(*node, script.nodes[i++]);
  }

 private:
  size_t id(const jit::Value* value) const { return static_cast<size_t>(torch_.ids.at(value)); }

  void run(jit::Node& node, const ScriptNode& script) {
    try {
      execute(node, script);
    } catch (const std::exception& error) {
      throw ReferenceFailure{script.kind, script.origin, one_line(error.what())};
    }
    if (is_uninitialised(node) && get(node.output()).isTensor()) {
      at::Tensor tensor = get(node.output()).toTensor();
      bool truth = tensor.scalar_type() == at::kBool;
      tensor.fill_(static_cast<int64_t>(truth ? seed_ % 2 : seed_ % 89 + 3));
    }
    if (!observer_) return;
    std::vector<TensorData> outputs;
    for (const jit::Value* value : node.outputs())
      outputs.push_back(get(value).isTensor() ? to_ours(get(value).toTensor()) : TensorData());
    if (!observer_(script, occurrences_[&script]++, outputs)) throw Stop();
  }

  void branch(const jit::Node& node, const ScriptNode& script, size_t index) {
    const jit::Block* block = node.blocks()[index];
    run(*block, script.blocks[index]);
    for (size_t i = 0; i < node.outputs().size(); ++i)
      set(node.outputs()[i], IValue(get(block->outputs()[i])));
  }

  void loop(const jit::Node& node, const ScriptNode& script) {
    const jit::Block* block = node.blocks()[0];
    int64_t most = get(node.inputs()[0]).toInt();
    bool more = get(node.inputs()[1]).toBool();
    std::vector<IValue> carried;
    for (size_t i = 2; i < node.inputs().size(); ++i) carried.push_back(get(node.inputs()[i]));
    for (int64_t step = 0; step < most && more; ++step) {
      TORCH_CHECK(--rounds_left_ >= 0, "the loops of the model take too many rounds");
      set(block->inputs()[0], step);
      for (size_t i = 0; i < carried.size(); ++i) set(block->inputs()[i + 1], carried[i]);
      run(*block, script.blocks[0]);
      more = get(block->outputs()[0]).toBool();
      for (size_t i = 0; i < carried.size(); ++i) carried[i] = get(block->outputs()[i + 1]);
    }
    for (size_t i = 0; i < carried.size(); ++i) set(node.outputs()[i], carried[i]);
  }

  void execute(jit::Node& node, const ScriptNode& script) {
    const c10::Symbol kind = node.kind();
    jit::Stack stack;
    if (kind == c10::prim::If) return branch(node, script, get(node.input()).toBool() ? 0 : 1);
    if (kind == c10::prim::Loop) return loop(node, script);
    if (kind == c10::prim::Constant) {
      auto value = jit::toIValue(node.output());
      return set(node.output(), value ? *value : IValue());
    }
    if (kind == c10::prim::GetAttr)
      return set(node.output(), get(node.input()).toObject()->getAttr(node.s(jit::attr::name)));
    if (kind == c10::prim::SetAttr)
      return get(node.inputs()[0])
          .toObject()
          ->setAttr(node.s(jit::attr::name), get(node.inputs()[1]));
    if (kind == c10::prim::Uninitialized) return set(node.output(), IValue());
    if (kind == c10::prim::unchecked_cast) return set(node.output(), IValue(get(node.input())));
    if (kind == c10::prim::TupleUnpack) {
      auto tuple = get(node.input()).toTuple();
      for (size_t i = 0; i < node.outputs().size(); ++i)
        set(node.outputs()[i], tuple->elements()[i]);
      return;
    }
    if (kind == c10::prim::ListUnpack) {
      c10::List<IValue> list = get(node.input()).toList();
      TORCH_CHECK(list.size() == node.outputs().size(), "expected ", node.outputs().size(),
                  " elements in a list but found ", list.size());
      for (size_t i = 0; i < list.size(); ++i) set(node.outputs()[i], list.get(i));
      return;
    }
    if (kind == c10::prim::isinstance) {
      bool any = false;
      c10::TypePtr type = get(node.input()).type();
      for (const c10::TypePtr& candidate : node.tys(jit::attr::types))
        any = any || type->isSubtypeOf(*candidate);
      return set(node.output(), any);
    }
    for (const jit::Value* value : node.inputs()) stack.push_back(get(value));
    if (node.outputs().size() == 1) {
      IValue made = construct(node, stack);
      if (!made.isNone()) return set(node.output(), std::move(made));
    }
    if (const c10::FunctionSchema* schema = node.maybeSchema(); schema && schema->is_vararg())
      stack.emplace_back(static_cast<int64_t>(node.inputs().size()));
    node.getOperation()(stack);
    size_t first = stack.size() - node.outputs().size();
    for (size_t i = 0; i < node.outputs().size(); ++i) set(node.outputs()[i], stack[first + i]);
  }

  // What prim::ListConstruct and its like make of their inputs; None for other nodes.
  static IValue construct(const jit::Node& node, const jit::Stack& inputs) {
    const c10::Symbol kind = node.kind();
    const c10::TypePtr& type = node.output()->type();
    if (kind == c10::prim::ListConstruct) {
      c10::impl::GenericList list(type->containedType(0));
      for (const IValue& value : inputs) list.push_back(value);
      return list;
    }
    if (kind == c10::prim::DictConstruct) {
      c10::impl::GenericDict dict(type->containedType(0), type->containedType(1));
      for (size_t i = 0; i + 1 < inputs.size(); i += 2) dict.insert(inputs[i], inputs[i + 1]);
      return dict;
    }
    if (kind == c10::prim::TupleConstruct) {
      auto tuple_type = type->expect<c10::TupleType>();
      std::vector<IValue> elements(inputs.begin(), inputs.end());
      return tuple_type->name() ? c10::ivalue::Tuple::createNamed(std::move(elements), tuple_type)
                                : c10::ivalue::Tuple::create(std::move(elements));
    }
    if (kind == c10::prim::TupleSlice) {
      auto tuple = inputs[0].toTuple();
      auto first = tuple->elements().begin();
      return c10::ivalue::Tuple::create(
          std::vector<IValue>(first + node.i(jit::attr::beg), first + node.i(jit::attr::end)));
    }
    if (kind == c10::prim::CreateObject) {
      auto class_type = type->expect<c10::ClassType>();
      return c10::ivalue::Object::create(
          c10::StrongTypePtr(class_type->compilation_unit(), class_type),
          class_type->numAttributes());
    }
    return IValue();
  }

  const TorchModule& torch_;
  uint64_t seed_;
  const Observer& observer_;
  int64_t rounds_left_;
  std::vector<IValue> values_;
  std::map<const ScriptNode*, int64_t> occurrences_;
};

std::vector<IValue> arguments_of(const Loaded& loaded, std::span<const ReferenceInput> inputs) {
  const TorchModule& torch = *loaded.module;
  const auto& schema = torch.module.get_method("forward").function().getSchema();
  try {
    return InputBinder(inputs).bind(*torch.graph, schema.arguments());
  } catch (const std::exception& error) {
    throw ReferenceFailure{"", {}, one_line(error.what())};
  }
}

void refuse_written_parameter(const Restore& restore) {
  std::string name = restore.written_parameter();
  if (!name.empty())
    throw Failure{Exit::unsupported, "forward writes to the parameter '" + name +
                                         "' in place; register it as a buffer instead"};
}

}  // namespace

std::vector<TensorData> run_reference(const Loaded& loaded, std::span<const ReferenceInput> inputs,
                                      uint64_t seed, int runs) {
  at::NoGradGuard no_grad;
  Silence silence;
  Restore restore(loaded);
  at::manual_seed(seed);
  std::vector<TensorData> outputs;
  try {
    jit::GraphOptimizerEnabledGuard plain(false);
    for (int run = 0; run < runs; ++run) {
      outputs.clear();
      flatten(loaded.module->module.get_method("forward")(arguments_of(loaded, inputs)), outputs);
    }
  } catch (const ReferenceFailure&) {
    throw;
  } catch (const std::exception& error) {
    throw ReferenceFailure{"", {}, one_line(error.what())};
  }
  refuse_written_parameter(restore);
  return outputs;
}

std::vector<TensorData> run_reference_nodes(const Loaded& loaded,
                                            std::span<const ReferenceInput> inputs, uint64_t seed,
                                            const Observer& observer, int64_t most_rounds) {
  at::NoGradGuard no_grad;
  Silence silence;
  Restore restore(loaded);
  at::manual_seed(seed);
  std::vector<IValue> arguments = arguments_of(loaded, inputs);
  const TorchModule& torch = *loaded.module;
  NodeRunner runner(torch, seed, observer, most_rounds);
  runner.set(torch.graph->inputs()[0], torch.module._ivalue());
  for (size_t i = 0; i < arguments.size(); ++i)
    runner.set(torch.graph->inputs()[i + 1], std::move(arguments[i]));
  std::vector<TensorData> outputs;
  try {
    runner.run(*torch.graph->block(), loaded.program.body);
  } catch (const Stop&) {
    return outputs;
  }
  for (const jit::Value* value : torch.graph->outputs()) flatten(runner.get(value), outputs);
  refuse_written_parameter(restore);
  return outputs;
}

bool may_vary(const Loaded& loaded) {
  return any_node(loaded.module->graph->block(), [](const jit::Node& node) {
    return is_uninitialised(node) || node.isNondeterministic();
  });
}

bool has_uninitialised(const Loaded& loaded) {
  return any_node(loaded.module->graph->block(), is_uninitialised);
}

}  // namespace hg::convert
