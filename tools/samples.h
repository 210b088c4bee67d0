// SPDX-License-Identifier: Apache-2.0
// Files whose first dim counts samples, as the inputs of single runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/inputs.h"

namespace hg::tools {

struct Samples {
  InputArrays files;                           // which the runs look at
  std::vector<std::vector<ConstTensor>> runs;  // of each, the inputs of the graph in order
};

// `arguments` are those of open_inputs(). A run takes `batch` samples, the last one what is left,
// and of an input whose first size is fixed that many; 0: one run takes the files as they are.
Outcome open_samples(const Graph& graph, std::span<const std::string> arguments, int64_t batch,
                     Samples& samples);

}  // namespace hg::tools
