// SPDX-License-Identifier: Apache-2.0
// Schedules that recompute values instead of keeping them, to reduce memory.
#pragma once

#include <limits>
#include <vector>

#include "lib/plan/liveness.h"

namespace hg {

struct Rematerialized {
  NodeOrder schedule;
  int64_t peak = 0;  // estimated bytes
};

// Schedules from `base` down to the least memory found, or to `most_cost` extra operations, each a
// few percent smaller than the previous. Each step recomputes the value that is live at the peak
// and cheapest to recompute per byte.
std::vector<Rematerialized> recompute(const Liveness& liveness, const NodeOrder& base,
                                      double most_cost = std::numeric_limits<double>::infinity());

// Removes recomputations while the estimate stays within `bytes`, most expensive first.
NodeOrder without_needless(const Liveness& liveness, NodeOrder schedule, int64_t bytes);

// Splits the nodes before the peak into about sqrt(n) segments. Values inside a segment are
// recomputed when first read after the peak (Chen et al. 2016, "Training deep nets with sublinear
// memory cost").
NodeOrder checkpoint_sqrt(const Liveness& liveness, const NodeOrder& base);

}  // namespace hg
