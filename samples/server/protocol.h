// SPDX-License-Identifier: Apache-2.0
// Requests and answers of the Open Inference Protocol v2 as text and bytes: JSON, or JSON followed
// by the tensors' bytes (the binary tensor data extension).
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "hg/hg.h"

struct InferRequest {
  std::string id;
  std::chrono::microseconds timeout{0};  // 0: none
  size_t body_bytes = 0;
  std::vector<hg::TensorData> owned;    // owns the inputs
  std::vector<hg::ConstTensor> inputs;  // in the model's order
  struct Output {
    int index;
    bool binary;
  };
  std::vector<Output> outputs;  // the requested ones
};

// The metadata of a model, the answer to GET v2/models/NAME.
std::string describe(const std::string& name, const hg::Graph& graph);

// The first `json_bytes` of the body are JSON, the rest bytes of tensors; negative: all is JSON.
hg::Result<InferRequest> read_request(std::string_view body, int64_t json_bytes,
                                      const hg::Graph& graph);

// The body of an answer. `json_bytes` gets the length of its JSON if bytes follow, otherwise -1.
hg::Result<std::string> write_answer(const std::string& name, const InferRequest& request,
                                     const hg::Graph& graph,
                                     const std::vector<hg::TensorData>& outputs,
                                     int64_t& json_bytes);

// {"error": "..."}
std::string error_text(std::string_view message);
