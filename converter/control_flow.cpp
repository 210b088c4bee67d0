// SPDX-License-Identifier: Apache-2.0
// If: followed where constants and sizes decide, kept as a graph op where data does.
#include <algorithm>

#include "converter/leaves.h"

namespace hg::convert {
namespace {

// Of a number as a tensor.
TensorType number_type(const Item& item) {
  return {item.is_bool() ? boolean : item.is_int() ? i64 : f64, {}};
}

DType common_dtype(DType a, DType b) {
  if (a == b) return a;
  return is_float(a) || is_float(b) ? f64 : i64;
}

}  // namespace

void Interpreter::made(const Item& item) {
  if (memory_.depth() == 0) return;
  const auto mark = [&](std::shared_ptr<void> container) {
    if (container_depth_.emplace(container.get(), memory_.depth()).second)
      containers_.push_back(std::move(container));
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) mark(*list);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) mark(*dict);
  if (const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value)) mark(*object);
}

int Interpreter::depth_of(const void* container) const {
  const auto found = container_depth_.find(container);
  return found == container_depth_.end() ? 0 : found->second;
}

bool Interpreter::may_grow(const void* list) const {
  return !loops_.empty() && loops_.back() > depth_of(list);
}

void Interpreter::check_change(const Item& container) const {
  const void* const identity = identity_of(container);
  if (may_grow(identity) && !container.is_object()) throw Changing{container};
  if (depth_of(identity) < memory_.depth())
    throw Refusal{
        "a list, dict or attribute is changed where data or a symbolic size decide whether "
        "it happens",
        "write into a tensor of the final size, or give a size that counts the steps as a "
        "number"};
}

bool Interpreter::ends_in_raise(const ScriptBlock& block) const {
  return std::any_of(block.nodes.begin(), block.nodes.end(),
                     [](const ScriptNode& node) { return node.kind == "prim::RaiseException"; });
}

void Interpreter::run_if(const ScriptNode& node) {
  const Item condition = get(node.inputs.at(0));
  if (const auto* tensor = std::get_if<TensorRef>(&condition.value))
    if ((*tensor)->is_poisoned()) {
      for (const ScriptBlock& block : node.blocks) list_missing(block);
      return poison_outputs(node);
    }
  int taken = -1;
  if (const auto truth = decided(condition)) {
    taken = *truth ? 0 : 1;
  } else {
    // An exception that data decides cannot be thrown by a graph: the check is left out.
    for (int side = 0; side < 2; ++side)
      if (ends_in_raise(node.blocks[static_cast<size_t>(side)])) taken = 1 - side;
    if (taken >= 0)
      note(text("a check that raises an exception is left out: ",
                node.origin.module.empty() ? node.origin.source : node.origin.module));
  }
  if (taken < 0) return if_on_data(node, condition);
  const ScriptBlock& block = node.blocks.at(static_cast<size_t>(taken));
  run_block(block);
  for (size_t i = 0; i < node.outputs.size(); ++i) set(node.outputs[i], get(block.outputs[i]));
}

std::vector<Item> Interpreter::block_results(const ScriptBlock& block) const {
  std::vector<Item> results;
  for (const ScriptId id : block.outputs) results.push_back(get(id));
  return results;
}

TensorRef Interpreter::data_condition(const Item& item) {
  const Value value = cast(number_value(memory_, item), boolean);
  return memory_.make_number(
      value.rank() == 0 ? value
                        : value.graph()->call("reshape", {value}, {{"shape", std::vector<Dim>()}}));
}

// One side of an `if` that data decides.
struct Interpreter::Side {
  std::vector<Item> results;
  std::vector<const Item*> leaves;
  std::map<const void*, TensorType> types;  // of tensors; the side alone may know its views
  TensorType type(const Item& leaf) const {
    const auto found = types.find(identity_of(leaf));
    return found != types.end() ? found->second : number_type(leaf);
  }
  Memory::Region region;
};

