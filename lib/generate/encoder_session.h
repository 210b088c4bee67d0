// SPDX-License-Identifier: Apache-2.0
// The encoder of an encoder-decoder, whose file has the entries `encode` and `decode`. It runs once
// per prompt. Every run of `decode` reads its outputs cross.X, and which positions they hide.
#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "hg/session.h"

namespace hg {

class EncoderSession {
 public:
  // Whether this input of `decode` comes from the encoder.
  static bool gives(std::string_view input);
  // `decode`: the graph that reads the outputs.
  static Result<EncoderSession> create(const Model& model, const Graph& decode,
                                       SessionOptions options);

  // Takes what the encoder reads: token ids of each prompt, or features [prompts, ...]. Copies it.
  // `copies` rows of `decode` in turn read the same prompt.
  Status begin(std::span<const std::vector<int32_t>> ids, const ConstTensor& features,
               size_t prompts, int64_t copies);
  // Runs the encoder unless it has run since begin(). Sets the inputs of `decode`.
  Status run(Session& decode, std::stop_token stop);

 private:
  explicit EncoderSession(Session session) : session_(std::move(session)) {}
  Status begin_ids(std::span<const std::vector<int32_t>> ids);
  Status keep_outputs(int64_t first);

  Session session_;
  std::string source_, mask_;  // names of inputs; mask_ may be empty
  TensorType source_type_;
  int64_t vocabulary_ = 0;            // 0: unknown
  std::vector<std::string> crosses_;  // outputs, and inputs of `decode`
  bool gives_mask_ = false;           // to `decode`

  TensorData given_, shown_;  // the inputs
  int64_t copies_ = 1;
  bool has_run_ = false;
  std::vector<TensorData> rows_;  // for `decode`: of crosses_
  TensorData shown_rows_;
};

}  // namespace hg
