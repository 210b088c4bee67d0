// SPDX-License-Identifier: Apache-2.0
#include "converter/load/onnx/onnx.h"

#include "converter/load/onnx/graph.h"

namespace hg::convert {

Loaded load_onnx(const std::string& path, const std::string& label) {
  const std::shared_ptr<onnx::file::ModelProto> model = onnx::read_model(path, label);
  Loaded loaded;
  onnx::Weights weights(model, path);
  onnx::GraphReader(*model, weights, loaded.program).read();
  return loaded;
}

}  // namespace hg::convert
