// SPDX-License-Identifier: Apache-2.0
#include "converter/carried.h"

#include <algorithm>

namespace hg::convert {

Carried::Carried(Memory& memory, std::vector<TensorRef> start)
    : memory_(memory), leaves_(start.size()) {
  for (size_t i = 0; i < start.size(); ++i)
    if (start[i]) {
      leaves_[i].targets.push_back({start[i], 0});
      leaves_[i].starts_outside = true;
    }
}

std::vector<Value> Carried::numbers(const std::vector<bool>& carried) {
  carried_ = carried;
  std::vector<Value> numbers;
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (carried[i] && !leaves_[i].targets.empty())
      numbers.push_back(
          memory_.graph().scalar(int64_t{leaves_[i].starts_outside ? 1 : 0}, i64));
  return numbers;
}

std::vector<TensorRef> Carried::placed(const std::vector<TensorRef>& own,
                                       const std::vector<Value>& numbers) {
  Graph& graph = memory_.graph();
  std::vector<TensorRef> placed = own;
  size_t next = 0;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!carried_[i] || !own[i]) continue;
    const Leaf& leaf = leaves_[i];
    for (const TensorRef& root : leaf.vague) memory_.may_share(own[i], root);
    for (const size_t other : leaf.vague_leaves)
      if (own[other]) memory_.may_share(own[i], own[other]);
    if (leaf.targets.empty()) continue;
    const Value number = numbers[next++], value = memory_.read(own[i]);
    for (size_t k = leaf.targets.size(); k-- > 0;) {
      const Target& target = leaf.targets[k];
      const TensorRef tensor = target.outside ? target.outside : own[target.leaf];
      if (!tensor) continue;
      const Value is_there =
          graph.call("eq", {number, graph.scalar(static_cast<int64_t>(k) + 1, i64)});
      placed[i] = memory_.make_choice(is_there, tensor, placed[i], value);
    }
  }
  return placed;
}

int64_t Carried::code(Leaf& leaf, const Target& target, bool& settled) {
  const auto found = std::find(leaf.targets.begin(), leaf.targets.end(), target);
  const int64_t code = found - leaf.targets.begin() + 1;
  if (found == leaf.targets.end()) {
    leaf.targets.push_back(target);
    settled = false;
  }
  return code;
}

std::vector<Value> Carried::next(const std::vector<TensorRef>& left, bool& settled) {
  Graph& graph = memory_.graph();
  const auto add = [&](auto& set, const auto& what) { settled &= !set.insert(what).second; };
  std::vector<std::vector<Memory::Place>> outside(left.size()), inside(left.size());
  std::vector<std::set<TensorRef>> vague(left.size());  // roots of the body
  for (size_t i = 0; i < left.size(); ++i) {
    if (!carried_[i] || !left[i]) continue;
    for (const Memory::Place& place : memory_.places_of(left[i])) {
      if (memory_.is_outer(place.tensor)) {
        outside[i].push_back(place);
        continue;
      }
      if (place.tensor->is_root()) inside[i].push_back(place);
      for (const TensorRef& root : memory_.twins_of(place.tensor)) {
        if (memory_.is_outer(root))
          add(leaves_[i].vague, root);
        else if (root != place.tensor)
          vague[i].insert(root);
      }
    }
  }
  std::vector<Value> numbers;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!carried_[i] || !left[i]) continue;
    Leaf& leaf = leaves_[i];
    Value number = graph.scalar(int64_t{0}, i64);
    const auto set = [&](const Target& target, const Value& condition) {
      const Value chosen = graph.scalar(code(leaf, target, settled), i64);
      number = condition ? graph.call("where", {condition, chosen, number}) : chosen;
    };
    // The first leaf that shares its tensor is the one that has it.
    for (size_t j = i; j-- > 0;) {
      for (const Memory::Place& mine : inside[i]) {
        for (const Memory::Place& other : inside[j])
          if (mine.tensor == other.tensor)
            set({nullptr, j}, memory_.both(mine.condition, other.condition));
        if (vague[j].contains(mine.tensor)) add(leaf.vague_leaves, j);
      }
      for (const Memory::Place& other : inside[j])
        if (vague[i].contains(other.tensor)) add(leaf.vague_leaves, j);
      for (const TensorRef& root : vague[i])
        if (vague[j].contains(root)) add(leaf.vague_leaves, j);
    }
    for (const Memory::Place& place : outside[i]) set({place.tensor, 0}, place.condition);
    if (!leaf.targets.empty()) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace hg::convert
