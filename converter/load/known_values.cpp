// SPDX-License-Identifier: Apache-2.0
#include "converter/load/known_values.h"

#include <algorithm>
#include <utility>

#include "lib/graph/element.h"

namespace hg::convert {
namespace {

// Ops whose results share no memory with an argument.
bool makes_memory(const ScriptNode& node) {
  return node.kind.starts_with("quantized_decomposed::") ||
         node.kind.find("pool") != std::string::npos ||
         node.kind.find("conv") != std::string::npos ||
         node.kind.find("norm") != std::string::npos ||
         is_any(node, {"aten::linear",   "aten::matmul",  "aten::mm",    "aten::addmm",
                       "aten::add",      "aten::sub",     "aten::mul",   "aten::div",
                       "aten::relu",     "aten::sigmoid", "aten::tanh",  "aten::hardswish",
                       "aten::hardtanh", "aten::clamp",   "aten::cat",   "aten::stack",
                       "aten::mean",     "aten::softmax", "aten::clone", "aten::embedding",
                       "aten::zeros",    "aten::ones",    "aten::silu",  "aten::gelu"});
}

void find_set(const ScriptBlock& block, std::set<std::string>& changed) {
  for (const ScriptNode& node : block.nodes) {
    if (node.kind == "prim::SetAttr") changed.insert(node.attribute);
    for (const ScriptBlock& inner : node.blocks) find_set(inner, changed);
  }
}

}  // namespace

KnownValues::KnownValues(const ScriptProgram& program) : program_(program) {
  find_set(program.body, changed_);
  const std::vector<ScriptId>& inputs = program.body.inputs;
  if (!inputs.empty() && program.root) items_[inputs[0]] = program.root;
  const std::map<ScriptId, Item> root = items_;
  for (size_t i = 1; i < inputs.size(); ++i) memories_[inputs[i]] = {own_memory(inputs[i])};
  find_changes(program.body);
  items_ = root;  // numbers of tensors were learned before all writes were known
}

int64_t KnownValues::own_memory(ScriptId id) const {
  return static_cast<int64_t>(program_.tensors.size()) + id;
}

void KnownValues::note_write(ScriptId to) {
  writes_ = true;
  if (const auto found = memories_.find(to); found != memories_.end())
    written_.insert(found->second.begin(), found->second.end());
  else
    writes_unknown_ = true;
}

// Ops without memory of their own share that of their first argument; containers and branches that
// of their parts.
std::optional<KnownValues::Memories> KnownValues::memories_of(const ScriptNode& node,
                                                              size_t output) const {
  std::vector<ScriptId> from = node.inputs;
  if (node.kind == "prim::If") {
    from = {node.blocks[0].outputs[output], node.blocks[1].outputs[output]};
  } else if (is_any(node, {"prim::Constant", "prim::Uninitialized"}) || makes_memory(node)) {
    from.clear();
  } else if (!node.kind.starts_with("prim::")) {
    if (!from.empty()) from.resize(1);
  } else if (!is_any(node, {"prim::ListConstruct", "prim::TupleConstruct", "prim::ListUnpack",
                            "prim::TupleUnpack"})) {
    return std::nullopt;
  }
  if (from.empty()) return Memories{own_memory(node.outputs[output])};
  Memories all;
  for (const ScriptId id : from) {
    const auto found = memories_.find(id);
    if (found == memories_.end()) return std::nullopt;
    all.insert(found->second.begin(), found->second.end());
  }
  return all;
}

void KnownValues::find_changes(const ScriptBlock& block) {
  for (const ScriptNode& node : block.nodes) {
    learn(node);
    if (is_in_place(node)) note_write(node.inputs[0]);
    for (const int out : node.outs) note_write(node.inputs[static_cast<size_t>(out)]);
    for (const ScriptBlock& inner : node.blocks) find_changes(inner);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Item* item = find(node.outputs[i]);
      const auto* index = item != nullptr ? std::get_if<ScriptTensorIndex>(&item->value) : nullptr;
      if (index != nullptr)
        memories_[node.outputs[i]] = {index->index};
      else if (auto memories = memories_of(node, i))
        memories_[node.outputs[i]] = *std::move(memories);
    }
  }
}

