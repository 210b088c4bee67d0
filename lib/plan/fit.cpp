// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/fit.h"

#include <algorithm>
#include <optional>

#include "lib/plan/order.h"
#include "lib/plan/recompute.h"

namespace hg {
namespace {

// An order other than the graph's must save at least this much.
constexpr double kWorthwhile = 0.99;
// How much longer a training step may take to save memory without a request, as a fraction of its
// cost.
constexpr double kAllButFree = 1.0 / 32;
// How far the actual plan may be below the estimate.
constexpr double kEstimate = 0.8;

bool is_training_step(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return (node.op->def.traits & kInPlace) != 0; });
}

// `base` is a plan of the same part. The node that ends the part comes last.
Result<Plan> plan_of(PlanRequest& request, const Plan& base, NodeOrder schedule) {
  if (base.next_node < request.graph->nodes().size())
    schedule.push_back(static_cast<int32_t>(base.next_node));
  request.schedule = &schedule;
  int32_t expand_node = -1;
  return make_plan(request, &expand_node);
}

}  // namespace

Result<Plan> fit_plan(PlanRequest request, Plan base, int64_t arena_limit) {
  if (request.options->keep_all_values || base.schedule.size() < 3) return base;
  if (base.joined > 0) {  // joined values are alive earlier
    request.join = false;
    HG_TRY_ASSIGN(Plan apart, plan_of(request, base, base.schedule));
    request.join = base.all_arena_bytes() <= apart.all_arena_bytes();
    if (!request.join) base = std::move(apart);
  }
  const Liveness liveness(*request.graph, base);
  const int64_t peak = liveness.profile(base.schedule).peak;
  std::optional<Plan> better;
  const auto best = [&]() -> Plan& { return better ? *better : base; };
  // Keeps the plan if it needs less than this fraction of the best plan's bytes.
  const auto keep = [&](Result<Plan> other, double part) -> Status {
    HG_TRY(other.status());
    if (static_cast<double>(other->all_arena_bytes()) <
        part * static_cast<double>(best().all_arena_bytes()))
      better = *std::move(other);
    return {};
  };
  for (const NodeOrder& order : other_orders(liveness))
    if (static_cast<double>(liveness.profile(order).peak) <=
        kWorthwhile * static_cast<double>(peak))
      HG_TRY(keep(plan_of(request, base, order), kWorthwhile));
  if (request.options->checkpoint == Checkpoint::sqrt)
    HG_TRY(keep(plan_of(request, base, checkpoint_sqrt(liveness, best().schedule)), 1));
  if (arena_limit == 0 && request.device == nullptr && is_training_step(*request.graph)) {
    // Mainly normalizations and activations, which are cheap to recompute.
    double cost = 0;
    for (const int32_t node : base.schedule) cost += liveness.cost(node);
    const Rematerialized least = recompute(liveness, best().schedule, kAllButFree * cost).back();
    HG_TRY(keep(plan_of(request, base, without_needless(liveness, least.schedule, least.peak)),
                kWorthwhile));
  }
  if (arena_limit == 0 || best().all_arena_bytes() <= arena_limit) return std::move(best());
  std::vector<Rematerialized> choices = recompute(liveness, best().schedule);
  if (base.schedule != best().schedule)
    for (Rematerialized& r : recompute(liveness, base.schedule)) choices.push_back(std::move(r));
  // Tries schedules whose estimate is far above the limit only if all others exceed it too.
  for (const bool likely : {true, false}) {
    for (const Rematerialized& r : choices) {
      const bool is_near =
          kEstimate * static_cast<double>(r.peak) <= static_cast<double>(arena_limit);
      if (is_near != likely) continue;
      HG_TRY(keep(plan_of(request, base, without_needless(liveness, r.schedule, r.peak)), 1));
      if (best().all_arena_bytes() <= arena_limit) return std::move(best());
    }
  }
  return std::move(best());
}

}  // namespace hg
