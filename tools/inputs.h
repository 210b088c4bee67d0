// SPDX-License-Identifier: Apache-2.0
// Maps --input to the inputs of a model: files, or types to be filled with random numbers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hg/graph.h"
#include "hg/npy.h"
#include "hg/session.h"
#include "tools/command_line/cli.h"

namespace hg::tools {

// One tensor per input of a graph, in order.
using InputArrays = std::vector<Array>;

// How inputs without a file are filled.
struct RandomInputs {
  uint64_t seed = 0;
  SymbolSizes dims = {};       // sizes of symbols that no --input determines
  bool fills_missing = false;  // inputs that are not named also get random numbers
};

// Each argument is "FILE.npy" or "NAME=FILE.npy". Arguments without a name belong to the inputs
// that no name selects, in order. With `random`, "NAME:i64[1,8]=0..99" (input_text.h),
// "NAME=i64[1,8]=0..99" and "NAME=0..99" generate seeded random numbers of that type. NAME is
// optional except in the last form, and the range is optional.
Outcome open_inputs(const Graph& graph, std::span<const std::string> arguments,
                    const RandomInputs* random, InputArrays& arrays);

// Casts the numbers of files to the types of the inputs if only precision is lost.
// Appends one note per such input to `notes`, if given.
Outcome match_types(const Graph& graph, InputArrays& arrays, std::vector<std::string>* notes);

// Sets the arrays as inputs of the session. They must outlive its runs.
Outcome set_inputs(Session& session, const InputArrays& arrays);

// FOLDER/<name>.npy for every output. Replaces characters that are not valid in file names by '_';
// if two names then collide, the later one gets another '_'.
std::vector<std::string> output_paths(const Session& session, const std::string& folder);

// Writes every output to its path, and appends the paths. Creates the folder if it does not exist.
// With `as_f32`, converts f16 and bf16 to f32.
Outcome write_outputs(const Session& session, const std::string& folder, bool as_f32,
                      std::vector<std::string>& paths);

std::string inputs_text(const Graph& graph);  // "x: f32[n, 3], mask: bool[n]"

}  // namespace hg::tools
