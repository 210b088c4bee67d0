// SPDX-License-Identifier: Apache-2.0
// Names of opset versions and element types that the ONNX reader passes to the rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "hg/tensor.h"

namespace hg::convert {

// Key of the opset version among a node's attributes; ONNX attribute names have no spaces.
inline constexpr char kOpset[] = "opset version";
// Returns the name of ONNX's number of a dtype, such as "uint16" or "string", for messages.
std::string describe_onnx_dtype(int64_t data_type);
// An integer type without a Hologram dtype, and a wider dtype for its numbers.
struct SmallInteger {
  DType dtype = i32;
  int bits = 0;
  bool is_signed = false;
  double low() const { return is_signed ? -std::exp2(bits - 1) : 0; }
  double high() const { return std::exp2(is_signed ? bits - 1 : bits) - 1; }
};
std::optional<SmallInteger> small_integer_of_onnx(int64_t data_type);
// An Object represents a tensor of such a type. Its attributes are ONNX's number of the type, and
// the tensor in the wider dtype.
inline constexpr char kSmallType[] = "type", kSmallNumbers[] = "numbers";

}  // namespace hg::convert
