// SPDX-License-Identifier: Apache-2.0
#include "converter/memory/leaving.h"

#include <algorithm>

namespace hg::convert {

Leaving::Leaving(Memory& memory, std::vector<TensorRef> results)
    : memory_(memory),
      region_(memory.depth()),
      results_(std::move(results)),
      outside_(results_.size()) {
  for (const TensorRef& result : results_)
    for (const TensorRef& root : result ? memory.roots_of(result) : std::vector<TensorRef>())
      if (!memory.is_outer(root)) ++uses_[root];
  for (const TensorRef& result : results_) look_at(result, false);
  for (const Value& value : told_) types_.push_back({value.dtype(), value.shape()});
}

// A root that belongs to one result only need not be output, unless a choice leads to it.
void Leaving::look_at(const TensorRef& tensor, bool chosen) {
  if (!tensor || memory_.is_outer(tensor) || !seen_.emplace(tensor, chosen).second) return;
  if (tensor->base_) {
    look_at(tensor->base_, chosen);
    if (memory_.steps_of(tensor)) fixed_.insert(tensor);
    return;
  }
  const bool is_told = std::find(order_.begin(), order_.end(), tensor) != order_.end();
  if (tensor->is_choice()) {
    if (!is_told) {
      order_.push_back(tensor);
      told_.push_back(memory_.here(tensor->condition_));
      orders_.push_back(MemoryOrder::unknown);
    }
    look_at(tensor->yes_, true);
    look_at(tensor->no_, true);
  } else if ((chosen || uses_[tensor] > 1) && !is_told) {
    order_.push_back(tensor);
    told_.push_back(memory_.read(tensor));
    orders_.push_back(memory_.order(tensor));
  }
}

void Leaving::arrive(std::span<const Value> told) {
  for (size_t i = 0; i < order_.size(); ++i) {
    if (order_[i]->is_choice()) {
      conditions_[order_[i]] = told[i];
      continue;
    }
    TensorRef& root = arrived_[order_[i]];
    root = memory_.make_like(order_[i], told[i]);
    memory_.set_order(root, orders_[i]);
  }
  for (size_t i = 0; i < results_.size(); ++i) outside_[i] = moved(results_[i]);
}

// Returns null for a root that is not output, and for tensors that cannot be rebuilt outside.
TensorRef Leaving::moved(const TensorRef& tensor) {
  if (!tensor || tensor->region_ < region_) return tensor;
  const auto found = arrived_.find(tensor);
  if (found != arrived_.end()) return found->second;
  TensorRef result;
  if (tensor->base_) {
    const TensorRef base = fixed_.contains(tensor) ? moved(tensor->base_) : nullptr;
    if (base) result = memory_.again(tensor, base);
  } else if (tensor->is_choice()) {
    const TensorRef yes = moved(tensor->yes_), no = moved(tensor->no_);
    if (!yes == !tensor->yes_ && !no == !tensor->no_)
      result = memory_.make_choice(conditions_.at(tensor), yes, no, Value());
  }
  arrived_[tensor] = result;
  return result;
}

void Leaving::became(size_t result, const TensorRef& tensor) {
  if (!results_[result]) return;
  for (const TensorRef& root : memory_.roots_of(results_[result])) {
    TensorRef& there = arrived_[root];
    if (root->region_ >= region_ && !there) there = tensor;
    vague_.emplace_back(tensor, root);
  }
}

void Leaving::share() {
  const auto outside = [&](const TensorRef& root) {
    if (root->region_ < region_) return root;
    const auto found = arrived_.find(root);
    return found == arrived_.end() ? nullptr : found->second;
  };
  for (const auto& [root, uses] : uses_)
    if (const TensorRef there = outside(root)) vague_.emplace_back(there, root);
  for (const auto& [tensor, root] : vague_) {
    memory_.share_lists(root, tensor);
    for (const TensorRef& twin : memory_.twins_of(root))
      if (const TensorRef there = outside(twin)) memory_.may_share(tensor, there);
  }
}

}  // namespace hg::convert
