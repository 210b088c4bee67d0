// SPDX-License-Identifier: Apache-2.0
// A parsed kernel as nodes of a graph: only elementwise ops and views, so that the passes fuse them
// and gradients are those of the ops.
#pragma once

#include <span>
#include <vector>

#include "hg/graph.h"
#include "lib/expression/syntax.h"

namespace hg {

// An argument by the place of its parameter. Numbers are f64, i64 or bool of rank 0.
struct KernelInput {
  Value value;
  bool is_number = false;  // adapts to the dtype of what it meets
};

struct LowerOptions {
  bool strict = false;  // tensors with dims have one shape
  Shape shape;          // of the call, beside the arguments'
};

// One value for each output, in the shape of the call.
Result<std::vector<Value>> lower_kernel(Graph& graph, const Syntax& syntax,
                                        std::span<const KernelInput> inputs,
                                        const LowerOptions& options);

// Fails on functions that the registry lacks or that are no function of one element.
Status check_functions(const Syntax& syntax, const Registry& registry);

}  // namespace hg
