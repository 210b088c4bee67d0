// SPDX-License-Identifier: Apache-2.0
#include "converter/check/node_runner.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <limits>
#include <set>

namespace hg::convert {
namespace {

namespace jit = torch::jit;
using c10::IValue;

// What prim::ListConstruct and its like make of their inputs; None for other nodes.
IValue construct(const jit::Node& node, const jit::Stack& inputs) {
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

}  // namespace

TensorData to_parts(const at::Tensor& tensor) {
  TensorData data = to_ours(tensor);
  if (data.empty()) return data;
  if (is_complex(data.tensor.dtype) && data.tensor.rank() == kMaxRank) return {};
  data.tensor = view_as_real(data.tensor);
  return data;
}

at::Tensor in_place_of(const at::Tensor& theirs, const Tensor& ours) {
  const at::Tensor tensor = to_torch(ours);
  return theirs.is_complex() ? at::view_as_complex(tensor) : tensor;
}

bool leaves_memory(std::string_view kind) {
  static const std::set<std::string_view> kKinds = {
      "aten::empty",          "aten::empty_like",        "aten::empty_strided", "aten::new_empty",
      "aten::empty_permuted", "aten::new_empty_strided", "aten::resize_"};
  return kKinds.contains(kind);
}

bool is_uninitialised(const jit::Node& node) { return leaves_memory(node.kind().toQualString()); }

void fill_memory(const at::Tensor& tensor, uint64_t seed) {
  const bool truth = tensor.scalar_type() == at::kBool;
  tensor.fill_(static_cast<int64_t>(truth ? seed % 2 : seed % 89 + 3));
}

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

// What the observer sees of one execution.
class NodeRunner::Run final : public NodeRun {
 public:
  Run(NodeRunner& runner, const jit::Node& of) : runner_(runner), of_(of) {}

  std::vector<Argument> arguments() const override {
    std::vector<Argument> result;
    for_each_tensor([&](const at::Tensor& tensor) {
      result.push_back({tensor.unsafeGetTensorImpl(), to_parts(tensor)});
    });
    return result;
  }

  Identity identity(size_t output) const override {
    const IValue& value = runner_.get(of_.outputs()[output]);
    return value.isTensor() ? value.toTensor().unsafeGetTensorImpl() : nullptr;
  }

  std::vector<Argument> elements() const override {
    std::vector<Argument> result;
    for (const jit::Value* value : of_.outputs())
      if (const IValue& output = runner_.get(value); output.isTensorList())
        for (const at::Tensor& element : output.toTensorVector())
          result.push_back({element.unsafeGetTensorImpl(), to_parts(element)});
    return result;
  }

  std::optional<bool> boolean(std::string_view argument) const override {
    for (size_t i = 0; i < node->argument_names.size() && i < of_.inputs().size(); ++i)
      if (const IValue& value = runner_.get(of_.inputs()[i]);
          node->argument_names[i] == argument && value.isBool())
        return value.toBool();
    return std::nullopt;
  }

  std::optional<std::vector<TensorData>> outputs_of(std::span<const Tensor> given) const override {
    if (!may_run_again(of_)) return std::nullopt;
    const std::vector<IValue> before = runner_.values_;
    runner_.replays_ = true;
    std::optional<std::vector<TensorData>> result = run_again(given);
    runner_.replays_ = false;
    runner_.values_ = before;
    return result;
  }

  void replace(size_t output, const Tensor& tensor) override {
    const jit::Value* value = of_.outputs()[output];
    const at::Tensor theirs = runner_.get(value).toTensor();
    const at::Tensor ours = in_place_of(theirs, tensor);
    // Written to where it lies, for what shares its memory.
    if (theirs.sizes() == ours.sizes() && theirs.is_non_overlapping_and_dense())
      theirs.copy_(ours);
    else
      runner_.set(value, ours);
  }

 private:
  // The values that the node reads: its inputs, and what its blocks take from around.
  void collect_read(const jit::Node& node, std::set<const jit::Value*>& inside,
                    std::vector<const jit::Value*>& read) const {
    for (const jit::Value* value : node.inputs())
      if (inside.count(value) == 0 && std::find(read.begin(), read.end(), value) == read.end())
        read.push_back(value);
    for (const jit::Block* block : node.blocks()) {
      inside.insert(block->inputs().begin(), block->inputs().end());
      for (const jit::Node* inner : block->nodes()) {
        collect_read(*inner, inside, read);
        inside.insert(inner->outputs().begin(), inner->outputs().end());
      }
      collect_read(*block->return_node(), inside, read);
    }
  }
  std::vector<const jit::Value*> values_read() const {
    std::set<const jit::Value*> inside;
    std::vector<const jit::Value*> read;
    collect_read(of_, inside, read);
    return read;
  }

