// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/generate/choice.h"

namespace hg {
namespace {

constexpr float kImpossible = -1e9F;

// Indices of the k largest scores, the largest first; of equal scores, the first.
std::vector<size_t> top(std::span<const float> scores, size_t k) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  k = std::min(k, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
      [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  order.resize(k);
  return order;
}

}  // namespace

// All beams begin alike, so only the first one counts in the first step.
BeamSearch::BeamSearch(const GenerateOptions& options)
    : options_(options),
      running_(static_cast<size_t>(options.num_beams)),
      answers_(static_cast<size_t>(options.num_beams)) {
  for (size_t i = 1; i < running_.size(); ++i) running_[i].score = kImpossible;
  for (Beam& answer : answers_) answer.score = kImpossible;
}

bool BeamSearch::has_all_answers() const {
  return std::all_of(answers_.begin(), answers_.end(),
                     [](const Beam& answer) { return answer.is_finished; });
}

void BeamSearch::advance(std::span<const float> log_probabilities) {
  const size_t count = running_.size(), words = log_probabilities.size() / count;
  std::vector<float> scores(log_probabilities.begin(), log_probabilities.end());
  for (size_t i = 0; i < scores.size(); ++i) scores[i] += running_[i / words].score;
  // Enough that `count` beams go on even if all others end.
  const size_t kept = std::max<size_t>(2, 1 + options_.stop_ids.size()) * count;
  std::vector<Beam> candidates;
  std::vector<bool> ends;
  for (const size_t i : top(scores, kept)) {
    Beam beam = running_[i / words];
    beam.parent = i / words;
    beam.ids.push_back(static_cast<int32_t>(i % words));
    beam.log_probabilities.push_back(log_probabilities[i]);
    beam.score = scores[i];
    ends.push_back(is_stop_id(options_, beam.ids.back()) || length_ + 1 >= options_.max_tokens);
    candidates.push_back(std::move(beam));
  }
  ++length_;
  all_have_ended_ = std::all_of(ends.begin(), ends.end(), [](bool end) { return end; });

  std::vector<float> going(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i)
    going[i] = candidates[i].score + (ends[i] ? kImpossible : 0);
  std::vector<Beam> next;
  for (const size_t i : top(going, count)) {
    next.push_back(candidates[i]);
    next.back().score = going[i];
  }

  // Only the first `count` candidates can be answers.
  const bool is_full = has_all_answers() && options_.early_stopping == EarlyStopping::yes;
  const float length = std::pow(static_cast<float>(length_), options_.length_penalty);
  std::vector<Beam> merged = std::move(answers_);
  for (size_t i = 0; i < candidates.size(); ++i) {
    Beam& answer = candidates[i];
    answer.is_finished = ends[i] && i < count;
    answer.score = answer.score / length + (is_full ? kImpossible : 0) +
                   (may_improve_ ? 0 : kImpossible) + (answer.is_finished ? 0 : kImpossible);
    merged.push_back(std::move(answer));
  }
  std::vector<float> merged_scores;
  for (const Beam& each : merged) merged_scores.push_back(each.score);
  answers_.clear();
  for (const size_t i : top(merged_scores, count)) answers_.push_back(std::move(merged[i]));
  running_ = std::move(next);

  // Whether the best running beam could still beat the worst answer.
  const bool hopes = options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
  const float best =
      running_[0].score /
      std::pow(static_cast<float>(hopes ? options_.max_tokens : length_), options_.length_penalty);
  float worst = answers_[0].score;
  for (const Beam& answer : answers_) worst = std::min(worst, answer.score);
  may_improve_ =
      may_improve_ && std::any_of(answers_.begin(), answers_.end(), [&](const Beam& answer) {
        return best > (answer.is_finished ? worst : kImpossible);
      });
}

}  // namespace hg
