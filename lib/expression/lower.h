// SPDX-License-Identifier: Apache-2.0
// Lowers a parsed kernel to nodes of a graph. Uses only elementwise ops and views, so that passes
// fuse them and the ops supply the gradients.
#pragma once

#include <span>
#include <vector>

#include "hg/graph.h"
#include "hg/registry.h"
#include "lib/expression/syntax.h"

namespace hg {

// An argument, by position of its parameter. Numbers are f64, i64 or bool of rank 0.
struct KernelInput {
  Value value;
  bool is_number = false;  // adapts to the dtype of the other operands
};

struct LowerOptions {
  bool strict = false;  // all tensors with dims have one shape
  Shape shape;          // of the call, in addition to the shapes of the arguments
};

// One value per output, in the shape of the call.
Result<std::vector<Value>> lower_kernel(Graph& graph, const Syntax& syntax,
                                        std::span<const KernelInput> inputs,
                                        const LowerOptions& options);

// Fails if a function is not in the registry or is not elementwise.
Status check_functions(const Syntax& syntax, const Registry& registry);

}  // namespace hg
