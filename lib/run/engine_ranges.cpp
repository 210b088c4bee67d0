// SPDX-License-Identifier: Apache-2.0
// Plans for ranges of sizes: chooses the range, and fills a plan for a size in it.
#include <algorithm>
#include <bit>

#include "lib/plan/branches.h"
#include "lib/plan/refill.h"
#include "lib/run/engine.h"
#include "lib/run/plan_packs.h"

namespace hg {
namespace {

constexpr int64_t kLeastBucket = 3;                   // smaller sizes have separate plans
constexpr int64_t kLargestBucket = int64_t{1} << 30;  // so have larger sizes

// The sizes up to the next power of two.
SizeInterval bucket_of(int64_t size) {
  if (size < kLeastBucket || size > kLargestBucket) return {size, size};
  const auto highest = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size)));
  return {highest / 2 + 1, highest};
}

Result<Bindings> highest_of(const Bindings& bindings, std::span<const SizeInterval> ranges) {
  Bindings highest;
  for (size_t i = 0; i < ranges.size(); ++i)
    HG_TRY(highest.bind(bindings.all()[i].first, ranges[i].highest));
  return highest;
}

bool allow(const Graph& graph, const Bindings& sizes) {
  return std::all_of(graph.guards().begin(), graph.guards().end(),
                     [&](const Guard& guard) { return check(guard, sizes).ok(); });
}

// Lowers the ends of ranges, one after another, until the graph's guards hold at the highest sizes:
// the next power of two may violate them. Assumes that guards hold up to some size.
void end_where_allowed(const Graph& graph, const Bindings& bindings,
                       std::vector<SizeInterval>& ranges) {
  std::vector<SizeInterval> limited = ranges;
  const auto holds = [&] {
    const Result<Bindings> highest = highest_of(bindings, limited);
    return highest.ok() && allow(graph, *highest);
  };
  if (holds()) return;
  for (size_t i = 0; i < limited.size(); ++i) limited[i].highest = bindings.all()[i].second;
  for (size_t i = 0; i < limited.size(); ++i) {
    int64_t good = limited[i].highest, bad = ranges[i].highest + 1;
    while (bad - good > 1) {
      const int64_t middle = good + (bad - good) / 2;
      limited[i].highest = middle;
      (holds() ? good : bad) = middle;
    }
    limited[i].highest = good;
  }
  ranges = std::move(limited);
}

}  // namespace

// The first size of a symbol gets a separate plan. A symbol has a range once it has had two values.
std::vector<SizeInterval> Engine::ranges_for(size_t index, const Bindings& bindings,
                                             const ReadyPlan* previous) const {
  if (device_ != nullptr || only_plan_ != nullptr || options_.autotune ||
      !options_.tuning.empty() || !plans_.may_have_ranges())
    return {};
  std::vector<SizeInterval> ranges;
  bool any = false;
  const size_t inherited = previous != nullptr ? previous->plan.bindings.all().size() : 0;
  for (size_t i = 0; i < bindings.all().size(); ++i) {
    const auto& [symbol, size] = bindings.all()[i];
    SizeInterval range{size, size};
    if (i < inherited) {  // the memory of earlier parts is already planned
      if (!previous->ranges.empty()) range = previous->ranges[i];
      ranges.push_back(range);
      any |= range.lowest < range.highest;
      continue;
    }
    for (const auto& other : plans_.of_part(index)) {
      const std::optional<int64_t> seen = other->plan.bindings.find(symbol);
      if (seen && *seen != size) range = bucket_of(size);
    }
    for (const SizeRange& wanted : options_.ranges)
      if (wanted.symbol == symbol && wanted.lowest <= size && size <= wanted.highest)
        range = {wanted.lowest, wanted.highest};
    ranges.push_back(range);
    any |= range.lowest < range.highest;
  }
  return any ? ranges : std::vector<SizeInterval>();
}

Result<ReadyPlan*> Engine::ranged_part(size_t index, const Bindings& bindings,
                                       const ReadyPlan* previous) {
  std::vector<SizeInterval> ranges = ranges_for(index, bindings, previous);
  if (ranges.empty()) return static_cast<ReadyPlan*>(nullptr);
  end_where_allowed(graph_, bindings, ranges);
  // Fills earlier parts for their current sizes.
  std::vector<SizeInterval> planned = ranges;
  if (previous != nullptr)
    for (size_t i = 0; i < previous->plan.bindings.all().size(); ++i)
      planned[i].lowest = planned[i].highest = bindings.all()[i].second;
  PlanPacks packs(compiled_->packs, graph_);
  HG_TRY_ASSIGN(const Bindings highest, highest_of(bindings, planned));
  PlanRequest request = request_for(highest, previous, packs);
  request.ranged = true;
  // Nodes that no kernel accepts at the highest sizes may have one at these sizes, so none is
  // expanded.
  Result<Plan> made = make_plan_of_part(std::move(request), false);
  auto ready = std::make_unique<ReadyPlan>();
  bool fits = made.ok() && made->can_refill;
  if (fits) {
    ready->plan = *std::move(made);
    note_apart(ready->plan);
    ready->ranges = std::move(ranges);
    RefillResult result;
    PlanRequest own = request_for(bindings, previous, packs);
    HG_TRY(refill_plan(own, ready->plan, false, ready->refills, result));
    fits = result.fits && !(result.has_grown && options_.memory_limit > 0);
  }
  plans_.tried_range(fits);
  if (!fits) return static_cast<ReadyPlan*>(nullptr);
  HG_TRY(fill_packed(ready->plan, packs.found()));
  ready->continue_from(previous);
  HG_TRY(make_ready(*ready));
  return plans_.add(index, std::move(ready));
}

Result<bool> Engine::refill(ReadyPlan& ready, const Bindings& bindings) {
  PlanPacks packs(compiled_->packs, graph_);
  RefillResult result;
  const bool was_stale = std::exchange(ready.is_stale, true);
  HG_TRY(refill_plan(request_for(bindings, ready.previous, packs), ready.plan, was_stale,
                     ready.refills, result));
  if (result.has_grown) {
    ++ready.layout;
    ++generation_;
  }
  if (!result.fits || (result.has_grown && options_.memory_limit > 0)) return false;
  if (packs.has_new()) HG_TRY(fill_packed(ready.plan, packs.found()));
  if (!options_.lazy_allocation) HG_TRY(hold_arena(ready.plan));
  if (ready.has_homes) ++generation_;
  ready.refresh(graph_);
  ready.continue_from(ready.previous);
  return true;
}

}  // namespace hg
