// SPDX-License-Identifier: Apache-2.0
// Runs the entries of the written file in turn, beside the methods of the module, and compares the
// states that each run leaves.
#pragma once

#include <string>
#include <vector>

#include "converter/check/check.h"
#include "hg/model.h"

namespace hg::convert {

struct EntryInTurn {
  std::string name;  // empty: the only one
  const Loaded* loaded;
  const Graph* graph;
  const Job* job;
  const CheckResult* alone;  // of the entry's own check
};

// Adds to the result: a mismatch, or warnings about what cannot be compared. Runs start from the
// states of the reference, so that rounding does not add up.
void check_in_turn(const std::vector<EntryInTurn>& entries, const Model& written, uint64_t seed,
                   CheckResult& result);

}  // namespace hg::convert
