// SPDX-License-Identifier: Apache-2.0
// Parameters are libtorch views of the program's memory. Buffers and constants are copied for each
// call, because the program may write to them.
#include "converter/check/exported_reference.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/version.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "converter/check/decomposed.h"
#include "converter/check/node_runner.h"
#include "converter/check/recorded_run.h"
#include "converter/interpret/autocast.h"
#include "converter/load/torchscript/torchvision.h"
#include "converter/rows/rows.h"

namespace hg::convert {
namespace {

namespace jit = torch::jit;
using c10::IValue;

// Returns the op with this name and overload, or null.
std::shared_ptr<jit::Operator> operator_of(const ScriptNode& node) {
  declare_torchvision();
  if (node.kind.starts_with("quantized_decomposed::")) declare_decomposed();
  for (const auto& each : jit::getAllOperatorsFor(c10::Symbol::fromQualString(node.kind)))
    if (each->schema().overload_name() == node.overload) return each;
  return nullptr;
}

// Converts `value` to the schema's type: numbers from tensors, a list from one number.
IValue fitted(const IValue& value, const c10::TypePtr& type, c10::optional<int32_t> length) {
  switch (type->kind()) {
    case c10::TypeKind::OptionalType:
      return value.isNone() ? value : fitted(value, type->containedType(0), length);
    case c10::TypeKind::FloatType:
      return value.isInt() ? IValue(static_cast<double>(value.toInt())) : value;
    case c10::TypeKind::IntType:
      return value.isBool() ? IValue(static_cast<int64_t>(value.toBool())) : value;
    case c10::TypeKind::DeviceObjType:
      return value.isString() ? IValue(c10::Device(value.toStringRef())) : value;
    case c10::TypeKind::TensorType: {
      if (!value.isScalar()) return value.isNone() ? IValue(at::Tensor()) : value;
      at::Tensor number =
          at::scalar_tensor(value.toScalar(), at::TensorOptions().dtype(value.toScalar().type()));
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      return number;
    }
    case c10::TypeKind::ListType: {
      const c10::TypePtr& element = type->containedType(0);
      // A list that a loop fills must stay the same object.
      if (value.isList() && (element->kind() == c10::TypeKind::VarType ||
                             (element->kind() == c10::TypeKind::TensorType &&
                              value.toList().elementType()->kind() == element->kind())))
        return value;
      c10::impl::GenericList list(element);
      if (value.isList()) {
        for (const IValue& each : value.toListRef())
          list.push_back(fitted(each, element, c10::nullopt));
        return list;
      }
      if (value.isScalar() && length) {
        for (int32_t i = 0; i < *length; ++i) list.push_back(fitted(value, element, c10::nullopt));
        return list;
      }
      return value;
    }
    default:
      return value;
  }
}

// Whether running the node again returns the same results.
bool is_repeatable(const ScriptNode& node) {
  if (leaves_memory(node.kind)) return false;
  const auto op = c10::Dispatcher::singleton().findSchema({node.kind, node.overload});
  if (op && (op->schema().is_mutable() || op->hasTag(at::Tag::nondeterministic_seeded)))
    return false;
  if (node.kind == "aten::append") return false;
  return std::all_of(node.blocks.begin(), node.blocks.end(), [](const ScriptBlock& block) {
    return std::all_of(block.nodes.begin(), block.nodes.end(), is_repeatable);
  });
}

// Enters the torch.autocast region of a node while it runs.
class AutocastRegion {
 public:
  explicit AutocastRegion(const std::optional<DType>& dtype) : on_(dtype.has_value()) {
    if (!on_) return;
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 204
    at::autocast::set_autocast_dtype(at::kCPU, static_cast<at::ScalarType>(torch_of_dtype(*dtype)));
    at::autocast::set_autocast_cache_enabled(false);
    at::autocast::set_autocast_enabled(at::kCPU, true);
#else
    throw std::runtime_error(
        "libtorch before 2.4 casts other ops in a region of autocast than the program's");
#endif
  }
  ~AutocastRegion() {
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 204
    if (on_) at::autocast::set_autocast_enabled(at::kCPU, false);
#endif
  }
  AutocastRegion(const AutocastRegion&) = delete;
  AutocastRegion& operator=(const AutocastRegion&) = delete;