  static bool may_run_again(const jit::Node& node) {
    const c10::FunctionSchema* schema = node.maybeSchema();
    if (node.kind() == c10::prim::SetAttr || (schema != nullptr && schema->is_mutable()) ||
        node.isNondeterministic())
      return false;
    for (const jit::Block* block : node.blocks())
      for (const jit::Node* inner : block->nodes())
        if (!may_run_again(*inner)) return false;
    return true;
  }

  std::optional<std::vector<TensorData>> run_again(std::span<const Tensor> given) const {
    size_t next = 0;
    const auto replaced = [&](const at::Tensor& theirs) {
      const Tensor& ours = given[next++];
      return ours.data == nullptr ? theirs : in_place_of(theirs, ours);
    };
    try {
      for (const jit::Value* value : values_read()) {
        const IValue theirs = runner_.get(value);
        if (theirs.isTensor()) runner_.set(value, replaced(theirs.toTensor()));
        if (!theirs.isTensorList()) continue;
        c10::List<at::Tensor> list;
        for (const at::Tensor& element : theirs.toTensorVector()) list.push_back(replaced(element));
        runner_.set(value, std::move(list));
      }
      runner_.execute(const_cast<jit::Node&>(of_), *node);
    } catch (const std::exception&) {
      return std::nullopt;
    } catch (const ReferenceFailure&) {
      return std::nullopt;
    }
    std::vector<TensorData> result;
    for (const jit::Value* value : of_.outputs()) {
      const IValue& output = runner_.get(value);
      if (output.isTensorList())
        for (const at::Tensor& element : output.toTensorVector())
          result.push_back(to_parts(element));
      else
        result.push_back(output.isTensor() ? to_parts(output.toTensor()) : TensorData());
    }
    return result;
  }

  template <class Visit>
  void for_each_tensor(const Visit& visit) const {
    for (const jit::Value* value : values_read()) {
      const IValue& input = runner_.get(value);
      if (input.isTensor()) visit(input.toTensor());
      if (input.isTensorList())
        for (const at::Tensor& element : input.toTensorVector()) visit(element);
    }
  }

  NodeRunner& runner_;
  const jit::Node& of_;
};

NodeRunner::NodeRunner(const TorchModule& torch, uint64_t seed, const Observer& observer,
                       int64_t most_rounds)
    : torch_(torch),
      seed_(seed),
      observer_(observer),
      rounds_left_(most_rounds > 0 ? most_rounds : std::numeric_limits<int64_t>::max()),
      values_(static_cast<size_t>(torch.id_count)) {}

void NodeRunner::run(const jit::Block& block, const ScriptBlock& script) {
  size_t i = 0;
  for (jit::Node* node : const_cast<jit::Block&>(block).nodes()) run(*node, script.nodes[i++]);
}

void NodeRunner::run(jit::Node& node, const ScriptNode& script) {
  try {
    execute(node, script);
  } catch (const std::exception& error) {
    throw ReferenceFailure{script.kind, script.origin, one_line(error.what())};
  }
  if (is_uninitialised(node) && get(node.output()).isTensor())
    fill_memory(get(node.output()).toTensor(), seed_);
  if (!observer_ || replays_) return;
  Run run(*this, node);
  run.node = &script;
  run.occurrence = occurrences_[&script]++;
  for (const jit::Value* value : node.outputs())
    run.outputs.push_back(get(value).isTensor() ? to_parts(get(value).toTensor()) : TensorData());
  if (!observer_(run)) throw Stop();
}

void NodeRunner::branch(const jit::Node& node, const ScriptNode& script, size_t index) {
  const jit::Block* block = node.blocks()[index];
  run(*block, script.blocks[index]);
  for (size_t i = 0; i < node.outputs().size(); ++i)
    set(node.outputs()[i], IValue(get(block->outputs()[i])));
}

void NodeRunner::loop(const jit::Node& node, const ScriptNode& script) {
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

void NodeRunner::execute(jit::Node& node, const ScriptNode& script) {
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
  if (kind == c10::aten::remainder && get(node.inputs()[0]).isInt() &&
      get(node.inputs()[1]).isInt() && get(node.inputs()[1]).toInt() == 0)
    throw std::runtime_error("division by zero");  // where libtorch ends the process
  if (kind == c10::prim::Uninitialized) return set(node.output(), IValue());
  if (kind == c10::prim::unchecked_cast) return set(node.output(), IValue(get(node.input())));
  if (kind == c10::prim::TupleUnpack) {
    auto tuple = get(node.input()).toTuple();
    for (size_t i = 0; i < node.outputs().size(); ++i) set(node.outputs()[i], tuple->elements()[i]);
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

}  // namespace hg::convert
