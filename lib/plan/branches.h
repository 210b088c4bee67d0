// SPDX-License-Identifier: Apache-2.0
// Runs independent branches of a model concurrently, each on one thread, if that is estimated to be
// faster than running their steps one after another on all threads. SessionOptions::disabled_passes
// = {"branches"} disables it.
#pragma once

#include "lib/plan/plan.h"

namespace hg {

// Returns `plan` with branches where they save time and the arena does not grow too much for it.
// Kernels in branches are prepared for one thread.
Result<Plan> run_side_by_side(const PlanRequest& request, Plan plan);

// Sets Plan::apart: accesses of the lanes that must stay disjoint when sizes change.
void note_apart(Plan& plan);
bool is_still_apart(const Plan& plan);

}  // namespace hg
