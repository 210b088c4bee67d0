// SPDX-License-Identifier: Apache-2.0
// The check of ONNX and GGUF files. Compares every node of the imported graph with the plain loops
// over doubles, the optimized graph with that run, and, if requested, both with ONNX Runtime.
#pragma once

#include <functional>
#include <string>

#include "converter/check/check.h"
#include "converter/check/onnx_reference.h"

namespace hg::convert {

// `graph` is the imported one, `written` the model with that graph as it was read back. What the
// loops do not say (random numbers, bodies of control flow, what takes too long) is counted among
// what was not exercised. So is the import itself without `runtime`, which may be null:
// `import_unchecked` says so.
CheckResult check_by_loops(const Graph& graph, const Model& written, const Job& job,
                           const OnnxReference* runtime, const std::string& import_unchecked,
                           const std::function<void(const std::string&)>& progress);

}  // namespace hg::convert
