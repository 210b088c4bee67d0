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
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/model.h"
#include "hg/options.h"
#include "hg/sampler.h"

namespace hg {

class Generator;
class Session;

struct GeneratedToken {
  int64_t prompt = 0;         // index of the sequence; that of its prompt if each has one
  int32_t id = 0;             // index into the vocabulary
  float log_probability = 0;  // see GenerateOptions::log_probabilities
};

// Restricts the tokens of an answer, for example to a grammar (hg/text/grammar.h). Thread-safe.
class Constraint {
 public:
  // Follows one sequence. Used by one thread at a time.
  class State {
   public:
    virtual ~State() = default;
    // Sets the logits of tokens that may not follow to -infinity; the others stay unchanged. Stop
    // ids may follow a complete text. If nothing else may follow it, returns false, and the
    // sequence ends. Fails if the text is incomplete and nothing may follow.
    virtual Result<bool> restrict(std::span<float> logits, std::span<const int32_t> stop_ids) = 0;
    // Adds a token that restrict() allowed.
    virtual Status push(int32_t id) = 0;
  };
  virtual ~Constraint() = default;
  virtual Result<std::unique_ptr<State>> begin() const = 0;
};

// When a beam search ends before max_tokens; transformers' False, True and "never".
enum class EarlyStopping : uint8_t {
  no,     // when a better answer is unlikely
  yes,    // when there are num_beams answers
  never,  // when a better answer is impossible
};

struct GenerateOptions {
  int64_t max_tokens = 128;            // new tokens per prompt; 0: none
  // End a sequence, and do not belong to it. Each must be in the vocabulary.
  std::vector<int32_t> stop_ids = {};
  SamplerOptions sampler = {};         // sequence i draws from sequence i of the seed
  // Answers per prompt. Sequence i * num_return_sequences + k is answer k to prompt i. With beams,
  // at most num_beams, the best one first; otherwise each draws its own tokens.
  int64_t num_return_sequences = 1;
  // Above 1, generate() searches for the likeliest answers with this many beams per prompt, as
  // transformers does without sampling. The sampler's repetition_penalty applies, its other options
  // do not. on_token gets the tokens of the answers at the end.
  int64_t num_beams = 1;
  float length_penalty = 1;  // scores of beams are divided by length ^ length_penalty
  EarlyStopping early_stopping = EarlyStopping::no;
  // Also computes the natural logarithm of the probability of each token: log_softmax of the
  // model's logits, without the steps of the sampler.
  bool log_probabilities = false;
  // Skips the tokens that a single prompt shares with the beginning of the last call's text, such
  // as the earlier turns of a chat: their past is still in the session. Needs a past that grows and
  // that the session keeps. Logits equal those of reading the whole prompt, except for
  // rounding.
  bool reuse_past = false;
  // Speculative decoding: each run of the model checks several proposed tokens, and keeps the
  // tokens that the model would have chosen. Answers are the same as without speculation, except
  // for rounding. Needs a past that grows, which the session keeps; with several sequences, also
  // the inputs attention_mask and position_ids, and the same of the draft.
  int64_t lookup = 0;          // above 0: most tokens proposed from earlier text that repeats
  Generator* draft = nullptr;  // a small model that proposes tokens; must live until the last step
  int64_t draft_tokens = 5;    // most tokens that the draft proposes for a run
  // Encoder-decoders: what the encoder reads for each prompt, which begins the answer. Token ids,
  // or f32 features [prompts, ...], which begin() copies.
  std::vector<std::vector<int32_t>> encoder_ids = {};
  ConstTensor encoder_features = {};
  // Restricts the choices; applies after on_logits.
  std::shared_ptr<const Constraint> constraint = {};
  // Called before each choice. May change `logits`, one per token of the vocabulary: -infinity
  // excludes a token. `history` holds the prompt and the tokens so far. A Status that is not ok
  // fails the call. A beam search calls it before log_softmax, unlike transformers' processors.
  std::function<Status(int64_t prompt, std::span<const int32_t> history, std::span<float> logits)>
      on_logits = {};
  // Called with each token, except stop ids. If it returns false, the sequence ends after it.
  std::function<bool(const GeneratedToken& token)> on_token = {};
};

enum class Finish : uint8_t {
  length,  // max_tokens
  stop,    // a stop id, on_token returned false, end(), or the constraint allows nothing more
};
std::string_view to_string(Finish finish);  // "length", "stop"

struct GeneratedSequence {
  std::vector<int32_t> ids;              // new tokens, without the prompt and the stop id
  std::vector<float> log_probabilities;  // one per id, or empty
  Finish finish = Finish::length;
  float score = 0;  // of a beam search
};

struct Generation {
  std::vector<GeneratedSequence> sequences;  // num_return_sequences per prompt
  double prompt_ms = 0;                      // the first run of the model, which reads the prompts
  double decode_ms = 0;                      // all later runs
  int64_t reused = 0;                        // tokens of the prompt that were not read again
  int64_t proposed = 0, accepted = 0;        // tokens of speculative decoding
};

struct DraftText;

// Whether the file has the entries `encode` and `decode`.
bool is_encoder_decoder(const Model& model);

// Generates tokens with one session of a model. The model needs these inputs and outputs:
//
// | name | type | |
// |---|---|---|
// | input_ids, or any other name | i64[batch, time] | input |
// | attention_mask | i64[batch, past + time] | optional input, 0 hides a position |
// | position_ids | i64[batch, time] | optional input, positions of the ids |
// | cache_position | i64[time] | optional input, indices of the ids |
// | past_key_values.X, or past.X | floats [batch, heads, past, dim] | optional inputs, any X |
// | present.X, or present_key_values.X | floats [batch, heads, past + time, dim] | per past |
// | logits, or any other name | floats [batch, time or 1, vocabulary] | output |
//
// The integers may also be i32, and the mask bool. `past` and `time` must be symbols; if `time` is
// 1, prompts are read token by token. The first run has a past of 0. A past may have any shape that
// make_stateful() supports (hg/stateful.h); one of fixed shape starts with zeros. A model without a
// past runs on all tokens at each step.
//
// An encoder-decoder is a file with two such entries (docs/entries.md). `encode` reads input_ids
// and attention_mask, both i64[batch, source], or features f32[batch, ...], and returns cross.X,
// any X. `decode` has the form above, and the inputs cross.X and encoder_attention_mask, if it
// needs them. The encoder runs once per call.
//
// Use a generator from one thread at a time. Different generators of one model may run
// concurrently. They share the weights, as sessions do.
class Generator {
 public:
  // Compiles `model` (see Session::create()). The model may be destroyed afterwards. Ignores
  // SessionOptions::device_outputs. Fails with unsupported, naming the input or output, if the
  // model does not have the form above.
  //
  // `past`: how the session keeps keys and values: f32, f16, bf16 or i8 (StatefulOptions::stored);
  // nullopt: as the model has them. Fails with unsupported if the session cannot keep them, or if
  // none grow.
  static Result<Generator> create(const Model& model, SessionOptions options = {},
                                  std::optional<DType> past = {});
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  ~Generator();

