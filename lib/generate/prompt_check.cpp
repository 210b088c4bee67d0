// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/prompt_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hg {

Status check_text(const DecoderSession& decoder, std::span<const int32_t> ids,
                  std::string_view what) {
  const int64_t words = decoder.vocabulary(), limit = decoder.position_limit();
  HG_CHECK(!ids.empty(), what, " is empty");
  for (const int32_t id : ids)
    HG_CHECK(id >= 0 && (words == 0 || id < words), what, " has the id ", id,
             ", but the vocabulary has ", words, " tokens");
  HG_CHECK(limit == 0 || std::ssize(ids) <= limit, what, " has ", std::ssize(ids),
           " tokens, but the model has ", limit, " positions");
  return {};
}

Status check_prompts(const DecoderSession& decoder, std::span<const std::vector<int32_t>> prompts,
                     const GenerateOptions& options) {
  HG_CHECK(!prompts.empty(), "generate: there are no prompts");
  HG_CHECK(prompts.size() <= std::numeric_limits<uint32_t>::max(), "generate: there are ",
           uint64_t{prompts.size()}, " prompts");
  HG_CHECK(options.max_tokens >= 0, "generate: max_tokens is ", options.max_tokens,
           ", expected at least 0");
  HG_CHECK(options.num_beams >= 1 && options.num_beams <= 1024 &&
               options.num_return_sequences >= 1 && options.num_return_sequences <= 1024,
           "generate: num_beams is ", options.num_beams, " and num_return_sequences ",
           options.num_return_sequences, ", expected 1 to 1024");
  HG_CHECK(options.num_beams == 1 || options.num_return_sequences <= options.num_beams,
           "generate: num_return_sequences is ", options.num_return_sequences,
           ", but num_beams is ", options.num_beams);
  HG_CHECK(options.num_beams == 1 || options.sampler.temperature == 0,
           "generate: a beam search does not sample; temperature is ",
           double{options.sampler.temperature});
  HG_CHECK(options.num_beams == 1 || !options.constraint,
           "generate: a beam search has no constraint");
  HG_CHECK(std::isfinite(options.length_penalty), "generate: length_penalty is ",
           double{options.length_penalty}, ", expected a finite number");
  const int64_t limit = decoder.position_limit(), words = decoder.vocabulary();
  for (const int32_t id : options.stop_ids)
    HG_CHECK(id >= 0 && (words == 0 || id < words), "generate: stop_ids has the id ", id,
             ", but the vocabulary has ", words, " tokens");
  size_t longest = 0, shortest = std::numeric_limits<size_t>::max();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t>& prompt = prompts[i];
    HG_TRY(check_text(decoder, prompt, str_cat("generate: prompt ", uint64_t{i})));
    longest = std::max(longest, prompt.size());
    shortest = std::min(shortest, prompt.size());
    // The last token is never an input.
    const auto size = static_cast<int64_t>(prompt.size());
    HG_CHECK(limit == 0 || options.max_tokens <= limit - size + 1, "generate: prompt ", uint64_t{i},
             " of length ", size, " and max_tokens ", options.max_tokens, " exceed the model's ",
             limit, " positions");
  }
  HG_CHECK(longest == shortest || decoder.can_pad(), "generate: prompts have ", uint64_t{shortest},
           " to ", uint64_t{longest},
           " ids; different lengths need the inputs attention_mask and position_ids");
  return {};
}

Status check_proposals(const GenerateOptions& options) {
  HG_CHECK(options.lookup >= 0 && options.draft_tokens >= 1, "generate: lookup is ", options.lookup,
           " and draft_tokens ", options.draft_tokens, ", expected at least 0 and 1");
  HG_CHECK(options.lookup == 0 || options.draft == nullptr,
           "generate: tokens are proposed by lookup or by a draft, not by both");
  return {};
}

}  // namespace hg
