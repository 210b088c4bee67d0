// SPDX-License-Identifier: Apache-2.0
// A language model that reads tokens and predicts the next ones. It finds the model's inputs and
// outputs by name and passes keys and values from run to run.
//
// Each run reads the past from one buffer and writes the present to another; then they change
// places. Buffers double when they are full.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "hg/session.h"

namespace hg {

class DecoderSession {
 public:
  static Result<DecoderSession> create(const Model& model, SessionOptions options);

  // Forgets all tokens.
  Status start(int64_t batch);
  // Adds a token to sequence `row`. All rows must have equally many before run(). Hidden tokens are
  // padding.
  void push(size_t row, int64_t id, int64_t position, bool is_hidden);
  // Reads the new tokens of all rows.
  Status run(std::stop_token stop);
  // Copies the logits after the last token of a row.
  Status logits(size_t row, std::vector<float>& out) const;

  bool can_pad() const { return mask_.index >= 0 && positions_.index >= 0; }
  int64_t vocabulary() const { return vocabulary_; }  // of ids; 0: unknown
  int64_t position_limit() const { return position_limit_; }

 private:
  // An input of integers. `rows` holds a value per token since start().
  struct Integers {
    int index = -1;
    DType dtype = i64;
    std::vector<std::vector<int64_t>> rows = {};
    TensorData data = {};  // of the last run
  };
  struct Cache {
    int input = -1, output = -1;
    DType dtype = f32;
    int64_t heads = 0, dim = 0;
    TensorData buffers[2] = {};  // batch * heads * capacity * dim elements
  };

  explicit DecoderSession(Session session) : session_(std::move(session)) {}
  Status find_input(int index);
  Status find_past(int index, std::string_view suffix);
  Status find_output(int index);
  Status check_parts() const;
  void find_limits(const Graph& graph);
  Status reserve(int64_t positions);
  Status set_integers(Integers& input, int64_t from);
  Status set_caches(int64_t time);

  Session session_;
  Integers ids_, mask_, positions_;
  int logits_ = -1;
  std::vector<Cache> caches_;
  int64_t vocabulary_ = 0, position_limit_ = 0;

  int64_t batch_ = 0, past_ = 0;
  int64_t capacity_ = 0, capacity_batch_ = 0;
  int now_ = 0;  // the buffers that hold the past
};

}  // namespace hg
