// SPDX-License-Identifier: Apache-2.0
// One batch of a Pool on one session: rows of requests laid one behind the other, run, and taken
// apart again.
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "hg/pool.h"

namespace hg {

// What a request has in a batch.
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

  // Puts the rows of all parts together, with copies of the last one up to a size that is planned
  // for.
  Status gather(std::span<BatchPart* const> parts);
  // Runs what was gathered, and gives each part its own rows.
  Status run(std::span<BatchPart* const> parts, const std::stop_token& stop);
  // One part as it is, whatever its sizes.
  Status run_alone(BatchPart& part, const std::stop_token& stop);
  // Runs each part alone and fails where what it has differs by more than rounding. Equal parts
  // would not show that rows see each other: one of them then runs beside zeros, too. False where
  // nothing is proved, as the model takes no zeros.
  Result<bool> prove(std::span<BatchPart* const> parts, const std::stop_token& stop);

 private:
  Status take_outputs(BatchPart& part, int64_t first_row);
  Status check_equal(const BatchPart& alone, const BatchPart& part) const;
  Result<bool> prove_beside_zeros(const BatchPart& alone, const std::stop_token& stop);

  Session session_;
  int64_t most_rows_;
  std::vector<TensorData> gathered_;  // by input; bytes, as many as were needed so far
};

// Rows that a batch is padded to: the least power of two, or `most`.
int64_t padded_rows(int64_t rows, int64_t most);

}  // namespace hg
