// SPDX-License-Identifier: Apache-2.0
// Runs a program that is not TorchScript node by node with libtorch's ops, for reference.cpp.
// Includes libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

#include "converter/check/reference.h"

namespace hg::convert {

struct ExportedRun {
  int runs = 1;  // returns the outputs of the last run
  Observer observer = {};
  int64_t most_rounds = 0;
  // Called with libtorch's own copy of each parameter, buffer and constant.
  std::function<void(const at::Tensor& weight)> change_weight = {};
};

// See run_reference_nodes().
std::vector<TensorData> run_exported(const Loaded& loaded, std::span<const ReferenceInput> inputs,
                                     uint64_t seed, const ExportedRun& how);

}  // namespace hg::convert
