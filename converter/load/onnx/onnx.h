// SPDX-License-Identifier: Apache-2.0
// Reads an ONNX model (IR 3 and newer) into a ScriptProgram: nodes keep their names as onnx::Conv,
// with their attributes and their opset version as a dict in `constant`.
#pragma once

#include <string>

#include "converter/load/load.h"

namespace hg::convert {

// Throws Failure. `label` stands for the path in messages.
Loaded load_onnx(const std::string& path, const std::string& label);

// The key of the opset version among a node's attributes; no attribute of ONNX has a space.
inline constexpr char kOpset[] = "opset version";

}  // namespace hg::convert
