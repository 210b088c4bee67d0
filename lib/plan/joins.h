// SPDX-License-Identifier: Apache-2.0
// Concatenations without copies: where what is concatenated lies together in the result, as
// channels of one image do, its producers write there, and the concatenation itself has no step.
#pragma once

#include <unordered_map>

#include "lib/plan/plan.h"

namespace hg {

// Each part belongs to one whole; the parts of a whole lie one behind the other and fill it.
struct Joins {
  struct Part {
    ValueId whole = kNoValue;
    int64_t offset = 0;  // bytes
  };
  std::unordered_map<ValueId, Part> parts;
  std::unordered_map<ValueId, int64_t> wholes;  // bytes
};

// Those of the schedule, which computes nothing twice: else there are none.
Joins find_joins(const Graph& graph, const NodeOrder& schedule, const Bindings& bindings);

}  // namespace hg
