// SPDX-License-Identifier: Apache-2.0
// Generates several sequences at once, which join and leave between steps (continuous batching).
//
//     HG_TRY_ASSIGN(hg::BatchGenerator batch, hg::BatchGenerator::create(model, 8));
//     HG_TRY_ASSIGN(const int64_t id, batch.add({5, 17, 3}, {.max_tokens = 64}));
//     while (batch.running() > 0) {
//       HG_TRY_ASSIGN(std::span<const hg::GeneratedToken> tokens, batch.step());
//       for (const hg::EndedSequence& ended : batch.ended()) { ... }
//     }
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "hg/generator.h"

namespace hg {

// A sequence that has left the batch.
struct EndedSequence {
  int64_t id = 0;                      // of add()
  Status status = {};                  // why it failed: on_logits, or Sampler::choose()
  GeneratedSequence sequence;          // up to the failure
  int64_t reused = 0;                  // tokens of the prompt that add() did not read again
  int64_t proposed = 0, accepted = 0;  // tokens of speculative decoding
};

// Generates with several sessions of a model, which share the weights: one reads prompts, another
// runs all sequences together. It has 1, 2, 4, ... rows, as many as are needed; sessions that have
// been opened are kept. The model needs the form of Generator, the inputs attention_mask and
// position_ids, and a past that sessions keep (hg/stateful.h) with one dim for the batch.
//
// Tokens equal those of a Generator with the prompt alone, except for rounding.
//
// Use a batch from one thread at a time.
class BatchGenerator {
 public:
  // At most `rows` sequences run at a time. Fails as
  // Generator::create(), and with unsupported if sequences cannot join a batch of the model.
  static Result<BatchGenerator> create(const Model& model, int64_t rows,
                                       SessionOptions options = {}, std::optional<DType> past = {});
  BatchGenerator(BatchGenerator&&) noexcept;
  BatchGenerator& operator=(BatchGenerator&&) noexcept;
  ~BatchGenerator();

  // Reads a prompt and adds its sequence. Returns its id, which its tokens and callbacks have as
  // `prompt`. The callbacks of `options` must live until it ends. With reuse_past, does not read
  // again what the prompt shares with the prompt before it.
  //
  // Fails with busy if all rows are taken, with invalid_argument for beams and several answers, and
  // as Generator::begin() with several sequences and Session::run() do. Other sequences are
  // unaffected.
  Result<int64_t> add(const std::vector<int32_t>& prompt, GenerateOptions options = {},
                      std::stop_token stop = {});
  // Runs the model once and returns the new tokens, at most one per sequence, and several with
  // speculative decoding. Valid until the next call. If it fails, no sequence has changed.
  Result<std::span<const GeneratedToken>> step(std::stop_token stop = {});
  // The sequences that the last step() or later end() calls ended. Valid until the next step().
  std::span<const EndedSequence> ended() const;
  // Ends a sequence with Finish::stop. Call it between steps. Fails with not_found if there is no
  // such sequence.
  Status end(int64_t id);

  int64_t running() const;  // sequences
  int64_t rows() const;
  int64_t vocabulary() const;      // as of Generator
  int64_t position_limit() const;  // as of Generator

 private:
  struct Body;
  explicit BatchGenerator(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
