// SPDX-License-Identifier: Apache-2.0
// The plan that needs least memory among several orders, and within a limit the one that computes
// least again.
#pragma once

#include "lib/plan/plan.h"

namespace hg {

// `base` is the plan of the request in the order of the graph. A limit of 0 is none. When no
// schedule fits, the result is the smallest plan that was found, and it is above the limit.
Result<Plan> fit_plan(PlanRequest request, Plan base, int64_t arena_limit);

}  // namespace hg