 private:
  bool on_;
};

class ProgramRunner {
 public:
  ProgramRunner(const Loaded& loaded, uint64_t seed, const ExportedRun& how)
      : loaded_(loaded),
        seed_(seed),
        observer_(how.observer),
        rounds_left_(how.most_rounds > 0 ? how.most_rounds : std::numeric_limits<int64_t>::max()),
        values_(static_cast<size_t>(loaded.reference().value_count)) {
    for (const ScriptTensor& each : loaded.reference().tensors) {
      const bool shares = each.kind == State::Kind::parameter && !how.change_weight;
      tensors_.push_back(tensor_of(each, shares));
      if (how.change_weight) how.change_weight(tensors_.back());
      versions_.push_back(tensors_.back()._version());
    }
    const std::vector<ScriptNode>& nodes = loaded.reference().body.nodes;
    std::vector<size_t> last(values_.size(), nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) note_uses(nodes[i], i, last);
    for (const ScriptId id : loaded.reference().body.outputs) last[id] = nodes.size();
    unused_after_.resize(nodes.size() + 1);
    for (size_t id = 0; id < last.size(); ++id)
      unused_after_[last[id]].push_back(static_cast<ScriptId>(id));
  }

  void run(std::span<const ReferenceInput> inputs) {
    const ScriptProgram& program = loaded_.reference();
    if (inputs.size() != program.inputs.size())
      throw ReferenceFailure{"",
                             {},
                             str_cat("there are ", static_cast<int64_t>(inputs.size()),
                                     " inputs of ", static_cast<int64_t>(program.inputs.size()))};
    for (size_t i = 0; i < inputs.size(); ++i)
      set(program.body.inputs.at(i + 1), input(program.inputs[i].type, inputs[i].tensor));
    for (size_t i = 0; i < program.body.nodes.size(); ++i) {
      run(program.body.nodes[i]);
      for (const ScriptId id : unused_after_[i]) set(id, IValue());
    }
  }

  std::vector<TensorData> outputs() const {
    std::vector<TensorData> result;
    for (const ScriptId id : loaded_.reference().body.outputs) flatten(get(id), result);
    return result;
  }

  void refuse_written_parameter() const {
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (const ScriptTensor& each = loaded_.reference().tensors[i];
          each.kind == State::Kind::parameter && tensors_[i]._version() != versions_[i])
        throw Failure{Exit::unsupported, "forward writes to the parameter '" + each.names.at(0) +
                                             "' in place; register it as a buffer instead"};
  }

 private:
  class Run final : public RecordedRun {
   public:
    Run(ProgramRunner& runner, const ScriptNode& of)
        : RecordedRun(runner.values_, runner.replays_, of, runner.occurrences_[&of]++),
          runner_(runner) {}

   private:
    bool is_repeatable() const override { return convert::is_repeatable(*node); }
    void run_again() const override { runner_.execute(*node); }

    ProgramRunner& runner_;
  };

  void set(ScriptId id, IValue value) { values_[id] = std::move(value); }
  const IValue& get(ScriptId id) const { return values_[id]; }

  static at::Tensor tensor_of(const ScriptTensor& from, bool shares) {
    const Tensor& tensor = from.data.tensor;
    at::Tensor result;
    if (shares)
      result = at::from_blob(
          tensor.data, {tensor.shape.begin(), static_cast<size_t>(tensor.rank())},
          at::TensorOptions().dtype(static_cast<at::ScalarType>(torch_of_dtype(tensor.dtype))));
    else
      result = to_torch(tensor);
    return from.complex ? at::view_as_complex(result) : result;
  }

  static IValue input(const std::string& type, const Tensor& from) {
    at::Tensor tensor = to_torch(from);
    if (type == "int") return tensor.item().toLong();
    if (type == "float") return tensor.item().toDouble();
    if (type == "bool") return tensor.item().toBool();
    return tensor;
  }

  IValue value_of(const Item& item) const {
    if (const auto* b = std::get_if<bool>(&item.value)) return *b;
    if (const auto* i = std::get_if<Dim>(&item.value)) return i->constant();
    if (const auto* d = std::get_if<double>(&item.value)) return *d;
    if (const auto* s = std::get_if<std::string>(&item.value)) return *s;
    if (const auto* t = std::get_if<ScriptTensorIndex>(&item.value)) return tensors_.at(t->index);
    if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
      c10::impl::GenericList result(c10::AnyType::get());
      for (const Item& each : (*list)->items) result.push_back(value_of(each));
      return result;
    }
    if (const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value);
        object && (*object)->type == kComplexNumber)
      return c10::complex<double>(std::get<double>((*object)->attributes[0].second.value),
                                  std::get<double>((*object)->attributes[1].second.value));
    return IValue();
  }