  // Continues each prompt until all sequences end. Prompts of one call run together. Shorter ones
  // are padded on the left, which needs the inputs attention_mask and position_ids.
  //
  // Fails before any run with invalid_argument if there are no prompts, if one is empty, if an id
  // is outside the vocabulary, if an option is outside its range, or if prompt and tokens, without
  // the last one, exceed position_limit(). Fails later as on_logits, Sampler::choose() and
  // Session::run() do. `stop` ends the call with cancelled.
  Result<Generation> generate(std::span<const std::vector<int32_t>> prompts,
                              const GenerateOptions& options = {}, std::stop_token stop = {});
  Result<Generation> generate(std::initializer_list<std::vector<int32_t>> prompts,
                              const GenerateOptions& options = {}, std::stop_token stop = {}) {
    return generate(std::span(prompts.begin(), prompts.size()), options, std::move(stop));
  }

  // Generates step by step: call begin(), then step() until it returns no tokens. begin() discards
  // an earlier generation, and fails as generate() does before any run, and for num_beams above 1.
  // The callbacks of `options` must live until the last step.
  Status begin(std::span<const std::vector<int32_t>> prompts, GenerateOptions options = {});
  // Runs the model once and returns the new tokens, in order of prompts: at most one per prompt,
  // and several with speculative decoding. No tokens: all sequences have ended. After a failure,
  // call begin(). Valid until the next call.
  Result<std::span<const GeneratedToken>> step(std::stop_token stop = {});
  // Ends a sequence with Finish::stop. Call it between steps. Fails if there is no such sequence.
  Status end(int64_t sequence);
  // Returns the result so far. Valid until the next begin() or generate().
  const Generation& generation() const;

  // ---- The past ----
  // The tokens that the model has read, and its keys, values or states. A call with reuse_past
  // continues from here. These functions are for one sequence: they fail with invalid_argument
  // after a call with several prompts, answers or beams, and with unsupported for an
  // encoder-decoder. A function that changes the past ends the generation. The last token of an
  // answer is usually not read.

  // Number of tokens; 0 after a call with several sequences.
  int64_t length() const;
  Result<std::vector<int32_t>> ids() const;
  // Reads more tokens. Returns the logits after the last one, valid until the next call. Fails as
  // generate() does; then the past is as before.
  Result<std::span<const float>> append(std::span<const int32_t> ids, std::stop_token stop = {});
  // Forgets all tokens, also those of several sequences.
  void reset();
  // Forgets all but the first `length` tokens. Copies nothing if all that the model carries grows
  // and the session keeps it. Otherwise the next call reads the first tokens again.
  Status truncate(int64_t length);
  // Returns a generator with a copy of the past. Both share the weights and compiled graphs. They
  // also share the memory of the past: the first of them that reads tokens copies the past.
  Result<Generator> fork() const;
  // Writes the past to a file, as Model::save() does: until the new file is complete, the old one
  // remains. load() replaces the past by that of a file. Fails with corrupt_model if the file is
  // damaged, and with invalid_argument if it is of another model, adapter or precision; then the
  // past is as before.
  Status save(const std::string& path) const;
  Status load(const std::string& path);

  // Size of the vocabulary; 0 if the model does not fix it.
  int64_t vocabulary() const;
  // Number of tokens that the model reads at most: it has embeddings for so many positions, or a
  // guard limits the length of the mask. 0: the model states no limit.
  int64_t position_limit() const;

 private:
  struct Body;
  friend class BatchGenerator;
  friend Status set_adapters(Generator& generator, std::span<const Model> adapters);
  Status change_sessions(std::function<Status(Session&)> change, uint64_t hash);
  // As a draft for several texts (lib/generate/draft_rows.h).
  Status check_draft(int64_t vocabulary) const;
  Result<std::vector<std::vector<int32_t>>> draft_rows(std::span<const DraftText> texts,
                                                       int64_t columns, std::stop_token stop);
  explicit Generator(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
