// SPDX-License-Identifier: Apache-2.0
#include "converter/load/onnx/onnx.h"

#include "converter/load/onnx/graph.h"
#include "converter/load/onnx/order.h"
#include "converter/load/onnx/pairs.h"

namespace hg::convert {

Loaded load_onnx(const std::string& path, const std::string& label,
                 const std::set<std::string>& opened, const ReadsFile& reads) {
  const std::shared_ptr<onnx::file::ModelProto> model = onnx::read_model(path, label);
  onnx::sort_nodes(*model);
  Loaded loaded;
  const bool is_stream = label != path;  // standard input has no folder
  onnx::Weights weights(model, is_stream ? "" : path, reads);
  auto source = std::make_shared<OnnxSource>();
  source->values = onnx::GraphReader(*model, weights, opened, loaded.program).read();
  onnx::join_pairs(loaded.program);
  source->path = path;
  source->model = model;
  loaded.onnx = std::move(source);
  return loaded;
}

}  // namespace hg::convert
