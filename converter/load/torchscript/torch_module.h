// SPDX-License-Identifier: Apache-2.0
// A loaded TorchScript module as libtorch sees it. Only files that include libtorch include this.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "converter/core/script.h"

namespace hg::convert {

// Complex numbers become pairs of reals, [..., 2].
inline bool is_pairs(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kComplexFloat || tensor.scalar_type() == at::kComplexDouble;
}

struct TorchModule {
  torch::jit::Module module;
  std::string method = "forward";                              // that is converted
  std::shared_ptr<torch::jit::Graph> graph;                    // of the method, all calls inlined
  std::unordered_map<const torch::jit::Value*, ScriptId> ids;  // the program's number of each value
  ScriptId id_count = 0;
  std::vector<at::Tensor> tensors;  // as ScriptProgram::tensors, sharing memory with it
};

// A copy for libtorch.
at::Tensor to_torch(const Tensor& tensor);
// As a row-major tensor that shares libtorch's memory where that is row-major; empty for tensors of
// kinds or dtypes that this library does not have.
TensorData to_ours(const at::Tensor& tensor);
// Tensors and numbers, in order, out of what forward returns; copied, since the next run may write
// to them.
void flatten(const c10::IValue& value, std::vector<TensorData>& out);

}  // namespace hg::convert