void Interpreter::if_on_data(const ScriptNode& node, const Item& item) {
  const Value condition = memory_.read(data_condition(item));
  const size_t failures = result_.unsupported.size();
  // Each side is run once to see what it gives, reads and writes, and again, now that the other is
  // known, to become a subgraph: both take the same inputs and give the same outputs.
  const auto run_side = [&](int side, const Side* other, const std::vector<Value>& captured,
                            const auto& finish) {
    Side result;
    memory_.enter({});
    try {
      for (const Value& value : captured) memory_.capture(value);
      const ScriptBlock& block = node.blocks[static_cast<size_t>(side)];
      run_block(block);
      result.results = block_results(block);
      for (size_t i = 0; other != nullptr && i < result.results.size(); ++i)
        result.results[i] = defined_like(result.results[i], other->results[i]);
      for (const Item& leaf : result.results) collect(leaf, result.leaves);
      for (const Item* leaf : result.leaves)
        if (const auto* tensor = std::get_if<TensorRef>(&leaf->value);
            tensor != nullptr && !(*tensor)->is_poisoned())
          result.types.emplace(tensor->get(), memory_.type(*tensor));
      finish(result);
      if (Status status = memory_.graph().take_status(); !status.ok())
        throw Refusal{std::string(status.message()), ""};
    } catch (...) {
      memory_.leave();
      throw;
    }
    result.region = memory_.leave();
    return result;
  };
  Side yes = run_side(0, nullptr, {}, [](const Side&) {});
  const Side no = run_side(1, &yes, yes.region.captured, [](const Side&) {});
  yes.leaves.clear();
  for (size_t i = 0; i < yes.results.size(); ++i) {
    yes.results[i] = defined_like(yes.results[i], no.results[i]);
    collect(yes.results[i], yes.leaves);
  }
  if (result_.unsupported.size() > failures) return poison_outputs(node);

  for (size_t i = 0; i < yes.results.size(); ++i)
    if (!same_structure(yes.results[i], no.results[i]))
      throw Refusal{
          text("data decides between ", describe(yes.results[i]), " and ", describe(no.results[i])),
          ""};
  std::vector<bool> kept;
  for (size_t i = 0; i < yes.leaves.size(); ++i) {
    const Item &a = *yes.leaves[i], &b = *no.leaves[i];
    kept.push_back(keeps(a, b) || (is_undefined(a) && (is_undefined(b) || is_constant(b))) ||
                   (is_undefined(b) && is_constant(a)));
    if (kept.back()) continue;
    for (const Item* side : {&a, &b})
      if (!side->is_tensor() && !is_numeric(*side) && !is_undefined(*side))
        throw Refusal{text("data decides between ", describe(a), " and ", describe(b)), ""};
    if (is_complex(a) != is_complex(b) && !is_undefined(a) && !is_undefined(b))
      throw Refusal{"data decides between a complex tensor and a real one", ""};
  }
  std::vector<TensorRef> touched;  // tensors from outside that either side writes
  for (const Side* side : std::initializer_list<const Side*>{&yes, &no})
    for (const Memory::Write& write : side->region.writes)
      if (std::find(touched.begin(), touched.end(), write.root) == touched.end())
        touched.push_back(write.root);

  const auto finish = [&](const Side& present) {
    Graph& g = memory_.graph();
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) continue;
      const Item& mine = *present.leaves[i];
      const Item &a = *yes.leaves[i], &b = *no.leaves[i];
      Value value;
      if (is_undefined(mine)) {
        const TensorType type = is_undefined(a) ? no.type(b) : yes.type(a);
        value = cast(g.call("expand", {g.scalar(int64_t{0}, i64)}, {{"shape", type.shape}}),
                     type.dtype);
      } else {
        value = number_value(memory_, mine);
        if (is_numeric(a) && is_numeric(b))
          value = cast(value, common_dtype(yes.type(a).dtype, no.type(b).dtype));
      }
      g.output("", value);
    }
    for (const TensorRef& root : touched) g.output("", memory_.read(root));
  };
  const Side first = run_side(0, &no, no.region.captured, finish);
  const Side second = run_side(1, &yes, first.region.captured, finish);
  for (size_t i = first.region.captured.size(); i < second.region.captured.size(); ++i) {
    const Value& value = second.region.captured[i];
    first.region.graph->input(text("in_", static_cast<int64_t>(i)), value.dtype(), value.shape());
  }
  std::vector<Value> inputs = {condition};
  inputs.insert(inputs.end(), second.region.captured.begin(), second.region.captured.end());
  const std::vector<Value> outputs =
      memory_.graph().calls("if", inputs, {}, {first.region.graph, second.region.graph});
  if (Status status = memory_.graph().take_status(); !status.ok())
    throw Refusal{std::string(status.message()), ""};

  std::vector<Item> merged;
  size_t next = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Item& typed = is_undefined(*yes.leaves[i]) ? *no.leaves[i] : *yes.leaves[i];
    if (kept[i])
      merged.push_back(typed);
    else if (is_numeric(typed))
      merged.emplace_back(memory_.make_number(outputs[next++]));
    else
      merged.emplace_back(memory_.make_like(std::get<TensorRef>(typed.value), outputs[next++]));
  }
  for (const TensorRef& root : touched) memory_.write(root, outputs[next++]);
  next = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    set(node.outputs[i], rebuild(yes.results[i], merged, next));
  kept_control_ = true;
}

}  // namespace hg::convert
