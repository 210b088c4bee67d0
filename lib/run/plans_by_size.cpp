// SPDX-License-Identifier: Apache-2.0
#include "lib/run/plans_by_size.h"

#include <algorithm>

namespace hg {
namespace {

// Whether the plan, if it is of a later part, was made or filled for the current contents of the
// preceding part.
bool continues(const ReadyPlan& ready, const ReadyPlan* previous) {
  return ready.previous == previous &&
         (previous == nullptr || ready.previous_fill == previous->fill);
}

}  // namespace

ReadyPlan* PlansBySize::use(ReadyPlan& ready) const {
  ready.last_use = ++uses_;
  return &ready;
}

ReadyPlan* PlansBySize::find(size_t part, const Bindings& bindings,
                             const ReadyPlan* previous) const {
  for (const auto& ready : of_part(part))
    if (!ready->is_stale && ready->plan.bindings == bindings && continues(*ready, previous))
      return use(*ready);
  return nullptr;
}

ReadyPlan* PlansBySize::find_first(std::span<const Tensor> inputs,
                                   const Bindings& outer_sizes) const {
  if (inputs.empty()) return nullptr;
  for (const auto& ready : of_part(0))
    if (!ready->is_stale && ready->outer_sizes == outer_sizes &&
        std::equal(inputs.begin(), inputs.end(), ready->input_shapes.begin(),
                   ready->input_shapes.end(),
                   [](const Tensor& input, const Sizes& shape) { return input.shape == shape; }))
      return use(*ready);
  return nullptr;
}

ReadyPlan* PlansBySize::find_next(size_t part, const ReadyPlan& previous,
                                  std::span<const int64_t> sizes) const {
  for (const auto& ready : of_part(part))
    if (!ready->is_stale && continues(*ready, &previous) &&
        std::equal(sizes.begin(), sizes.end(), ready->given_sizes.begin(),
                   ready->given_sizes.end()))
      return use(*ready);
  return nullptr;
}

ReadyPlan* PlansBySize::find_range(size_t part, const Bindings& bindings,
                                   const ReadyPlan* previous) const {
  const auto& sizes = bindings.all();
  for (const auto& ready : of_part(part)) {
    if (!ready->plan.can_refill || ready->previous != previous ||
        (previous != nullptr && ready->previous_layout != previous->layout))
      continue;
    const auto& known = ready->plan.bindings.all();
    bool covers = known.size() == sizes.size() && ready->ranges.size() == sizes.size();
    for (size_t i = 0; covers && i < sizes.size(); ++i)
      covers = known[i].first == sizes[i].first && ready->ranges[i].holds(sizes[i].second);
    if (covers) return use(*ready);
  }
  return nullptr;
}

void PlansBySize::drop_continuations(size_t part, const ReadyPlan& previous) {
  if (part + 1 >= parts_.size()) return;
  std::erase_if(parts_[part + 1], [&](const auto& ready) {
    if (ready->previous != &previous) return false;
    drop_continuations(part + 1, *ready);
    return true;
  });
}

ReadyPlan* PlansBySize::add(size_t part, std::unique_ptr<ReadyPlan> plan) {
  if (parts_.size() <= part) parts_.resize(part + 1);
  std::vector<std::unique_ptr<ReadyPlan>>& known = parts_[part];
  if (known.size() >= kMostOfAPart) {
    const auto oldest =
        std::min_element(known.begin(), known.end(),
                         [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
    drop_continuations(part, **oldest);
    known.erase(oldest);
  }
  known.push_back(std::move(plan));
  return use(*known.back());
}

}  // namespace hg
