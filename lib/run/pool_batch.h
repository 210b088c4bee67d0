// SPDX-License-Identifier: Apache-2.0
// One batch of a Pool on one session: concatenates the rows of requests, runs them, and splits the
// results.
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "hg/pool.h"

namespace hg {

// A request in a batch.
struct BatchPart {
  std::span<const ConstTensor> inputs;
  int64_t rows = 0;
  std::vector<TensorData> outputs;
  Status status;
  int64_t batch_rows = 0;
  std::chrono::microseconds waited{0};
};

class BatchRunner {
 public:
  BatchRunner(Session session, int64_t most_rows)
      : session_(std::move(session)), most_rows_(most_rows) {}

  // Concatenates the rows of all parts, and pads with copies of the last row to a planned size.
  Status gather(std::span<BatchPart* const> parts);
  // Runs the batch and gives each part its rows.
  Status run(std::span<BatchPart* const> parts, const std::stop_token& stop);
  // Runs one part unchanged, of any size.
  Status run_alone(BatchPart& part, const std::stop_token& stop);
  // Runs each part alone and fails if a result differs by more than rounding. If the parts are
  // equal, one of them also runs together with zeros, since equal parts cannot show that rows
  // influence each other. Returns false if the model rejects zeros, so nothing is proved.
  Result<bool> prove(std::span<BatchPart* const> parts, const std::stop_token& stop);

 private:
  Status take_outputs(BatchPart& part, int64_t first_row);
  Status check_equal(const BatchPart& alone, const BatchPart& part) const;
  Result<bool> prove_beside_zeros(const BatchPart& alone, const std::stop_token& stop);

  Session session_;
  int64_t most_rows_;
  std::vector<TensorData> gathered_;  // per input: bytes, grown as needed
};

// Number of rows that a batch is padded to: the next power of two, at most `most`.
int64_t padded_rows(int64_t rows, int64_t most);

}  // namespace hg
