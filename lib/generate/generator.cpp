// SPDX-License-Identifier: Apache-2.0
#include "hg/generator.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "lib/generate/decoder_session.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostReserved = 4096;  // new tokens that a call makes room for at once

Status check(const DecoderSession& decoder, std::span<const std::vector<int32_t>> prompts,
             const GenerateOptions& options) {
  HG_CHECK(!prompts.empty(), "generate: there are no prompts");
  HG_CHECK(prompts.size() <= std::numeric_limits<uint32_t>::max(), "generate: there are ",
           uint64_t{prompts.size()}, " prompts");
  HG_CHECK(options.max_tokens >= 0, "generate: max_tokens is ", options.max_tokens,
           ", expected at least 0");
  const int64_t words = decoder.vocabulary(), limit = decoder.position_limit();
  size_t longest = 0, shortest = std::numeric_limits<size_t>::max();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t>& prompt = prompts[i];
    HG_CHECK(!prompt.empty(), "generate: prompt ", uint64_t{i}, " is empty");
    longest = std::max(longest, prompt.size());
    shortest = std::min(shortest, prompt.size());
    for (const int32_t id : prompt)
      HG_CHECK(id >= 0 && (words == 0 || id < words), "generate: prompt ", uint64_t{i},
               " has the id ", id, ", but the vocabulary has ", words, " tokens");
    // The last token is never an input.
    const auto size = static_cast<int64_t>(prompt.size());
    HG_CHECK(limit == 0 || (size <= limit && options.max_tokens <= limit - size + 1),
             "generate: prompt ", uint64_t{i}, " of length ", size, " and max_tokens ",
             options.max_tokens, " exceed the model's ", limit, " positions");
  }
  HG_CHECK(longest == shortest || decoder.can_pad(), "generate: prompts have ", uint64_t{shortest},
           " to ", uint64_t{longest},
           " ids; different lengths need the inputs attention_mask and position_ids");
  return {};
}

}  // namespace

std::string_view to_string(Finish finish) { return finish == Finish::stop ? "stop" : "length"; }

struct Generator::Body {
  explicit Body(DecoderSession made) : decoder(std::move(made)) {}

  Status begin(std::span<const std::vector<int32_t>> prompts, GenerateOptions with);
  Status step(std::stop_token stop);
  Status choose(size_t row, const Sampler& with);

  DecoderSession decoder;
  GenerateOptions options;
  std::optional<Sampler> sampler;             // nullopt: no call has begun, or it failed
  std::vector<std::vector<int32_t>> history;  // prompts and new tokens
  std::vector<bool> is_done;
  std::vector<float> logits;
  std::vector<GeneratedToken> tokens;  // of the last step
  Generation result;
  bool has_run = false;
};

Status Generator::Body::begin(std::span<const std::vector<int32_t>> prompts, GenerateOptions with) {
  sampler.reset();
  result = {};
  tokens.clear();
  HG_TRY(check(decoder, prompts, with));
  HG_TRY_ASSIGN(const Sampler made, Sampler::create(with.sampler));
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : prompts) longest = std::max(longest, prompt.size());
  const int64_t positions =
      static_cast<int64_t>(longest) + std::min(with.max_tokens, kMostReserved);
  if (with.reuse_past && prompts.size() == 1) {
    HG_TRY_ASSIGN(result.reused, decoder.resume(prompts[0], positions));
  }
  if (result.reused == 0) HG_TRY(decoder.start(static_cast<int64_t>(prompts.size()), positions));
  for (size_t row = 0; row < prompts.size(); ++row) {
    const std::vector<int32_t>& prompt = prompts[row];
    for (size_t i = prompt.size(); i < longest; ++i) decoder.push(row, prompt[0], 0, true);
    for (auto i = static_cast<size_t>(result.reused); i < prompt.size(); ++i)
      decoder.push(row, prompt[i], static_cast<int64_t>(i), false);
  }
  options = std::move(with);
  history.assign(prompts.begin(), prompts.end());
  is_done.assign(prompts.size(), options.max_tokens == 0);
  result.sequences.resize(prompts.size());
  has_run = false;
  sampler = made;
  return {};
}

