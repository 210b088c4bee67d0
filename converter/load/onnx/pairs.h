// SPDX-License-Identifier: Apache-2.0
// Turns convolutions and products between DequantizeLinear and QuantizeLinear into QLinearConv,
// QLinearMatMul and QGemm. Ops between them that only move elements read and write 8 bits.
#pragma once

#include "converter/core/script.h"

namespace hg::convert::onnx {

// Only replaces ops for which both forms represent the same real numbers: scales and zero points
// are constants, the scale of the bias is the product of the scales, and ops between the product
// and QuantizeLinear do not change levels. The forms differ in where f32 rounds: here sums are
// exact, as in ONNX Runtime, which makes the same replacement.
void join_pairs(ScriptProgram& program);

}  // namespace hg::convert::onnx
