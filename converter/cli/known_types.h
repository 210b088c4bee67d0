// SPDX-License-Identifier: Apache-2.0
// For formats that record the types of their inputs: what --input may still change.
#pragma once

#include "converter/cli/options.h"
#include "converter/core/script.h"

namespace hg::convert {

// The range of values that the check gives to a number, where the file says its own.
std::optional<std::pair<double, double>> checked_numbers(const ScriptInput& input);

// The option must be of the file's type, with numbers or other names for its symbols, and gets the
// file's range where it has none. `renamed` collects what the symbols have become. Throws Failure
// (usage).
using Renamed = std::vector<std::pair<std::string, Dim>>;
void require_narrower(InputOption& option, const ScriptInput& input, Renamed& renamed);

}  // namespace hg::convert
