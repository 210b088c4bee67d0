// SPDX-License-Identifier: Apache-2.0
// The check of ONNX and GGUF files. Compares every node of the imported graph with the plain loops
// over doubles, the optimized graph with that run, and, if requested, both with ONNX Runtime.
#pragma once

#include <functional>
#include <string>

#include "converter/check/check.h"
#include "converter/check/onnx_reference.h"

namespace hg::convert {

// `graph` is the imported graph; `written` is the model with that graph, as read back. Nodes that
// the loops do not cover are reported as not exercised: random numbers, bodies of control flow, and
// nodes that take too long. `runtime` may be null; the import itself is then reported as not
// exercised, with the text `import_unchecked`.
CheckResult check_by_loops(const Graph& graph, const Model& written, const Job& job,
                           const OnnxReference* runtime, const std::string& import_unchecked,
                           const std::function<void(const std::string&)>& progress);

}  // namespace hg::convert
