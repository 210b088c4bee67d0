// SPDX-License-Identifier: Apache-2.0
// Turns convolutions and products between DequantizeLinear and QuantizeLinear into QLinearConv,
// QLinearMatMul and QGemm.
#pragma once

#include "converter/core/script.h"

namespace hg::convert::onnx {

// Where both stand for the same real numbers: scales and zero points are constants, the bias has
// the scale of the products, and what lies between them and QuantizeLinear changes no level. What
// differs is where f32 rounds: here the sums are exact, as they are in ONNX Runtime, which does the
// same.
void join_pairs(ScriptProgram& program);

}  // namespace hg::convert::onnx
