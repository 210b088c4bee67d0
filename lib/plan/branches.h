// SPDX-License-Identifier: Apache-2.0
// Branches of a model that do not need each other run side by side, each on one thread: where that
// is estimated to take less time than their steps one after another, each shared by all threads.
// Off with SessionOptions::disabled_passes = {"branches"}.
#pragma once

#include "lib/plan/plan.h"

namespace hg {

// `plan` of the request, with branches where they gain something and the arena does not grow by
// more than that is worth. Kernels in them are prepared for one thread.
Result<Plan> run_side_by_side(const PlanRequest& request, Plan plan);

}  // namespace hg
