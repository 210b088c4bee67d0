// SPDX-License-Identifier: Apache-2.0
// Runs a program that is not TorchScript with libtorch's ops, one node after another, for
// reference.cpp. Includes libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

#include "converter/check/reference.h"

namespace hg::convert {

struct ExportedRun {
  int runs = 1;  // of several, the last one's outputs
  Observer observer = {};
  int64_t most_rounds = 0;
  // Is given libtorch's own copy of each parameter, buffer and constant.
  std::function<void(const at::Tensor& weight)> change_weight = {};
};

// As run_reference_nodes().
std::vector<TensorData> run_exported(const Loaded& loaded, std::span<const ReferenceInput> inputs,
                                     uint64_t seed, const ExportedRun& how);
bool exported_varies(const ScriptBlock& block);
bool exported_has_uninitialised(const ScriptBlock& block);

}  // namespace hg::convert
