// SPDX-License-Identifier: Apache-2.0
// Constant weights of few bits, in the form that sessions read without widening
// (lib/quantize/rounding.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "converter/onnx/node.h"
#include "lib/quantize/rounding.h"

namespace hg::convert::onnx {

// A weight of (levels - zeros) * scales, with a scale and a zero point for each block.
struct LevelsOfWeight {
  Blocks blocks;
  int bits = 8;                 // at most 8
  bool is_signed = false;       // levels are from -2^(bits - 1) on, else from 0
  std::vector<int16_t> levels;  // of the elements in order
  std::vector<float> scales, zeros;
};
// Returns the weight in the dtype. `name` is that of the levels in the file.
Value weight_of(Node& n, const std::string& name, const LevelsOfWeight& weight, DType dtype);

// The weight whose levels are input 0, with these inputs as scale and zero point, along an axis as
// in DequantizeLinear. Nothing if they are no constant weight of at most 8 bits.
std::optional<Value> dequantized_weight(Node& n, int scale, int zero, int64_t axis, int64_t block);

// Rows of one of the matrices [matrices, rows, columns] that elementwise nodes widen from constant
// levels, as nodes that widen these rows. Nothing if the value is made in another way.
std::optional<Value> rows_of_weight(const Value& weight, int64_t matrix,
                                    const std::vector<int64_t>& rows);

}  // namespace hg::convert::onnx
