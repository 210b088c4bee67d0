// SPDX-License-Identifier: Apache-2.0
// A method with all calls inlined. Each node's scope ends in "at:" and the path of the module that
// owns the code; libtorch's own inliner keeps it only in part.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace hg::convert {

// Returns the graph of a method of `module`. Also modifies the module's methods: numbers that a
// trace turned into tensors become numbers again. Throws Failure if a function calls itself.
std::shared_ptr<torch::jit::Graph> inlined_graph(const torch::jit::Module& module,
                                                 torch::jit::Function& method);

}  // namespace hg::convert
