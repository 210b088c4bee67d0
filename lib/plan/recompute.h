// SPDX-License-Identifier: Apache-2.0
// Schedules that compute values again instead of keeping them, to need less memory.
#pragma once

#include <limits>
#include <vector>

#include "lib/plan/liveness.h"

namespace hg {

struct Rematerialized {
  NodeOrder schedule;
  int64_t peak = 0;  // estimated bytes
};

// From `base`, in steps of some percent less memory each, down to the least that is found, or that
// costs at most `most_cost` more. Each step frees what is alive at the peak and cheapest to compute
// again for the bytes it frees.
std::vector<Rematerialized> recompute(const Liveness& liveness, const NodeOrder& base,
                                      double most_cost = std::numeric_limits<double>::infinity());

// Drops repetitions as long as the estimate stays within `bytes`, the dearest first.
NodeOrder without_needless(const Liveness& liveness, NodeOrder schedule, int64_t bytes);

// The nodes before the peak in about sqrt(n) segments: values inside of a segment are computed
// again when the first reader after the peak comes (Chen et al. 2016, "Training deep nets with
// sublinear memory cost").
NodeOrder checkpoint_sqrt(const Liveness& liveness, const NodeOrder& base);

}  // namespace hg
