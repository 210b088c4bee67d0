// SPDX-License-Identifier: Apache-2.0
#include "converter/interpret/attributes.h"

#include <algorithm>
#include <cmath>

namespace hg::convert {
namespace {

std::string path_of(const Object& object, const std::string& name) {
  return object.path.empty() ? name : str_cat(object.path, ".", name);
}

// Whether both are the same number or the same container.
bool is_identical(const Item& a, const Item& b) {
  const double *x = std::get_if<double>(&a.value), *y = std::get_if<double>(&b.value);
  if (x != nullptr && y != nullptr && std::isnan(*x) && std::isnan(*y)) return true;
  return a.value == b.value;
}

using Uses = std::vector<const ScriptNode*>;

// Collects the nodes that use the value; null for a block that returns it.
void collect_uses(const ScriptBlock& block, ScriptId value, Uses& uses) {
  const auto has = [&](const std::vector<ScriptId>& ids) {
    return std::find(ids.begin(), ids.end(), value) != ids.end();
  };
  for (const ScriptNode& node : block.nodes) {
    if (has(node.inputs)) uses.push_back(&node);
    for (const ScriptBlock& inner : node.blocks) collect_uses(inner, value, uses);
  }
  if (has(block.outputs)) uses.push_back(nullptr);
}

Uses uses_of(const ScriptProgram& program, ScriptId value) {
  Uses uses;
  collect_uses(program.body, value, uses);
  return uses;
}

}  // namespace

// Compares the state after a run with the state before it.
class Attributes::Comparison {
 public:
  Comparison(const Attributes& attributes, Memory& memory, const ScriptProgram& program)
      : attributes_(attributes), memory_(memory), program_(program) {}

  bool is_same(const Item& first, const Item& now) const {
    if (const auto* tensor = std::get_if<ScriptTensorIndex>(&first.value))
      return is_same_tensor(tensor->index, now);
    if (first.value.index() != now.value.index()) return false;
    if (const auto* list = std::get_if<std::shared_ptr<List>>(&first.value)) {
      const List& left = *std::get<std::shared_ptr<List>>(now.value);
      return !left.grown && !left.pieces && are_same((*list)->items, left.items);
    }
    if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&first.value))
      return are_same((*tuple)->items, std::get<std::shared_ptr<Tuple>>(now.value)->items);
    if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&first.value)) {
      const auto& left = std::get<std::shared_ptr<Dict>>(now.value)->items;
      return std::equal((*dict)->items.begin(), (*dict)->items.end(), left.begin(), left.end(),
                        [&](const auto& a, const auto& b) {
                          return is_same(a.first, b.first) && is_same(a.second, b.second);
                        });
    }
    // The attributes of an object are compared where it is a known attribute itself.
    if (const auto* object = std::get_if<std::shared_ptr<Object>>(&first.value)) {
      const auto copy = attributes_.copies_.find(object->get());
      return copy != attributes_.copies_.end() && is_identical(copy->second, now);
    }
    return is_identical(first, now);
  }

 private:
  bool are_same(const std::vector<Item>& first, const std::vector<Item>& now) const {
    return std::equal(first.begin(), first.end(), now.begin(), now.end(),
                      [&](const Item& a, const Item& b) { return is_same(a, b); });
  }

  // Named tensors are states, which the file stores. Other tensors must not be written, unless they
  // are empty.
  bool is_same_tensor(int32_t index, const Item& now) const {
    if (index < 0) return is_identical(Item(ScriptTensorIndex{index}), now);
    const bool is_used = memory_.is_taken(index);
    if (const auto* tensor = std::get_if<TensorRef>(&now.value)) {
      if (!is_used || memory_.of_script(index) != *tensor) return false;
    } else if (!is_identical(Item(ScriptTensorIndex{index}), now)) {
      return false;
    }
    const ScriptTensor& known = program_.tensors[static_cast<size_t>(index)];
    return known.kind != State::Kind::constant || known.data.tensor.count() == 0 || !is_used ||
           !memory_.of_script(index)->is_written();
  }

  const Attributes& attributes_;
  Memory& memory_;
  const ScriptProgram& program_;
};

Attributes::Attributes(std::map<const void*, Item> copies) : copies_(std::move(copies)) {
  for (const auto& [original, copy] : copies_)
    if (const auto* object = std::get_if<std::shared_ptr<Object>>(&copy.value))
      known_[object->get()] = {static_cast<const Object*>(original), (*object)->attributes};
}

void Attributes::note_read(const Object& object, const std::string& name, const Item& item,
                           ScriptId value) {
  const auto known = known_.find(&object);
  if (known == known_.end()) return;
  for (const auto& [each, first] : known->second.first)
    if (each == name && is_identical(first, item)) reads_.emplace(path_of(object, name), value);
}

void Attributes::finish(Memory& memory, const ScriptProgram& program, Imported& result) const {
  for (const auto& [path, value] : reads_) result.attribute_reads.push_back({path, value});
  const Comparison comparison(*this, memory, program);
  for (const auto& [object, known] : known_) {
    const auto& first = known.original->attributes;
    for (size_t i = 0; i < object->attributes.size(); ++i) {
      const auto& [name, now] = object->attributes[i];
      if (i >= first.size() || !comparison.is_same(first[i].second, now))
        result.changed_attributes.push_back(path_of(*object, name));
    }
  }
}

bool only_counts(const ScriptProgram& program, const AttributeRead& read) {
  const std::string name = read.path.substr(read.path.rfind('.') + 1);
  for (const ScriptNode* sum : uses_of(program, read.value)) {
    if (sum == nullptr || (sum->kind != "aten::add" && sum->kind != "aten::sub")) return false;
    for (const ScriptNode* use : uses_of(program, sum->outputs.at(0)))
      if (use == nullptr || use->kind != "prim::SetAttr" || use->attribute != name) return false;
  }
  return true;
}

}  // namespace hg::convert
