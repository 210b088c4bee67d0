// SPDX-License-Identifier: Apache-2.0
// Files whose first dim counts samples, split into inputs of single runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/inputs.h"

namespace hg::tools {

struct Samples {
  InputArrays files;                           // which the runs refer to
  std::vector<std::vector<ConstTensor>> runs;  // per run, the inputs of the graph in order
};

// `arguments` are those of open_inputs(). A run uses `batch` samples; the last one uses the rest.
// For an input with a fixed first size, a run uses that many. 0: one run uses the files as they
// are.
Outcome open_samples(const Graph& graph, std::span<const std::string> arguments, int64_t batch,
                     Samples& samples);

}  // namespace hg::tools
