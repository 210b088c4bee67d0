// SPDX-License-Identifier: Apache-2.0
#include "lib/run/plans_by_size.h"

#include <algorithm>

namespace hg {

ReadyPlan* PlansBySize::find(size_t part, const Bindings& bindings) const {
  for (const auto& ready : of_part(part))
    if (ready->plan.bindings == bindings) return ready.get();
  return nullptr;
}

ReadyPlan* PlansBySize::find_first(std::span<const Tensor> inputs,
                                   const Bindings& outer_sizes) const {
  if (inputs.empty()) return nullptr;
  for (const auto& ready : of_part(0))
    if (ready->outer_sizes == outer_sizes &&
        std::equal(inputs.begin(), inputs.end(), ready->input_shapes.begin(),
                   ready->input_shapes.end(),
                   [](const Tensor& input, const Sizes& shape) { return input.shape == shape; }))
      return ready.get();
  return nullptr;
}

ReadyPlan* PlansBySize::find_next(size_t part, const ReadyPlan& previous,
                                  std::span<const int64_t> sizes) const {
  for (const auto& ready : of_part(part))
    if (ready->previous == &previous &&
        std::equal(sizes.begin(), sizes.end(), ready->given_sizes.begin(),
                   ready->given_sizes.end()))
      return ready.get();
  return nullptr;
}

ReadyPlan* PlansBySize::add(size_t part, std::unique_ptr<ReadyPlan> plan) {
  if (parts_.size() <= part) parts_.resize(part + 1);
  if (parts_[part].size() >= kMostOfAPart)
    for (size_t later = part; later < parts_.size(); ++later) parts_[later].clear();
  parts_[part].push_back(std::move(plan));
  return parts_[part].back().get();
}

}  // namespace hg
