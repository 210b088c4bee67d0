// SPDX-License-Identifier: Apache-2.0
// Values that control flow bodies read, and outer tensors that they write.
#include <algorithm>

#include "converter/memory/alias.h"

namespace hg::convert {
namespace {

constexpr int64_t kSmallConstant = 64;  // largest count that a body copies, not captures

}  // namespace

bool Memory::is_open(const Graph* graph) const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [graph](const Body& body) { return body.graph == graph; });
}

Value Memory::capture_into(size_t level, Value outer) {
  Body& body = regions_[level];
  const auto found = body.inside.find(outer.id());
  if (found != body.inside.end()) return found->second;
  const TensorData* constant = outer.graph()->constant_of(outer.id());
  Value inner;
  if (constant && constant->tensor.count() <= kSmallConstant) {
    inner = body.graph->constant(*constant);
  } else {
    inner = body.graph->input(str_cat("in_", static_cast<int64_t>(body.captured.size())),
                              outer.dtype(), outer.shape());
    body.captured.push_back(outer);
  }
  body.inside.emplace(outer.id(), inner);
  return inner;
}

Value Memory::here(Value value) {
  if (!is_open(value.graph()))
    throw Refusal{"a value from inside a branch or loop is needed outside of it",
                  "compute it before the branch or loop"};
  size_t level = 0;
  while (regions_[level].graph != value.graph()) ++level;
  while (++level < regions_.size()) value = capture_into(level, value);
  return value;
}

Value Memory::capture(Value outer) { return here(outer); }

std::vector<Value> Memory::enter(const std::vector<Value>& inputs,
                                 const std::set<std::pair<size_t, size_t>>& changing) {
  Body body;
  body.owner = std::make_shared<Graph>(graph().registry());
  body.graph = body.owner.get();
  kept_.push_back(body.owner);
  // Data-dependent symbols of the body must differ from those that may be captured from outside.
  const Dim last = graph().fresh_symbol();
  while (!(body.graph->fresh_symbol() == last)) {
  }
  std::vector<Value> inside;
  for (const Value& input : inputs) {
    Shape shape = input.shape();
    for (size_t d = 0; d < shape.size(); ++d)
      if (changing.contains({inside.size(), d})) shape[d] = body.graph->fresh_symbol();
    inside.push_back(body.graph->input(str_cat("in_", static_cast<int64_t>(inside.size())),
                                       input.dtype(), std::move(shape)));
    body.captured.push_back(input);
  }
  regions_.push_back(std::move(body));
  return inside;
}

Memory::Region Memory::leave() {
  Body& body = regions_.back();
  Region region{body.owner, {}, {}, {}};
  std::vector<std::pair<TensorRef, bool>> poisoned;
  for (Saved& saved : body.saved) {
    if (saved.root->poisoned_ && !saved.poisoned)
      poisoned.emplace_back(saved.root, true);
    else if (!saved.root->invalid_because_.empty())
      region.invalidated.push_back(saved.root);
    else
      region.writes.push_back({saved.root, read(saved.root)});
  }
  region.captured = body.captured;
  for (Saved& saved : body.saved) {
    saved.root->value_ = saved.value;
    saved.root->known_ = saved.known;
    saved.root->poisoned_ = saved.poisoned;
    saved.root->invalid_because_ = saved.invalid_because;
    ++saved.root->version_;
  }
  regions_.pop_back();
  for (auto& [root, is_poisoned] : poisoned) poison(root);
  return region;
}

const std::set<std::string>& Memory::symbols_outside() {
  auto& known = regions_.back().symbols_outside;
  if (known) return *known;  // the outer graphs do not change while a body is interpreted
  std::vector<std::string> symbols;
  for (size_t level = 0; level + 1 < regions_.size(); ++level) {
    const Graph& graph = *regions_[level].graph;
    for (ValueId id = 0; id < graph.value_count(); ++id)
      for (const Dim& dim : graph.value_info(id).type.shape) dim.collect_symbols(symbols);
  }
  return known.emplace(symbols.begin(), symbols.end());
}

void Memory::save(const TensorRef& root) {
  if (root->region_ >= depth()) return;
  Body& body = regions_.back();
  for (const Saved& saved : body.saved)
    if (saved.root == root) return;
  body.saved.push_back({root, root->value_, root->known_, root->poisoned_, root->invalid_because_});
}

void Memory::set_root(const TensorRef& root, Value value) {
  save(root);
  root->value_ = value;
  root->known_.reset();
  ++root->version_;
}

}  // namespace hg::convert
