// SPDX-License-Identifier: Apache-2.0
// Concatenations without copies: if the parts are contiguous in the result, such as channels of one
// image, their producers write there directly and the concatenation has no step.
#pragma once

#include <unordered_map>

#include "lib/plan/plan.h"

namespace hg {

// Each part belongs to one whole. The parts of a whole are adjacent and cover it.
struct Joins {
  struct Part {
    ValueId whole = kNoValue;
    int64_t offset = 0;  // in bytes
  };
  std::unordered_map<ValueId, Part> parts;
  std::unordered_map<ValueId, int64_t> wholes;  // in bytes
};

// Finds the joins of a schedule. A schedule that recomputes values has none. If `ranged`, finds
// only those whose parts have the same offsets at all sizes.
Joins find_joins(const Graph& graph, const NodeOrder& schedule, const Bindings& bindings,
                 bool ranged = false);

}  // namespace hg
