// SPDX-License-Identifier: Apache-2.0
// The arguments of forward as libtorch values. Only files that include libtorch include this.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <span>
#include <vector>

#include "converter/check/reference.h"

namespace hg::convert {

// Built from the flat list of tensors and the constants of the script, by the rules of
// import_program.
std::vector<c10::IValue> reference_arguments(const torch::jit::Graph& graph,
                                             const std::vector<c10::Argument>& arguments,
                                             std::span<const ReferenceInput> inputs,
                                             const std::vector<ScriptInput>& declared);

}  // namespace hg::convert
