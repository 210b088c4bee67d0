// SPDX-License-Identifier: Apache-2.0
// The next token of a sequence, for Generator and BatchGenerator.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hg/generator.h"

namespace hg {

// Names a sequence for its callbacks and draws.
struct SequenceName {
  int64_t prompt = 0;  // see GeneratedToken
  uint32_t draws = 0;  // of the sampler's seed
};

bool is_stop_id(const GenerateOptions& options, int32_t id);

// Chooses a token from the model's logits, which it may change, and appends it to the sequence and
// `history`, and to `tokens`. `state`: of the constraint, made by the first choice. Returns whether
// the sequence has ended.
Result<bool> choose_token(SequenceName name, const Sampler& sampler, const GenerateOptions& options,
                          std::span<float> logits, std::vector<int32_t>& history,
                          std::unique_ptr<Constraint::State>& state, GeneratedSequence& sequence,
                          std::vector<GeneratedToken>& tokens);

}  // namespace hg
