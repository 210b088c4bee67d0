// SPDX-License-Identifier: Apache-2.0
// The check of files whose own runtime is not at hand, such as ONNX: every node of the graph as it
// was read, against the plain loops over doubles, and the optimised graph against that run.
#pragma once

#include <functional>
#include <string>

#include "converter/check/check.h"

namespace hg::convert {

// `graph` is the imported one, `written` the model with that graph as it was read back. What the
// loops do not say (random numbers, bodies of control flow, what takes too long) is counted among
// what was not exercised, and so is the import itself, which nothing else has run.
CheckResult check_by_loops(const Graph& graph, const Model& written, const Job& job,
                           const std::function<void(const std::string&)>& progress);

}  // namespace hg::convert
