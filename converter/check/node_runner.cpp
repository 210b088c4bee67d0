// SPDX-License-Identifier: Apache-2.0
#include "converter/check/node_runner.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <limits>
#include <set>

#include "converter/check/recorded_run.h"

namespace hg::convert {
namespace {

namespace jit = torch::jit;
using c10::IValue;

// Returns the result of prim::ListConstruct and similar nodes; None for other nodes.
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

bool leaves_memory(std::string_view kind) {
  static const std::set<std::string_view> kKinds = {
      "aten::empty",          "aten::empty_like",        "aten::empty_strided", "aten::new_empty",
      "aten::empty_permuted", "aten::new_empty_strided", "aten::resize_"};
  return kKinds.contains(kind);
}

void fill_memory(const at::Tensor& tensor, uint64_t seed) {
  const bool truth = tensor.scalar_type() == at::kBool;
  tensor.fill_(static_cast<int64_t>(truth ? seed % 2 : seed % 89 + 3));
}

bool is_bag(std::string_view kind) {
  return kind.starts_with("aten::embedding_bag") || kind.starts_with("aten::_embedding_bag");
}

void keep_in_bounds(std::string_view kind, jit::Stack& arguments) {
  if (!is_bag(kind) || arguments.size() < 3 || !arguments[1].isTensor() || !arguments[2].isTensor())
    return;
  const at::Tensor indices = arguments[1].toTensor(), offsets = arguments[2].toTensor();
  if (!offsets.defined() || offsets.dim() != 1 || offsets.numel() == 0) return;
  const bool rising = (offsets.slice(0, 1) >= offsets.slice(0, 0, -1)).all().item<bool>();
  const int64_t last = offsets[-1].item<int64_t>();
  TORCH_CHECK(rising && last <= indices.numel(),
              "the offsets of bags must not fall, and end within the indices");
  // If it adds in place, libtorch excludes indices after the last offset; otherwise they belong to
  // the last bag, but libtorch before 2.0 writes to one beyond it.
  constexpr size_t kMode = 4, kIncludesLast = 7, kPadding = 8;
  if (arguments.size() <= kIncludesLast || !arguments[kIncludesLast].toBool()) return;
  const bool padded = arguments.size() > kPadding && arguments[kPadding].isInt() &&
                      (kind.starts_with("aten::embedding_bag") || arguments[kPadding].toInt() >= 0);
  const bool is_double = arguments[0].toTensor().scalar_type() == at::kDouble;
  if (arguments[kMode].toInt() != 2 && !padded && !is_double) return;
  arguments[2] = offsets.slice(0, 0, -1);
  arguments[kIncludesLast] = false;
}

std::string one_line(std::string_view what) {
  // An interpreter error begins with a TorchScript stack, followed by the reason.
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

class NodeRunner::Run final : public RecordedRun {
 public:
  Run(NodeRunner& runner, const ScriptNode& script, jit::Node& of)
      : RecordedRun(runner.values_, runner.replays_, script, runner.occurrences_[&script]++),
        runner_(runner),
        of_(of) {}

 private:
  bool is_repeatable() const override { return may_run_again(of_); }
  void run_again() const override { runner_.execute(of_, *node); }

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

  NodeRunner& runner_;
  jit::Node& of_;
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
  if (leaves_memory(node.kind().toQualString()) && get(node.output()).isTensor())
    fill_memory(get(node.output()).toTensor(), seed_);
  if (!observer_ || replays_) return;
  Run run(*this, script, node);
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
    throw std::runtime_error("division by zero");  // libtorch would end the process
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
  keep_in_bounds(script.kind, stack);
  node.getOperation()(stack);
  size_t first = stack.size() - node.outputs().size();
  for (size_t i = 0; i < node.outputs().size(); ++i) set(node.outputs()[i], stack[first + i]);
}

}  // namespace hg::convert
