// SPDX-License-Identifier: Apache-2.0
// What the options mean for a GGUF file, which has no program.
#pragma once

#include <string>
#include <vector>

#include "converter/core/job.h"
#include "converter/load/gguf/decoder.h"
#include "hg/graph.h"

namespace hg::convert {

// Throws Failure (usage) for an option that only programs have.
void refuse_options_of_programs(const Job& job, const std::string& label);

// The inputs of the decoder's graph with the values that the check may give them.
std::vector<InputOption> inputs_of_decoder(const Graph& graph, const gguf::Decoder& decoder);

}  // namespace hg::convert
