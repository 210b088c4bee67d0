// SPDX-License-Identifier: Apache-2.0
// The numbers of symbolic sizes: of --dim, of --check-size, and those that a message suggests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "converter/core/job.h"
#include "converter/core/script.h"
#include "hg/op.h"

namespace hg::convert {

// Replaces the symbols of --dim in the inputs. Throws Failure (usage) for a symbol that no input
// has.
void apply_dims(Job& job);

// Of each symbol with --check-size one size: 1 where that is all, since it is special.
std::vector<std::pair<std::string, int64_t>> asked_sizes(const Job& job);

// "; with a number for this size (--dim n=2) it can be converted ...": the options with which the
// program can be imported, for one symbol or for all; else empty.
std::string fixed_sizes_hint(const ScriptProgram& program, const std::vector<InputSpec>& specs,
                             const Job& job, const Registry& registry);

}  // namespace hg::convert
