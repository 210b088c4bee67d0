// SPDX-License-Identifier: Apache-2.0
// A method with all calls inlined. Each node's scope ends in "at:" and the path of the module that
// owns the code, which libtorch's own inliner keeps only in part.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace hg::convert {

// Of a method of `module`, whose own methods are changed: numbers that a trace has made tensors are
// numbers again. Throws Failure where a function calls itself.
std::shared_ptr<torch::jit::Graph> inlined_graph(const torch::jit::Module& module,
                                                 torch::jit::Function& method);

}  // namespace hg::convert
