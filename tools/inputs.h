// SPDX-License-Identifier: Apache-2.0
// Maps --input to the inputs of a model: files, or types to be filled with random numbers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hg/graph.h"
#include "hg/npy.h"
#include "hg/session.h"
#include "tools/cli.h"

namespace hg::tools {

// One tensor for each input of a graph, in its order.
using InputArrays = std::vector<Array>;

// What stands for files that are not given.
struct RandomInputs {
  uint64_t seed = 0;
  SymbolSizes dims = {};       // sizes of symbols that no --input determines
  bool fills_missing = false;  // inputs that are not named get random numbers too
};

// Each argument is "FILE.npy" or "NAME=FILE.npy"; those without a name go to the inputs that no
// name claims, in order. With `random`, "NAME:i64[1,8]=0..99" (input_text.h), "NAME=i64[1,8]=0..99"
// and "NAME=0..99" stand for seeded random numbers of that type; NAME is optional except in the
// last one, and so is the range.
Outcome open_inputs(const Graph& graph, std::span<const std::string> arguments,
                    const RandomInputs* random, InputArrays& arrays);

// What files hold becomes what the inputs take, where no more than digits are lost (npy_cast.h);
// appends a note to `notes`, where given, of each such input, once.
Outcome match_types(const Graph& graph, InputArrays& arrays, std::vector<std::string>* notes);

// Lends the arrays to the session; they must outlive its runs.
Outcome set_inputs(Session& session, const InputArrays& arrays);

// Writes every output as FOLDER/<name>.npy, and appends the paths; makes the folder if it is
// missing. Characters of a name that do not belong into a file name become '_', and where two names
// would then be one file, the later one gets another '_'. With `as_f32`, f16 and bf16 become f32.
Outcome write_outputs(const Session& session, const std::string& folder, bool as_f32,
                      std::vector<std::string>& paths);

std::string inputs_text(const Graph& graph);  // "x: f32[n, 3], mask: bool[n]"

}  // namespace hg::tools