void KnownValues::learn(const ScriptNode& node) {
  if (node.outputs.size() != 1) return;
  const ScriptId to = node.outputs[0];
  if (node.kind == "prim::Constant") items_[to] = node.constant;
  if (node.kind == "prim::GetAttr" && changed_.count(node.attribute) == 0) {
    const Item* of = find(node.inputs[0]);
    if (of == nullptr || !of->is_object()) return;
    for (const auto& [name, item] : std::get<std::shared_ptr<Object>>(of->value)->attributes)
      if (name == node.attribute) items_[to] = item;
  }
  if (const auto holds = comparison(node)) items_[to] = *holds;
  const bool whole = node.kind == "aten::Int" || node.kind == "aten::IntImplicit";
  if (whole || node.kind == "aten::Float" || node.kind == "aten::FloatImplicit")
    if (const auto value = number(node.inputs[0]))
      items_[to] = whole ? Item(static_cast<int64_t>(*value)) : Item(*value);
}

// The result of a comparison of known values.
std::optional<bool> KnownValues::comparison(const ScriptNode& node) const {
  constexpr std::string_view kEqual[] = {"aten::eq", "aten::__is__"},
                             kOther[] = {"aten::ne", "aten::__isnot__"};
  const auto is_one = [&](const auto& kinds) {
    return std::find(std::begin(kinds), std::end(kinds), node.kind) != std::end(kinds);
  };
  if (node.kind == "aten::__not__") {
    const auto value = number(node.inputs[0]);
    return value ? std::optional<bool>(*value == 0) : std::nullopt;
  }
  if (!is_one(kEqual) && !is_one(kOther)) return std::nullopt;
  const Item *a = find(node.inputs[0]), *b = find(node.inputs[1]);
  if (a == nullptr || b == nullptr) return std::nullopt;
  const auto x = number(node.inputs[0]), y = number(node.inputs[1]);
  std::optional<bool> same;
  if (a->is_none() || b->is_none())
    same = a->is_none() && b->is_none();
  else if (a->is_string() && b->is_string())
    same = std::get<std::string>(a->value) == std::get<std::string>(b->value);
  else if (a->is_number() && b->is_number() && x && y)
    same = *x == *y;
  return same ? std::optional<bool>(*same == is_one(kEqual)) : std::nullopt;
}

const Item* KnownValues::find(ScriptId id) const {
  const auto found = items_.find(id);
  return found == items_.end() ? nullptr : &found->second;
}

bool KnownValues::is_none(ScriptId id) const {
  const Item* item = find(id);
  return item != nullptr && item->is_none();
}

const Tensor* KnownValues::tensor(ScriptId id) const {
  const Item* item = find(id);
  const auto* index = item != nullptr ? std::get_if<ScriptTensorIndex>(&item->value) : nullptr;
  if (index == nullptr || index->index < 0 || may_change(id)) return nullptr;
  return &program_.tensors[static_cast<size_t>(index->index)].data.tensor;
}

bool KnownValues::may_change(ScriptId id) const {
  if (writes_unknown_) return true;
  const auto found = memories_.find(id);
  if (found == memories_.end()) return writes_;
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](int64_t memory) { return written_.count(memory) > 0; });
}

std::optional<double> KnownValues::number(ScriptId id) const {
  const Item* item = find(id);
  if (item == nullptr) return std::nullopt;
  if (const auto* real = std::get_if<double>(&item->value)) return *real;
  if (const auto* flag = std::get_if<bool>(&item->value)) return *flag ? 1 : 0;
  if (const auto* whole = std::get_if<Dim>(&item->value); whole != nullptr && whole->is_constant())
    return static_cast<double>(whole->constant());
  if (const Tensor* held = tensor(id); held != nullptr && held->count() == 1)
    return element(*held, 0);
  return std::nullopt;
}

bool is_any(const ScriptNode& node, std::initializer_list<std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), node.kind) != kinds.end();
}

std::optional<ScriptId> argument_of(const ScriptNode& node, std::string_view name) {
  for (size_t i = 0; i < node.inputs.size() && i < node.argument_names.size(); ++i)
    if (node.argument_names[i] == name) return node.inputs[i];
  return std::nullopt;
}

bool is_in_place(const ScriptNode& node) {
  return node.kind.starts_with("aten::") && node.kind.ends_with("_") &&
         !node.kind.ends_with("__") && !node.inputs.empty();
}

}  // namespace hg::convert
