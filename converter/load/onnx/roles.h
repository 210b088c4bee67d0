// SPDX-License-Identifier: Apache-2.0
// The role of an ONNX model's initializers in training: parameter, buffer or constant. ONNX does
// not record it.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "converter/load/onnx/file.h"

namespace hg::convert::onnx {

class Roles {
 public:
  explicit Roles(const file::ModelProto& model);

  // Of a float initializer, of the main graph or of a body.
  State::Kind of(const file::TensorProto& tensor) const;
  // Whether an exporter computed the initializer from others, of which it may be a copy.
  bool is_computed(const std::string& name) const;

 private:
  void read_uses(const file::GraphProto& graph);

  std::unordered_map<std::string, State::Kind> said_;      // by torch.onnx.export
  std::unordered_map<std::string, State::Kind> settings_;  // by the nodes that take them
  std::unordered_set<std::string> weights_;                // of layers
  std::unordered_set<std::string> instance_norms_;         // inputs of them
  bool names_states_ = false;  // the initializers of a state_dict have its names
};

}  // namespace hg::convert::onnx
