// SPDX-License-Identifier: Apache-2.0
// The table of all rows of ONNX ops.
#pragma once

#include <span>
#include <string_view>

#include "converter/rows/node_call.h"

namespace hg::convert {

// A row of an ONNX op: its name and the function that converts it.
struct Builtin {
  std::string_view kind;
  bool (*run)(NodeCall&);
};
std::span<const std::span<const Builtin>> onnx_builtins();
// Returns whether the op accepts sequences of parts whose number depends on sizes (sequence.cpp).
bool onnx_takes_parts(std::string_view kind);

}  // namespace hg::convert
