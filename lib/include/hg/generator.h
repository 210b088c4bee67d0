// SPDX-License-Identifier: Apache-2.0
// Generates tokens with a language model. hg-convert makes such models from GGUF files and exported
// decoders.
//
//     HG_TRY_ASSIGN(hg::Generator generator, hg::Generator::create(model));
//     HG_TRY_ASSIGN(hg::Generation answer, generator.generate({{5, 17, 3}}, {.max_tokens = 64}));
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/model.h"
#include "hg/options.h"
#include "hg/sampler.h"

namespace hg {

struct GeneratedToken {
  int64_t prompt = 0;         // index of the prompt that it continues
  int32_t id = 0;             // index into the vocabulary
  float log_probability = 0;  // see GenerateOptions::log_probabilities
};

struct GenerateOptions {
  int64_t max_tokens = 128;            // new tokens per prompt; 0: none
  std::vector<int32_t> stop_ids = {};  // end a sequence, and do not belong to it
  SamplerOptions sampler = {};         // prompt i draws from sequence i of the seed
  // Also computes the natural logarithm of the probability of each token: log_softmax of the
  // model's logits, without the steps of the sampler.
  bool log_probabilities = false;
  // Does not read again the tokens that a single prompt shares with the beginning of the last
  // call's text, such as the earlier turns of a chat: their past stays in the session. Needs a past
  // that grows, which the session keeps. Logits equal those of reading the whole prompt except for
  // rounding.
  bool reuse_past = false;
  // Called before each choice. May change `logits`, one per token of the vocabulary: -infinity
  // excludes a token. `history` holds the prompt and the tokens so far. A Status that is not ok
  // fails the call.
  std::function<Status(int64_t prompt, std::span<const int32_t> history, std::span<float> logits)>
      on_logits = {};
  // Called with each token, except stop ids. If it returns false, the sequence ends after it.
  std::function<bool(const GeneratedToken& token)> on_token = {};
};

enum class Finish : uint8_t {
  length,  // max_tokens
  stop,    // a stop id, on_token returned false, or end()
};
std::string_view to_string(Finish finish);  // "length", "stop"

struct GeneratedSequence {
  std::vector<int32_t> ids;              // new tokens, without the prompt and the stop id
  std::vector<float> log_probabilities;  // one per id, or empty
  Finish finish = Finish::length;
};

struct Generation {
  std::vector<GeneratedSequence> sequences;  // one per prompt
  double prompt_ms = 0;                      // the first run of the model, which reads the prompts
  double decode_ms = 0;                      // all later runs
  int64_t reused = 0;                        // tokens of the prompt that were not read again
};

// Generates tokens with one session of a model. The model needs these inputs and outputs:
//
// | name | type | |
// |---|---|---|
// | input_ids, or any other name | i64[batch, time] | input |
// | attention_mask | i64[batch, past + time] | optional input, 0 hides a position |
// | position_ids | i64[batch, time] | optional input, positions of the ids |
// | past_key_values.X, or past.X | floats [batch, heads, past, dim] | optional inputs, any X |
// | present.X, or present_key_values.X | floats [batch, heads, past + time, dim] | per past |
// | logits, or any other name | floats [batch, time or 1, vocabulary] | output |
//
// The integers may also be i32, and the mask bool. `past` and `time` must be symbols. The first run
// has a past of 0. A past may have any shape that make_stateful() supports (hg/stateful.h); one of
// fixed shape starts with zeros. A model without a past runs on all tokens at each step.
//
// Use a generator from one thread at a time. Different generators of one model may run
// concurrently. They share the weights, as sessions do.
class Generator {
 public:
  // Compiles `model` (see Session::create()). The model may be destroyed afterwards. Ignores
  // SessionOptions::device_outputs. Fails with unsupported, naming the input or output, if the
  // model does not have the form above.
  static Result<Generator> create(const Model& model, SessionOptions options = {});
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  ~Generator();

  // Continues each prompt until all sequences end. Prompts of one call run together. Shorter ones
  // are padded on the left, which needs the inputs attention_mask and position_ids.
  //
  // Fails before any run with invalid_argument if there are no prompts, if one is empty, if an id
  // is outside the vocabulary, if an option is outside its range, or if prompt and tokens exceed
  // position_limit(). Fails later as on_logits, Sampler::choose() and Session::run() do. `stop`
  // ends the call with cancelled.
  Result<Generation> generate(std::span<const std::vector<int32_t>> prompts,
                              const GenerateOptions& options = {}, std::stop_token stop = {});
  Result<Generation> generate(std::initializer_list<std::vector<int32_t>> prompts,
                              const GenerateOptions& options = {}, std::stop_token stop = {}) {
    return generate(std::span(prompts.begin(), prompts.size()), options, std::move(stop));
  }

  // Generates step by step: call begin(), then step() until it returns no tokens. begin() discards
  // an earlier generation, and fails as generate() does before any run. The callbacks of `options`
  // must live until the last step.
  Status begin(std::span<const std::vector<int32_t>> prompts, GenerateOptions options = {});
  // Runs the model once and returns the new tokens, in order of prompts, at most one per prompt. No
  // tokens: all sequences have ended. After a failure, call begin(). Valid until the next call.
  Result<std::span<const GeneratedToken>> step(std::stop_token stop = {});
  // Ends the sequence of a prompt with Finish::stop. Call it between steps. Fails if begin() had no
  // such prompt.
  Status end(int64_t prompt);
  // Returns the result so far. Valid until the next begin() or generate().
  const Generation& generation() const;

  // Size of the vocabulary; 0 if the model does not fix it.
  int64_t vocabulary() const;
  // Number of positions for which the model has an embedding; 0: the model states no limit.
  int64_t position_limit() const;

 private:
  struct Body;
  explicit Generator(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
