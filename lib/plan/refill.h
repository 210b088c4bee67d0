// SPDX-License-Identifier: Apache-2.0
// Fills a plan for other sizes: the order, the memory layout and the branches stay, and only nodes
// that depend on a changed symbol are prepared again. Results are bit-identical to those of a new
// plan: each node has the kernel, the shapes and the strides that it has there.
#pragma once

#include <vector>

#include "lib/plan/plan.h"

namespace hg {

struct RefillResult {
  // False if a new plan would differ in more than sizes, or if the sizes do not suit the model. The
  // plan is then unusable until it is refilled with `is_stale`.
  bool fits = true;
  bool has_grown = false;           // the layout, because a block needs more memory than it has
  std::vector<int32_t> steps = {};  // that were prepared again; the number of steps: `measure`
};

// Fills `plan`, which must have `can_refill`, for the bindings of the request. Fails only if memory
// is exhausted. `request.previous` is the part that the plan continues; its layout must not have
// changed.
Status refill_plan(PlanRequest request, Plan& plan, bool is_stale, RefillResult& result);

}  // namespace hg
