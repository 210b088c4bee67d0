// SPDX-License-Identifier: Apache-2.0
// Beam search for one prompt, as transformers defines it: which continuations of its beams go on,
// and which answers are the best. Knows no model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hg/generator.h"

namespace hg {

class BeamSearch {
 public:
  // Takes num_beams, length_penalty, early_stopping, stop_ids and max_tokens of the options.
  explicit BeamSearch(const GenerateOptions& options);

  // Chooses the next beams. `log_probabilities`: of each token after each beam, [beams, words].
  void advance(std::span<const float> log_probabilities);

  // A beam: the beam of the step before that it continues, and its tokens since the prompt.
  struct Beam {
    size_t parent = 0;
    std::vector<int32_t> ids = {};
    std::vector<float> log_probabilities = {};  // of the ids
    float score = 0;                            // their sum; of answers, with the length penalty
    bool is_finished = false;
  };
  const std::vector<Beam>& beams() const { return running_; }
  // The best answers so far, the best one first. Only finished ones count.
  const std::vector<Beam>& answers() const { return answers_; }

  // The search over several prompts goes on while one of them may improve, not all have all their
  // answers with early_stopping, and not all continuations have ended.
  bool may_improve() const { return may_improve_; }
  bool has_all_answers() const;
  bool all_have_ended() const { return all_have_ended_; }

 private:
  const GenerateOptions& options_;
  std::vector<Beam> running_, answers_;
  int64_t length_ = 0;  // of running beams
  bool may_improve_ = true, all_have_ended_ = false;
};

}  // namespace hg
