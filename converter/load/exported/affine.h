// SPDX-License-Identifier: Apache-2.0
// Weights that torchao quantized: integers with scales and zero points.
#pragma once

#include "converter/core/script.h"

namespace hg::convert {

// Replaces torchao::dequantize_affine of tensors of the file by the aten ops that it consists of.
// Levels from -8 to 7 that nothing else reads are packed: a byte holds two.
void write_out_affine(ScriptProgram& program);

}  // namespace hg::convert
