// SPDX-License-Identifier: Apache-2.0
// The meaning of options for a GGUF file, which contains no program.
#pragma once

#include <string>
#include <vector>

#include "converter/core/job.h"
#include "converter/load/gguf/decoder.h"
#include "hg/graph.h"

namespace hg::convert {

// Throws Failure (usage) for an option that applies only to programs.
void refuse_options_of_programs(const Job& job, const std::string& label);

// Returns the inputs of the decoder's graph, with the ranges of values for the check.
std::vector<InputOption> inputs_of_decoder(const Graph& graph, const gguf::Decoder& decoder);

}  // namespace hg::convert
