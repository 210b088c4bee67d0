// SPDX-License-Identifier: Apache-2.0
// Fits the --input options to the arguments of the script's forward.
#pragma once

#include <string>
#include <vector>

#include "converter/cli/options.h"
#include "converter/core/script.h"

namespace hg::convert {

// The options in the order of forward's tensors: named ones go to their place, the others fill the
// rest in order. With no options at all, shapes are inferred where the first layer tells them, and
// `note` says so. Throws Failure (usage) naming what is missing, unknown or too much.
std::vector<InputOption> fit_inputs(const ScriptProgram& program, std::vector<InputOption> options,
                                    std::string& note);

// --input NEW=NAME:...: the graph's inputs get their new names, and the options the names that the
// inputs have in the program. Throws Failure (usage) where a name is taken.
void rename_inputs(Graph& graph, std::vector<InputOption>& options);

// "--input 'x:f32[n, 4]'" for the inputs whose first layer tells their shape; may be empty.
std::string suggested_inputs(const ScriptProgram& program);

// "x: Tensor, mask: Optional[Tensor]"
std::string describe_inputs(const ScriptProgram& program);

}  // namespace hg::convert