// Chooses the next token of a sequence.
Status Generator::Body::choose(size_t row, const Sampler& with) {
  GeneratedSequence& sequence = result.sequences[row];
  std::vector<int32_t>& ids = history[row];
  const auto prompt = static_cast<int64_t>(row);
  HG_TRY(decoder.logits(row, logits));
  std::vector<float> original;
  if (options.on_logits) {
    if (options.log_probabilities) original = logits;
    HG_TRY(options.on_logits(prompt, ids, logits));
  }
  HG_TRY_ASSIGN(const int32_t id,
                with.choose(logits, ids, sequence.ids.size(), static_cast<uint32_t>(row)));
  if (std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end()) {
    sequence.finish = Finish::stop;
    is_done[row] = true;
    return {};
  }
  GeneratedToken token{prompt, id, 0};
  if (options.log_probabilities) {
    HG_TRY_ASSIGN(token.log_probability, log_probability(original.empty() ? logits : original, id));
    sequence.log_probabilities.push_back(token.log_probability);
  }
  ids.push_back(id);
  sequence.ids.push_back(id);
  tokens.push_back(token);
  is_done[row] = static_cast<int64_t>(sequence.ids.size()) >= options.max_tokens;
  if (options.on_token && !options.on_token(token)) {
    sequence.finish = Finish::stop;
    is_done[row] = true;
  }
  return {};
}

Status Generator::Body::step(std::stop_token stop) {
  tokens.clear();
  HG_CHECK(sampler.has_value(), "generate: step() needs a begin() that succeeded");
  if (std::all_of(is_done.begin(), is_done.end(), [](bool done) { return done; })) return {};
  if (has_run)
    for (size_t row = 0; row < history.size(); ++row)
      // A sequence that has ended repeats its last token at its last position.
      decoder.push(row, history[row].back(), static_cast<int64_t>(history[row].size()) - 1, false);
  const Sampler now = *sampler;
  sampler.reset();  // set again when the step succeeds
  const Clock::time_point start = Clock::now();
  HG_TRY(decoder.run(std::move(stop)));
  (has_run ? result.decode_ms : result.prompt_ms) +=
      std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  has_run = true;
  for (size_t row = 0; row < history.size(); ++row)
    if (!is_done[row]) HG_TRY(choose(row, now));
  sampler = now;
  return {};
}

Generator::Generator(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

Result<Generator> Generator::create(const Model& model, SessionOptions options) {
  return or_no_memory([&]() -> Result<Generator> {
    HG_TRY_ASSIGN(DecoderSession decoder, DecoderSession::create(model, std::move(options)));
    return Generator(std::make_unique<Body>(std::move(decoder)));
  });
}

Status Generator::begin(std::span<const std::vector<int32_t>> prompts, GenerateOptions options) {
  return or_no_memory([&] { return body_->begin(prompts, std::move(options)); });
}

Result<std::span<const GeneratedToken>> Generator::step(std::stop_token stop) {
  return or_no_memory([&]() -> Result<std::span<const GeneratedToken>> {
    HG_TRY(body_->step(std::move(stop)));
    return std::span<const GeneratedToken>(body_->tokens);
  });
}

Status Generator::end(int64_t prompt) {
  return or_no_memory([&]() -> Status {
    const auto count = static_cast<int64_t>(body_->result.sequences.size());
    HG_CHECK(prompt >= 0 && prompt < count, "generate: there is no prompt ", prompt, " among ",
             count);
    const auto row = static_cast<size_t>(prompt);
    body_->result.sequences[row].finish = Finish::stop;
    body_->is_done[row] = true;
    return {};
  });
}

Result<Generation> Generator::generate(std::span<const std::vector<int32_t>> prompts,
                                       const GenerateOptions& options, std::stop_token stop) {
  return or_no_memory([&]() -> Result<Generation> {
    HG_TRY(body_->begin(prompts, options));
    do {
      HG_TRY(body_->step(stop));
    } while (!body_->tokens.empty());
    return body_->result;
  });
}

const Generation& Generator::generation() const { return body_->result; }
int64_t Generator::vocabulary() const { return body_->decoder.vocabulary(); }
int64_t Generator::position_limit() const { return body_->decoder.position_limit(); }

}  // namespace hg
