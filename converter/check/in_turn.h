// SPDX-License-Identifier: Apache-2.0
// Runs the entries of the written file one after another, like the methods of the module, and
// compares the states after each run.
#pragma once

#include <string>
#include <vector>

#include "converter/check/check.h"
#include "hg/model.h"

namespace hg::convert {

struct EntryInTurn {
  std::string name;  // empty: the only entry
  const Loaded* loaded;
  const Graph* graph;
  const Job* job;
  const CheckResult* alone;  // result of the entry's own check
};

// Adds a mismatch to the result, or warnings about states that cannot be compared. Each run starts
// with the states of the reference, so that rounding errors do not accumulate.
void check_in_turn(const std::vector<EntryInTurn>& entries, const Model& written, uint64_t seed,
                   CheckResult& result);

}  // namespace hg::convert
