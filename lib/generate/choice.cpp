// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/choice.h"

#include <algorithm>

namespace hg {

bool is_stop_id(const GenerateOptions& options, int32_t id) {
  return std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end();
}

Result<bool> choose_token(SequenceName name, const Sampler& sampler, const GenerateOptions& options,
                          std::span<float> logits, std::vector<int32_t>& history,
                          std::unique_ptr<Constraint::State>& state, GeneratedSequence& sequence,
                          std::vector<GeneratedToken>& tokens) {
  std::vector<float> original;
  if (options.log_probabilities && (options.on_logits || options.constraint))
    original.assign(logits.begin(), logits.end());
  if (options.on_logits) HG_TRY(options.on_logits(name.prompt, history, logits));
  if (options.constraint) {
    if (state == nullptr) {
      HG_TRY_ASSIGN(state, options.constraint->begin());
    }
    HG_TRY_ASSIGN(const bool continues, state->restrict(logits, options.stop_ids));
    if (!continues) {
      sequence.finish = Finish::stop;
      return true;
    }
  }
  HG_TRY_ASSIGN(const int32_t id, sampler.choose(logits, history, sequence.ids.size(), name.draws));
  if (is_stop_id(options, id)) {
    sequence.finish = Finish::stop;
    return true;
  }
  GeneratedToken token{name.prompt, id, 0};
  if (options.log_probabilities) {
    const std::span<const float> model = original.empty() ? logits : std::span(original);
    HG_TRY_ASSIGN(token.log_probability, log_probability(model, id));
    sequence.log_probabilities.push_back(token.log_probability);
  }
  if (state != nullptr) HG_TRY(state->push(id));
  history.push_back(id);
  sequence.ids.push_back(id);
  tokens.push_back(token);
  if (options.on_token && !options.on_token(token)) {
    sequence.finish = Finish::stop;
    return true;
  }
  return static_cast<int64_t>(sequence.ids.size()) >= options.max_tokens;
}

}  // namespace hg