  // Records the last outermost node that reads or makes each value.
  static void note_uses(const ScriptNode& node, size_t at, std::vector<size_t>& last) {
    const auto note = [&](const std::vector<ScriptId>& ids) {
      for (const ScriptId id : ids) last[id] = at;
    };
    note(node.inputs);
    note(node.outputs);
    for (const ScriptBlock& block : node.blocks) {
      note(block.inputs);
      note(block.outputs);
      for (const ScriptNode& inner : block.nodes) note_uses(inner, at, last);
    }
  }

  void run(const ScriptBlock& block) {
    for (const ScriptNode& node : block.nodes) run(node);
  }

  void run(const ScriptNode& node) {
    try {
      execute(node);
    } catch (const ReferenceFailure&) {
      throw;
    } catch (const std::exception& error) {
      throw ReferenceFailure{node.kind, node.origin, one_line(error.what())};
    }
    if (leaves_memory(node.kind) && get(node.outputs.at(0)).isTensor())
      fill_memory(get(node.outputs[0]).toTensor(), seed_);
    if (!observer_ || replays_) return;
    Run run(*this, node);
    if (!observer_(run)) throw NodeRunner::Stop();
  }

  void branch(const ScriptNode& node) {
    const ScriptBlock& block = node.blocks.at(get(node.inputs.at(0)).toBool() ? 0 : 1);
    run(block);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      set(node.outputs[i], IValue(get(block.outputs.at(i))));
  }

  void loop(const ScriptNode& node) {
    const ScriptBlock& block = node.blocks.at(0);
    const int64_t most = get(node.inputs.at(0)).toInt();
    bool more = get(node.inputs.at(1)).toBool();
    std::vector<IValue> carried;
    for (size_t i = 2; i < node.inputs.size(); ++i) carried.push_back(get(node.inputs[i]));
    for (int64_t step = 0; step < most && more; ++step) {
      TORCH_CHECK(--rounds_left_ >= 0, "the loops of the model take too many rounds");
      set(block.inputs.at(0), step);
      for (size_t i = 0; i < carried.size(); ++i) set(block.inputs.at(i + 1), carried[i]);
      run(block);
      more = get(block.outputs.at(0)).toBool();
      for (size_t i = 0; i < carried.size(); ++i) carried[i] = get(block.outputs.at(i + 1));
    }
    for (size_t i = 0; i < carried.size(); ++i) set(node.outputs[i], carried[i]);
  }

  void execute(const ScriptNode& node) {
    if (node.kind == "prim::If") return branch(node);
    if (node.kind == "prim::Loop") return loop(node);
    if (node.kind == "aten::set_grad_enabled") return;  // gradients are not computed here
    if (node.kind == "prim::RaiseException")
      throw std::runtime_error(get(node.inputs.at(0)).toStringRef());
    if (node.kind == "prim::Constant") return set(node.outputs.at(0), value_of(node.constant));
    if (node.kind == "prim::GetAttr") {
      for (const auto& [name, item] : loaded_.reference().root->attributes)
        if (name == node.attribute) return set(node.outputs.at(0), value_of(item));
      throw std::runtime_error("there is no " + node.attribute);
    }
    if (node.kind == "prim::ListConstruct") {
      const bool tensors = node.output_types.at(0) == "List[Tensor]";
      c10::impl::GenericList list(tensors ? c10::TypePtr(c10::TensorType::get())
                                          : c10::TypePtr(c10::AnyType::get()));
      for (const ScriptId id : node.inputs) list.push_back(get(id));
      return set(node.outputs.at(0), list);
    }
    if (node.kind == "prim::DictConstruct") {
      c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
      for (size_t i = 0; i + 1 < node.inputs.size(); i += 2)
        dict.insert(get(node.inputs[i]), get(node.inputs[i + 1]));
      return set(node.outputs.at(0), dict);
    }
    if (node.kind == "prim::ListUnpack") {
      const c10::List<IValue> list = get(node.inputs.at(0)).toList();
      if (list.size() != node.outputs.size())
        throw std::runtime_error(str_cat("expected ", static_cast<int64_t>(node.outputs.size()),
                                         " elements in a list but found ",
                                         static_cast<int64_t>(list.size())));
      for (size_t i = 0; i < list.size(); ++i) set(node.outputs[i], list.get(i));
      return;
    }
    auto [at, fresh] = operators_.try_emplace(&node);
    if (fresh) at->second = operator_of(node);
    if (!at->second) return stand_in(node);
    const AutocastRegion region(autocast_of(node));
    call(*at->second, node);
  }

