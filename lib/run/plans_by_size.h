// SPDX-License-Identifier: Apache-2.0
// Cache of an engine's plans by size. A part is found by the sizes of all symbols and the part that
// it continues; the first part also by the input shapes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/run/ready_plan.h"

namespace hg {

class PlansBySize {
 public:
  static constexpr size_t kMostOfAPart = 16;

  // Null if not cached.
  ReadyPlan* find(size_t part, const Bindings& bindings, const ReadyPlan* previous) const;
  ReadyPlan* find_first(std::span<const Tensor> inputs, const Bindings& outer_sizes) const;
  ReadyPlan* find_next(size_t part, const ReadyPlan& previous,
                       std::span<const int64_t> sizes) const;
  // Returns a plan that can be refilled for these sizes, or null.
  ReadyPlan* find_range(size_t part, const Bindings& bindings, const ReadyPlan* previous) const;

  // If the part is at its limit, evicts its least recently used plan, and plans of later parts that
  // continue it.
  ReadyPlan* add(size_t part, std::unique_ptr<ReadyPlan> plan);
  // Counts plans for ranges that failed; after two in a row, ranges are not tried any more.
  void tried_range(bool fits) { range_failures_ = fits ? 0 : range_failures_ + 1; }
  bool may_have_ranges() const { return range_failures_ < 2; }
  void clear() { parts_.clear(); }
  bool empty() const { return parts_.empty(); }
  std::span<const std::vector<std::unique_ptr<ReadyPlan>>> all() const { return parts_; }
  std::span<const std::unique_ptr<ReadyPlan>> of_part(size_t part) const {
    if (part >= parts_.size()) return {};
    return parts_[part];
  }

 private:
  ReadyPlan* use(ReadyPlan& ready) const;
  void drop_continuations(size_t part, const ReadyPlan& previous);

  std::vector<std::vector<std::unique_ptr<ReadyPlan>>> parts_;
  mutable int64_t uses_ = 0;
  int range_failures_ = 0;  // in a row
};

}  // namespace hg
