// SPDX-License-Identifier: Apache-2.0
// For formats that record the types of their inputs: what --input may still change.
#pragma once

#include "converter/cli/options.h"
#include "converter/core/script.h"

namespace hg::convert {

// Returns the range of values that the check gives to a number, if the file states its range.
std::optional<std::pair<double, double>> checked_numbers(const ScriptInput& input);

// The option must have the file's type; its symbols may be numbers or have other names. Sets the
// file's range if the option has none. `renamed` collects the replacements of symbols. Throws
// Failure (usage).
using Renamed = std::vector<std::pair<std::string, Dim>>;
void require_narrower(InputOption& option, const ScriptInput& input, Renamed& renamed);

}  // namespace hg::convert
