// SPDX-License-Identifier: Apache-2.0
#include "converter/memory/carried.h"

#include <algorithm>

namespace hg::convert {
namespace {

constexpr size_t kMostTargets = 6;  // per leaf

}  // namespace

Carried::Carried(Memory& memory, const std::vector<TensorRef>& start)
    : memory_(memory), leaves_(start.size()) {
  for (size_t i = 0; i < start.size(); ++i) {
    if (!start[i]) continue;
    Target target;
    target.base = start[i];
    leaves_[i].targets.push_back(target);
    leaves_[i].starts_outside = true;
  }
}

TensorRef Carried::viewed(const Target& target, TensorRef tensor) {
  for (size_t k = target.views.size(); k-- > 0 && tensor;)
    tensor = memory_.again(target.views[k], tensor);
  return tensor;
}

std::vector<Value> Carried::numbers(const std::vector<bool>& carried) {
  carried_ = carried;
  std::vector<Value> numbers;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    Leaf& leaf = leaves_[i];
    for (Target& target : leaf.targets) {
      if (!target.base || target.outside || target.is_lost) continue;
      target.outside = viewed(target, target.base);
      if (target.outside) continue;
      target.is_lost = true;
      for (const TensorRef& root : memory_.roots_of(target.base)) leaf.vague.insert(root);
    }
    if (carried[i] && !leaf.targets.empty())
      numbers.push_back(memory_.graph().scalar(int64_t{leaf.starts_outside ? 1 : 0}, i64));
  }
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
      // A leaf that turns out not to be carried has no tensor that others could be.
      if (target.is_lost || (!target.base && !own[target.leaf])) continue;
      const TensorRef tensor = target.base ? target.outside : viewed(target, own[target.leaf]);
      if (!tensor) {
        memory_.may_share(own[i], own[target.leaf]);
        continue;
      }
      const Value is_there =
          graph.call("eq", {number, graph.scalar(static_cast<int64_t>(k) + 1, i64)});
      placed[i] = memory_.make_choice(is_there, tensor, placed[i], value);
    }
  }
  return placed;
}

void Carried::follow(const TensorRef& tensor, const Way& so_far, std::vector<Way>& ways) {
  for (const Memory::Place& place : memory_.places_of(tensor)) {
    Way way = so_far;
    way.condition = memory_.both(way.condition, place.condition);
    way.tensor = place.tensor;
    if (memory_.is_outer(place.tensor) || place.tensor->is_root()) {
      ways.push_back(std::move(way));
      continue;
    }
    const auto steps = memory_.steps_of(place.tensor);
    way.is_steady &= steps.has_value();
    if (steps && !steps->empty()) {
      way.steps.push_back(*steps);
      way.views.push_back(place.tensor);
    }
    follow(memory_.base_of(place.tensor), way, ways);
  }
}

// Two views share a tensor of the body that is not a leaf. What they share is not recorded.
void Carried::share_views(const std::vector<std::vector<Way>>& ways, size_t i, size_t j,
                          bool& settled) {
  for (const Way& mine : ways[i])
    for (const Way& other : ways[j]) {
      const bool are_steady = mine.is_steady && other.is_steady;
      if (mine.tensor != other.tensor || memory_.is_outer(mine.tensor) ||
          (are_steady && (mine.steps.empty() || other.steps.empty())))
        continue;
      bool has_owner = false;
      for (const std::vector<Way>& leaf : ways)
        for (const Way& owner : leaf)
          has_owner |= are_steady && owner.tensor == mine.tensor && owner.is_steady &&
                       owner.steps.empty() &&
                       (!owner.condition || owner.condition == mine.condition ||
                        owner.condition == other.condition);
      if (!has_owner) settled &= !leaves_[i].vague_leaves.insert(j).second;
    }
}

std::vector<Value> Carried::next(const std::vector<TensorRef>& left, bool& settled) {
  Graph& graph = memory_.graph();
  std::vector<std::vector<Way>> ways(left.size());
  for (size_t i = 0; i < left.size(); ++i)
    if (carried_[i] && left[i]) follow(left[i], {}, ways[i]);
  std::vector<Value> numbers;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!carried_[i] || !left[i]) continue;
    Leaf& leaf = leaves_[i];
    const auto vague = [&](const TensorRef& root) { settled &= !leaf.vague.insert(root).second; };
    Value number = graph.scalar(int64_t{0}, i64);
    const auto set = [&](const Way& way, const Target& target, const Value& condition) {
      auto found = std::find_if(leaf.targets.begin(), leaf.targets.end(),
                                [&](const Target& known) { return known.is(target); });
      if (found == leaf.targets.end()) {
        if (leaf.targets.size() >= kMostTargets) {
          if (!target.base) settled &= !leaf.vague_leaves.insert(target.leaf).second;
          for (const TensorRef& root :
               target.base ? memory_.roots_of(target.base) : std::vector<TensorRef>())
            vague(root);
          return;
        }
        settled = false;
        leaf.targets.push_back(target);
        leaf.targets.back().steps = way.steps;
        leaf.targets.back().views = way.views;
        if (way.views.empty()) leaf.targets.back().outside = target.base;
        found = leaf.targets.end() - 1;
      }
      if (found->is_lost) return;
      const Value code = graph.scalar(found - leaf.targets.begin() + 1, i64);
      number = condition ? graph.call("where", {condition, code, number}) : code;
    };
    // If several leaves are the same tensor of the body, the first one owns it; the others are
    // views of it.
    for (size_t j = left.size(); j-- > 0;) {
      if (i == j) continue;
      for (const Way& mine : ways[i])
        for (const Way& other : ways[j]) {
          if (mine.tensor != other.tensor || memory_.is_outer(mine.tensor) || !mine.is_steady ||
              !other.is_steady || !other.steps.empty() || (mine.steps.empty() && j > i))
            continue;
          Target target;
          target.leaf = j;
          target.steps = mine.steps;
          set(mine, target, memory_.both(mine.condition, other.condition));
        }
      share_views(ways, i, j, settled);
    }
    for (const Way& way : ways[i]) {
      for (const TensorRef& root : memory_.twins_of(way.tensor))
        if (memory_.is_outer(root) && !(memory_.is_outer(way.tensor) && way.is_steady)) vague(root);
      for (size_t j = 0; j < i; ++j)
        for (const Way& other : ways[j]) {
          const auto twins = memory_.twins_of(way.tensor);
          for (const TensorRef& root : memory_.roots_of(other.tensor))
            if (!memory_.is_outer(root) && root != way.tensor &&
                std::find(twins.begin(), twins.end(), root) != twins.end())
              settled &= !leaf.vague_leaves.insert(j).second;
        }
      if (!memory_.is_outer(way.tensor) || !way.is_steady) continue;
      Target target;
      target.base = way.tensor;
      target.steps = way.steps;
      set(way, target, way.condition);
    }
    if (!leaf.targets.empty()) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace hg::convert
