// SPDX-License-Identifier: Apache-2.0
// Numbers for symbolic sizes, from --dim and --check-size, and suggestions of numbers in messages.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "converter/core/imported.h"
#include "converter/core/job.h"
#include "converter/core/script.h"
#include "hg/op.h"

namespace hg::convert {

// Whether the shape of an input contains the symbol.
bool has_symbol(const Job& job, const std::string& symbol);

// Replaces the symbols of --dim in the inputs. Throws Failure (usage) for a symbol that no input
// has.
void apply_dims(Job& job);

// Replaces symbols in the inputs that are other sizes in every run: those of `imported`, and those
// that an op of its graph requires to be a number. Returns whether an input has changed.
bool solve_sizes(Job& job, const Imported& imported);

// Returns one size per symbol with --check-size: the first one other than 1, which is a special
// case, or otherwise 1.
std::vector<std::pair<std::string, int64_t>> asked_sizes(const Job& job);

// Returns "; with --dim n=2 the model converts ...": the options with which the program can be
// imported, for one symbol or for all; empty if there are none.
std::string fixed_sizes_hint(const ScriptProgram& program, const std::vector<InputSpec>& specs,
                             const Job& job, const Registry& registry);

}  // namespace hg::convert
