// SPDX-License-Identifier: Apache-2.0
// Reads an ONNX model (IR 3 and newer) into a ScriptProgram. Nodes are named like onnx::Conv; their
// attributes and opset version are a dict in `constant`.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "converter/load/load.h"
#include "converter/onnx/types.h"

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

}  // namespace hg::convert
