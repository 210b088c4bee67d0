// SPDX-License-Identifier: Apache-2.0
// A loaded TorchScript module in libtorch. Only files that include libtorch include this header.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "converter/core/script.h"

namespace hg::convert {

// Whether the elements are complex; they become pairs of reals, [..., 2].
inline bool is_pairs(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kComplexFloat || tensor.scalar_type() == at::kComplexDouble;
}

struct TorchModule {
  torch::jit::Module module;
  std::string method = "forward";                              // the converted method
  std::shared_ptr<torch::jit::Graph> graph;                    // of the method, calls inlined
  std::unordered_map<const torch::jit::Value*, ScriptId> ids;  // the program's id of each value
  ScriptId id_count = 0;
  std::vector<at::Tensor> tensors;  // as ScriptProgram::tensors, with shared memory
};

// Returns a copy for libtorch.
at::Tensor to_torch(const Tensor& tensor);
// Returns a row-major tensor that shares libtorch's memory if that is row-major. Returns an empty
// one for kinds and dtypes that this library does not have.
TensorData to_ours(const at::Tensor& tensor);
// Appends the tensors and numbers in a result of forward, in order. Copies them, because the next
// run may write to them.
void flatten(const c10::IValue& value, std::vector<TensorData>& out);

}  // namespace hg::convert
