// SPDX-License-Identifier: Apache-2.0
// --loop: outputs of one run that are inputs of the next run become states of the file.
#pragma once

#include <functional>
#include <string_view>

#include "converter/check/check.h"
#include "converter/core/job.h"
#include "hg/model.h"

namespace hg::convert {

// Parses "cache_out=cache_in". "{i}" on both sides stands for any number.
LoopOption parse_loop(std::string_view text);  // throws Failure (usage)

// Returns the model with states in the place of these inputs and outputs, in all entries that have
// them. Throws Failure (usage) for a loop that no entry has, or for values that cannot be a state.
Model with_loops(const Model& model, const Job& job);

// Runs each entry of the written file several times. The model without states gets its own outputs
// as inputs. Adds a mismatch to the result. `job_of` returns the job of an entry.
void check_loops_between_runs(const Model& plain, const Model& written, const Job& job,
                              const std::function<const Job&(std::string_view)>& job_of,
                              CheckResult& result);

}  // namespace hg::convert
