// SPDX-License-Identifier: Apache-2.0
// Turns products of dequantized tensors into products of their integers.
#pragma once

#include "converter/core/script.h"

namespace hg::convert {

// Linear layers and convolutions whose input and weight are results of
// quantized_decomposed::dequantize_... multiply the integers. If only a quantization reads the
// result, it becomes part of the product. Ops between that only move elements move integers. Sums
// are exact, where PyTorch's decomposed programs add floats.
void join_levels(ScriptProgram& program);

// Whether any node makes or reads a quantized tensor.
bool has_levels(const ScriptBlock& block);

}  // namespace hg::convert
