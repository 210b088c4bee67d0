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

  // Returns the role of a float initializer of the main graph or of a body.
  State::Kind of(const file::TensorProto& tensor) const;
  // Returns whether an exporter computed the initializer from others. It may be a copy of one.
  bool is_computed(const std::string& name) const;

 private:
  void read_uses(const file::GraphProto& graph);

  std::unordered_map<std::string, State::Kind> said_;      // recorded by torch.onnx.export
  std::unordered_map<std::string, State::Kind> settings_;  // from the nodes that use them
  std::unordered_set<std::string> weights_;                // weights of layers
  std::unordered_set<std::string> instance_norms_;         // inputs of InstanceNormalization
  bool names_states_ = false;  // initializers from a state_dict have its names
};

}  // namespace hg::convert::onnx
