// SPDX-License-Identifier: Apache-2.0
// The sequences that one thread generates: several that run together and join and leave between
// steps, or one at a time.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "hg/batch_generator.h"

class Rows {
 public:
  // A hg::BatchGenerator, or a hg::Generator if `count` is 1 or sequences cannot join a batch of
  // the model.
  static hg::Result<std::unique_ptr<Rows>> create(const hg::Model& model, int64_t count,
                                                  const hg::SessionOptions& options);
  virtual ~Rows() = default;

  // As in hg::BatchGenerator.
  virtual hg::Result<int64_t> add(const std::vector<int32_t>& prompt, hg::GenerateOptions options,
                                  std::stop_token stop) = 0;
  virtual hg::Status step(std::stop_token stop) = 0;
  virtual std::span<const hg::EndedSequence> ended() const = 0;
  virtual hg::Status end(int64_t id) = 0;
  virtual int64_t count() const = 0;
  virtual int64_t vocabulary() const = 0;
  virtual int64_t position_limit() const = 0;
};