  void call(const jit::Operator& op, const ScriptNode& node) {
    jit::Stack stack;
    for (size_t i = 0; i < op.schema().arguments().size(); ++i) {
      const c10::Argument& argument = op.schema().arguments()[i];
      const auto found =
          std::find(node.argument_names.begin(), node.argument_names.end(), argument.name());
      // Ops on numbers have positional arguments without names.
      const bool numbered = op.schema().is_vararg() || !node.kind.starts_with("aten::") ||
                            op.schema().arguments().size() == node.inputs.size();
      const size_t given = found != node.argument_names.end()
                               ? static_cast<size_t>(found - node.argument_names.begin())
                           : numbered && i < node.inputs.size() ? i
                                                                : node.inputs.size();
      if (given < node.inputs.size())
        stack.push_back(fitted(get(node.inputs[given]), argument.type(), argument.N()));
      else if (argument.default_value())
        stack.push_back(*argument.default_value());
      else
        throw std::runtime_error("the argument '" + argument.name() + "' is missing");
    }
    keep_in_bounds(node.kind, stack);
    op.getOperation()(stack);
    if (stack.size() != node.outputs.size())
      throw std::runtime_error(str_cat("it gives ", static_cast<int64_t>(stack.size()),
                                       " results, not ",
                                       static_cast<int64_t>(node.outputs.size())));
    const auto& results = op.schema().returns();
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      // libtorch declares an integer result for pow of two integers, but returns a real number.
      const bool whole = i < results.size() && results[i].type()->kind() == c10::TypeKind::IntType;
      if (whole && stack[i].isDouble()) stack[i] = static_cast<int64_t>(stack[i].toDouble());
      set(node.outputs[i], std::move(stack[i]));
    }
  }

  // A custom op returns copies of the inputs that its results are declared to be like.
  void stand_in(const ScriptNode& node) {
    const auto custom = std::find_if(loaded_.custom.begin(), loaded_.custom.end(),
                                     [&](const CustomOp& op) { return op.kind() == node.kind; });
    if (custom == loaded_.custom.end() || custom->likes.size() != node.outputs.size())
      throw std::runtime_error("libtorch does not have the op " + node.kind);
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const auto& [name, position] = custom->likes[k];
      const IValue* like = nullptr;
      int tensors = 0;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!get(node.inputs[i]).isTensor()) continue;
        if (node.argument_names[i] == name || (!like && tensors == position))
          like = &get(node.inputs[i]);
        ++tensors;
      }
      if (!like) throw std::runtime_error(custom->name + " gets no tensor '" + name + "'");
      set(node.outputs[k], like->toTensor().clone());
    }
  }

  const Loaded& loaded_;
  uint64_t seed_;
  const Observer& observer_;
  int64_t rounds_left_;
  bool replays_ = false;  // true while a node runs again for NodeRun::outputs_of()
  std::vector<IValue> values_;
  std::vector<uint32_t> versions_;  // of the weights before the run
  std::vector<at::Tensor> tensors_;
  std::vector<std::vector<ScriptId>> unused_after_;  // by outermost node
  std::map<const ScriptNode*, std::shared_ptr<jit::Operator>> operators_;
  std::map<const ScriptNode*, int64_t> occurrences_;
};

}  // namespace

std::vector<TensorData> run_exported(const Loaded& loaded, std::span<const ReferenceInput> inputs,
                                     uint64_t seed, const ExportedRun& how) {
  at::NoGradGuard no_grad;
  begin_libtorch_run(seed);
  ProgramRunner runner(loaded, seed, how);
  try {
    for (int run = 0; run < how.runs; ++run) runner.run(inputs);
  } catch (const NodeRunner::Stop&) {
    return {};
  }
  runner.refuse_written_parameter();
  return runner.outputs();
}

}  // namespace hg::convert
