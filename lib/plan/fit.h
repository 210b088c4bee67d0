// SPDX-License-Identifier: Apache-2.0
// Selects the plan with the least memory among several orders; within a memory limit, the plan with
// the least recomputation.
#pragma once

#include "lib/plan/plan.h"

namespace hg {

// `base` is the plan of the request in graph order. limit 0: none. If no schedule fits, returns the
// smallest plan found, which exceeds the limit.
Result<Plan> fit_plan(PlanRequest request, Plan base, int64_t arena_limit);

}  // namespace hg
