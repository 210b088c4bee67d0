// SPDX-License-Identifier: Apache-2.0
// Fits the --input options to the arguments of the script's forward.
#pragma once

#include <string>
#include <vector>

#include "converter/cli/options.h"
#include "converter/core/script.h"

namespace hg::convert {

// Returns the range of values that the check gives to a number, if the file states its range.
std::optional<std::pair<double, double>> checked_numbers(const ScriptInput& input);

// The option must have the file's type; its symbols may be numbers or have other names. Sets the
// file's range if the option has none. `renamed` collects the replacements of symbols. Throws
// Failure (usage).
using Renamed = std::vector<std::pair<std::string, Dim>>;
// Returns the expression with its symbols replaced.
Result<Dim> renamed_dim(const Dim& dim, const Renamed& renamed);
void require_narrower(InputOption& option, const ScriptInput& input, Renamed& renamed);

// Returns the options in the order of forward's tensors. Named options go to their argument, the
// others to the remaining arguments in order. Without options, infers shapes from the first layer
// if possible, and describes that in `note`. Throws Failure (usage) that names a missing, unknown
// or superfluous input.
std::vector<InputOption> fit_inputs(const ScriptProgram& program, std::vector<InputOption> options,
                                    std::string& note);

// --input NEW=NAME:...: gives the graph's inputs their new names, and the options the names that
// the inputs have in the program. Throws Failure (usage) if a name is taken.
void rename_inputs(Graph& graph, std::vector<InputOption>& options);

// Returns "--input 'x:f32[n, 4]'" for inputs whose shape the first layer determines; may be empty.
std::string suggested_inputs(const ScriptProgram& program);

// "x: Tensor, mask: Optional[Tensor]"
std::string describe_inputs(const ScriptProgram& program);

}  // namespace hg::convert
