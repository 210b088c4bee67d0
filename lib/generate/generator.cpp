// SPDX-License-Identifier: Apache-2.0
#include "hg/generator.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "lib/generate/choice.h"
#include "lib/generate/decoder_session.h"
#include "lib/generate/prompt_check.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostReserved = 4096;  // new tokens that a call makes room for at once

}  // namespace

std::string_view to_string(Finish finish) { return finish == Finish::stop ? "stop" : "length"; }

struct Generator::Body {
  explicit Body(DecoderSession made) : decoder(std::move(made)) {}

  Status begin(std::span<const std::vector<int32_t>> prompts, GenerateOptions with);
  Status step(std::stop_token stop);

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
  HG_TRY(check_prompts(decoder, prompts, with));
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
    if (!is_done[row]) {
      HG_TRY(decoder.logits(row, logits));
      HG_TRY_ASSIGN(is_done[row],
                    choose_token({static_cast<int64_t>(row), static_cast<uint32_t>(row)}, now,
                                 options, logits, history[row], result.sequences[row], tokens));
    }
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
