// SPDX-License-Identifier: Apache-2.0
// Quantized tensors of TorchScript (eager-mode and FX quantization). A program with them becomes
// one that computes their real values and rounds these to levels where PyTorch does, like the
// programs of convert_pt2e. Scales and zero points must be constants.
#pragma once

#include "converter/core/script.h"

namespace hg::convert {

// The attributes of an Object that stands for packed weights:
//   weight       levels (i8), or floats
//   scale, zero_point, axis   of the levels: numbers, or tensors along an axis
//   bias         a tensor or None
//   stride, padding, output_padding, dilation, groups, transpose   of convolutions
inline constexpr const char* kPackedWeights = "hologram.PackedWeights";
// Of a recurrent layer's direction:
//   kind               "quantized_dynamic"; others have no more attributes
//   reduce_range       whether inputs are rounded to 7 bits
//   ih, hh             packed weights
inline constexpr const char* kPackedCell = "hologram.PackedCell";
// Of an embedding, whose rows are weight * scale + offset. None for levels it cannot unpack:
//   bits               8 or 4
//   weight             levels (u8)
//   scale, offset      [rows, 1]
inline constexpr const char* kPackedEmbedding = "hologram.PackedEmbedding";
// Of a quantized tensor of the file:
//   weight             levels
//   scale, zero_point, dtype   numbers
inline constexpr const char* kQuantizedTensor = "hologram.QuantizedTensor";

// Replaces the nodes that make, read or return quantized tensors. Nodes that it cannot express get
// a `trouble`. The results of replaced nodes keep their ids.
void lower_quantized(ScriptProgram& program);

}  // namespace hg::convert
