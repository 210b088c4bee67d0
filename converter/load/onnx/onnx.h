// SPDX-License-Identifier: Apache-2.0
// Reads an ONNX model (IR 3 and newer) into a ScriptProgram. Nodes have kinds such as onnx::Conv;
// their attributes and opset version are a dict in `constant`.
#pragma once

#include <functional>
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

// A function that is called with the path of a file before it is read. It may throw Failure.
using ReadsFile = std::function<void(const std::string& path)>;

// Throws Failure. `label` replaces the path in messages. An input with a value in the file is a
// constant unless `opened` contains its name. `reads` is called for files of weights beside the
// model.
Loaded load_onnx(const std::string& path, const std::string& label,
                 const std::set<std::string>& opened, const ReadsFile& reads = {});

// The parsed file, for checks that run it in addition to the converted model.
struct OnnxSource {
  std::string path;
  std::shared_ptr<const onnx_file::ModelProto> model;
  std::unordered_map<std::string, ScriptId> values;  // of the main graph, by name
};

}  // namespace hg::convert
