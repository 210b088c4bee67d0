// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/fit.h"

#include "lib/plan/order.h"
#include "lib/plan/recompute.h"

namespace hg {
namespace {

// An order that is not the graph's must save this much.
constexpr double kWorthwhile = 0.99;
// How far the planner may stay below the estimate.
constexpr double kEstimate = 0.8;

// `base` is a plan of the same part. The node that ends the part comes last.
Result<Plan> plan_of(PlanRequest& request, const Plan& base, Schedule schedule) {
  if (base.next_node < request.graph->nodes().size())
    schedule.push_back(static_cast<int32_t>(base.next_node));
  request.schedule = &schedule;
  int32_t expand_node = -1;
  return make_plan(request, &expand_node);
}

}  // namespace

Result<Plan> fit_plan(PlanRequest request, Plan plan, int64_t arena_limit) {
  if (request.options->keep_all_values || plan.schedule.size() < 3) return plan;
  if (plan.joined > 0) {  // which brings memory to life earlier
    request.join = false;
    HG_TRY_ASSIGN(Plan apart, plan_of(request, plan, plan.schedule));
    request.join = plan.all_arena_bytes() <= apart.all_arena_bytes();
    if (!request.join) plan = std::move(apart);
  }
  const Plan base = plan;
  const Liveness liveness(*request.graph, base);
  const int64_t peak = liveness.profile(base.schedule).peak;
  for (const Schedule& order : other_orders(liveness)) {
    if (static_cast<double>(liveness.profile(order).peak) > kWorthwhile * static_cast<double>(peak))
      continue;
    HG_TRY_ASSIGN(Plan other, plan_of(request, base, order));
    if (static_cast<double>(other.all_arena_bytes()) <
        kWorthwhile * static_cast<double>(plan.all_arena_bytes()))
      plan = std::move(other);
  }
  if (request.options->checkpoint == Checkpoint::sqrt) {
    HG_TRY_ASSIGN(Plan other, plan_of(request, base, checkpoint_sqrt(liveness, plan.schedule)));
    if (other.all_arena_bytes() < plan.all_arena_bytes()) plan = std::move(other);
  }
  if (arena_limit == 0 || plan.all_arena_bytes() <= arena_limit) return plan;
  Plan smallest = std::move(plan);
  std::vector<Rematerialized> choices = recompute(liveness, smallest.schedule);
  if (base.schedule != smallest.schedule)
    for (Rematerialized& r : recompute(liveness, base.schedule)) choices.push_back(std::move(r));
  // What the estimate puts far above the limit is tried only when all else is above it too.
  for (const bool likely : {true, false}) {
    for (const Rematerialized& r : choices) {
      const bool is_near =
          kEstimate * static_cast<double>(r.peak) <= static_cast<double>(arena_limit);
      if (is_near != likely) continue;
      HG_TRY_ASSIGN(Plan other,
                    plan_of(request, base, without_needless(liveness, r.schedule, r.peak)));
      if (other.all_arena_bytes() < smallest.all_arena_bytes()) smallest = std::move(other);
      if (smallest.all_arena_bytes() <= arena_limit) return smallest;
    }
  }
  return smallest;
}

}  // namespace hg
