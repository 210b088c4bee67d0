// SPDX-License-Identifier: Apache-2.0
// Reads an ONNX model (IR 3 and newer) into a ScriptProgram. Nodes are named like onnx::Conv; their
// attributes and opset version are a dict in `constant`.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "converter/load/load.h"

namespace hg::onnx_file {
class ModelProto;
}

namespace hg::convert {

// Throws Failure. `label` stands for the path in messages. An input that the file has a value for
// is a constant, unless `opened` names it.
Loaded load_onnx(const std::string& path, const std::string& label,
                 const std::set<std::string>& opened);

// The file itself, for what runs it beside the converted model.
struct OnnxSource {
  std::string path;
  std::shared_ptr<const onnx_file::ModelProto> model;
  std::unordered_map<std::string, ScriptId> values;  // of the main graph, by name
};

// The key of the opset version among a node's attributes; no attribute of ONNX has a space.
inline constexpr char kOpset[] = "opset version";
// The name of ONNX's number of a dtype, such as "uint16" or "string"; for messages.
std::string describe_onnx_dtype(int64_t data_type);
// An integer type that Hologram lacks, and a wider dtype that holds its numbers.
struct SmallInteger {
  DType dtype = i32;
  int bits = 0;
  bool is_signed = false;
  double low() const { return is_signed ? -std::exp2(bits - 1) : 0; }
  double high() const { return std::exp2(is_signed ? bits - 1 : bits) - 1; }
};
std::optional<SmallInteger> small_integer_of_onnx(int64_t data_type);
// An Object stands for a tensor of such a type. Its attributes: ONNX's number of the type, and the
// tensor of the wider dtype.
inline constexpr char kSmallType[] = "type", kSmallNumbers[] = "numbers";

}  // namespace hg::convert
