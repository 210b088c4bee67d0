// SPDX-License-Identifier: Apache-2.0
// Runs an ONNX file in ONNX Runtime: compares all outputs and finds the first node whose result
// differs. A node is wrong if ONNX Runtime computes another result from the converted model's own
// values. Differences that only accumulate from node to node are rounding.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "converter/check/check_inputs.h"
#include "converter/check/onnx_runtime.h"
#include "converter/check/wrong_node.h"
#include "converter/core/imported.h"
#include "converter/load/onnx/onnx.h"

namespace hg::convert {

class OnnxReference {
 public:
  // All arguments except the trace must outlive this object. Throws OnnxRefusal if ONNX Runtime
  // rejects the model.
  OnnxReference(const OnnxRuntime& runtime, const Loaded& loaded, const Graph& graph,
                std::span<const Executed> trace);
  ~OnnxReference();

  // Returns the outputs, with sequences flattened. An empty tensor has a dtype that Hologram does
  // not have. Throws OnnxRefusal.
  std::vector<TensorData> run(const Inputs& inputs) const;

  struct Explanation {
    std::optional<WrongNode> wrong;  // the first one
    // Every value between inputs and outputs comes from a node that was found right.
    bool complete = false;
    std::string trouble;  // why nodes could not be compared
  };
  // `kept` must have run with the same inputs, and must keep all values.
  Explanation explain(const Session& kept, const Inputs& inputs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hg::convert
