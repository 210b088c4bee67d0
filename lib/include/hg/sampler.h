// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from a row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hg/status.h"

namespace hg {

// The names and meanings of transformers' GenerationConfig. The defaults choose the largest logit.
struct SamplerOptions {
  float temperature = 0;         // 0: greedy; otherwise logits are divided by it
  int32_t top_k = 0;             // keeps the k largest logits and those equal to the k-th; 0: all
  float top_p = 1;               // keeps the most likely tokens until their sum reaches top_p
  float min_p = 0;               // drops tokens less likely than min_p times the most likely one
  float repetition_penalty = 1;  // above 1: tokens of the history become less likely
  uint64_t seed = 0;
};

// The steps have the order of transformers: repetition penalty, temperature, top_k, top_p, min_p.
// With temperature 0, only the penalty applies. Thread-safe.
//
// All functions fail with invalid_argument if there are no logits, if a logit is NaN or +infinity,
// or if all are -infinity.
class Sampler {
 public:
  // Fails with invalid_argument unless temperature >= 0, top_k >= 0, 0 < top_p <= 1,
  // 0 <= min_p <= 1, repetition_penalty > 0. Infinite and NaN options fail too.
  static Result<Sampler> create(const SamplerOptions& options);

  // Chooses a token. `history` holds the ids of the prompt and of the tokens so far, for the
  // penalty; ids without a logit are ignored.
  //
  // A draw depends only on the seed, `step` and `sequence`, not on threads or devices. `step`
  // counts the tokens of a sequence, and `sequence` numbers the sequences. If several logits are
  // the largest, the smallest id wins.
  Result<int32_t> choose(std::span<const float> logits, std::span<const int32_t> history,
                         uint64_t step, uint32_t sequence = 0) const;

  // Returns the logits after all steps. Dropped tokens are -infinity. If top_p separates equal
  // logits, it keeps the smaller ids.
  Result<std::vector<float>> filter(std::span<const float> logits,
                                    std::span<const int32_t> history) const;

  const SamplerOptions& options() const { return options_; }

 private:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}
  SamplerOptions options_;
};

// Returns log_softmax(logits)[id], computed in f64. Fails also if `id` is outside the logits.
Result<float> log_probability(std::span<const float> logits, int32_t id);

}  // namespace hg
