// SPDX-License-Identifier: Apache-2.0
// The table of all rows of ONNX ops.
#pragma once

#include <span>
#include <string_view>

#include "converter/rows/node_call.h"

namespace hg::convert {

// An op of ONNX: its name, and what it does.
struct Builtin {
  std::string_view kind;
  bool (*run)(NodeCall&);
};
std::span<const std::span<const Builtin>> onnx_builtins();
// Whether the op takes sequences of parts whose number sizes decide (sequence.cpp).
bool onnx_takes_parts(std::string_view kind);

}  // namespace hg::convert
