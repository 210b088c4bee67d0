// SPDX-License-Identifier: Apache-2.0
#include "hg/generator.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "lib/generate/beam_search.h"
#include "lib/generate/choice.h"
#include "lib/generate/decoder_session.h"
#include "lib/generate/draft_rows.h"
#include "lib/generate/lookup.h"
#include "lib/generate/prompt_check.h"
#include "lib/graph/border.h"
#include "lib/graph/clock.h"

namespace hg {
namespace {

constexpr int64_t kMostReserved = 4096;            // new tokens that a call makes room for at once
constexpr int64_t kMostTokens = int64_t{1} << 40;  // so that sums do not overflow

// Logits become logarithms of probabilities.
Status log_softmax(std::span<float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  HG_CHECK(std::isfinite(top), "generate: the largest logit is ", double{top});
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - top);
  const double all = top + std::log(sum);
  for (float& logit : logits) logit = static_cast<float>(logit - all);
  return {};
}

Status check_same_vocabulary(int64_t draft, int64_t model) {
  HG_CHECK(draft == model, "generate: the draft has ", draft, " tokens, the model ", model);
  return {};
}

}  // namespace

std::string_view to_string(Finish finish) { return finish == Finish::stop ? "stop" : "length"; }

struct Generator::Body {
  explicit Body(DecoderSession made) : decoder(std::move(made)) {}

  Status begin(std::span<const std::vector<int32_t>> prompts, GenerateOptions with);
  void discard();
  Status append(std::span<const int32_t> ids, std::stop_token stop);
  Status check_speculation(size_t sequences, const GenerateOptions& with) const;
  Result<std::vector<std::vector<int32_t>>> propose(std::stop_token stop);
  Result<std::vector<std::vector<int32_t>>> drafted(std::stop_token stop);
  std::vector<std::vector<int32_t>> look_up() const;
  Status drop_rejected(std::span<const int64_t> accepted, int64_t proposed);
  Status drop_unused(int64_t proposed);
  int64_t left(size_t row) const;
  int64_t longest() const;
  int64_t most_columns() const;
  Result<std::vector<int32_t>> draft(std::vector<int32_t> text, size_t most, size_t step,
                                     const Sampler& with, std::stop_token stop);
  Status step(std::stop_token stop);
  Status search(std::stop_token stop);
  Status run(std::stop_token stop);
  void take(const BeamSearch::Beam& beam, GeneratedSequence& sequence, int64_t name);

  DecoderSession decoder;
  GenerateOptions options;
  std::optional<Sampler> sampler;             // nullopt: no call has begun, or it failed
  std::vector<std::vector<int32_t>> history;  // prompts and new tokens
  std::vector<std::unique_ptr<Constraint::State>> states;
  std::vector<bool> is_done;
  std::vector<float> logits;
  std::vector<GeneratedToken> tokens;  // of the last step
  Generation result;
  std::vector<int64_t> looks_up;  // most tokens that the next look-up proposes for each row
  DraftRows rows;                 // as a draft for several sequences
  bool has_run = false;
};

Status Generator::Body::begin(std::span<const std::vector<int32_t>> prompts, GenerateOptions with) {
  discard();
  HG_TRY(check_prompts(decoder, prompts, with));
  HG_TRY_ASSIGN(const Sampler made, Sampler::create(with.sampler));
  const int64_t copies = std::max(with.num_beams, with.num_return_sequences);
  EncoderSession* const encoder = decoder.encoder();
  HG_CHECK(
      encoder != nullptr || (with.encoder_ids.empty() && with.encoder_features.data == nullptr),
      "generate: there are inputs of an encoder, but the model has none");
  if (encoder != nullptr)
    HG_TRY(encoder->begin(with.encoder_ids, with.encoder_features, prompts.size(), copies));
  HG_TRY(check_speculation(prompts.size() * static_cast<size_t>(copies), with));
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : prompts) longest = std::max(longest, prompt.size());
  const int64_t positions =
      static_cast<int64_t>(longest) + std::min(with.max_tokens, kMostReserved);
  history.clear();
  for (const std::vector<int32_t>& prompt : prompts)
    history.insert(history.end(), static_cast<size_t>(copies), prompt);
  if (with.reuse_past && history.size() == 1) {
    HG_TRY_ASSIGN(result.reused, decoder.resume(prompts[0], positions));
  }
  if (result.reused == 0) HG_TRY(decoder.start(static_cast<int64_t>(history.size()), positions));
  for (size_t row = 0; row < history.size(); ++row) {
    const std::vector<int32_t>& prompt = history[row];
    for (size_t i = prompt.size(); i < longest; ++i) decoder.push(row, prompt[0], 0, true);
    for (auto i = static_cast<size_t>(result.reused); i < prompt.size(); ++i)
      decoder.push(row, prompt[i], static_cast<int64_t>(i), false);
  }
  options = std::move(with);
  looks_up.assign(history.size(), options.lookup);
  states.clear();
  states.resize(history.size());
  is_done.assign(history.size(), options.max_tokens == 0);
  result.sequences.resize(prompts.size() * static_cast<size_t>(options.num_return_sequences));
  has_run = false;
  sampler = made;
  return {};
}

// Ends the generation of an earlier begin().
void Generator::Body::discard() {
  sampler.reset();
  result = {};
  tokens.clear();
  rows.forget();
}

Status Generator::Body::append(std::span<const int32_t> ids, std::stop_token stop) {
  HG_TRY(decoder.check_sequence("continue"));
  const int64_t before = decoder.length();
  std::vector<int32_t> all = decoder.ids();
  all.insert(all.end(), ids.begin(), ids.end());
  HG_CHECK(!ids.empty(), "generate: there are no ids");
  HG_TRY(check_prompts(decoder, {&all, 1}, {.max_tokens = 0}));
  discard();
  if (before == 0) HG_TRY(decoder.start(1, std::ssize(all)));
  for (size_t i = 0; i < ids.size(); ++i)
    decoder.push(0, ids[i], before + static_cast<int64_t>(i), false);
  Status read = decoder.run(std::move(stop));
  if (read.ok()) read = decoder.logits(0, logits);
  if (!read.ok()) HG_TRY(decoder.truncate(before));
  return read;
}

Status Generator::Body::run(std::stop_token stop) {
  const Clock::time_point start = Clock::now();
  HG_TRY(decoder.run(std::move(stop)));
  (has_run ? result.decode_ms : result.prompt_ms) += ms_since(start);
  has_run = true;
  return {};
}

Status Generator::Body::step(std::stop_token stop) {
  tokens.clear();
  HG_CHECK(sampler.has_value(), "generate: step() needs a begin() that succeeded");
  if (std::all_of(is_done.begin(), is_done.end(), [](bool done) { return done; })) return {};
  const Sampler now = *sampler;
  std::vector<std::vector<int32_t>> proposed(history.size());
  int64_t most = 0;  // proposed for a row
  if (has_run) {
    HG_TRY_ASSIGN(proposed, propose(stop));
    for (const std::vector<int32_t>& ids : proposed) most = std::max(most, std::ssize(ids));
    const bool speculates = options.lookup > 0 || options.draft != nullptr;
    if (speculates && history.size() > 1) HG_TRY(drop_unused(most));
    for (size_t row = 0; row < history.size(); ++row) {
      // A sequence that has ended repeats its last token at its last position.
      int64_t position = std::ssize(history[row]) - 1;
      decoder.push(row, history[row].back(), position, false);
      for (const int32_t id : proposed[row]) decoder.push(row, id, ++position, false);
      for (int64_t i = std::ssize(proposed[row]); i < most; ++i)
        decoder.push(row, history[row].back(), position, true);
    }
  }
  sampler.reset();  // set again when the step succeeds
  decoder.keep_logits(1 + most);
  HG_TRY(run(std::move(stop)));
  std::vector<int64_t> accepted(history.size(), 0);
  for (size_t row = 0; row < history.size(); ++row) {
    const std::vector<int32_t>& ids = proposed[row];
    const size_t first = tokens.size();
    for (size_t i = 0; !is_done[row] && i <= ids.size(); ++i) {
      HG_TRY(decoder.logits(row, logits, most - static_cast<int64_t>(i)));
      HG_TRY_ASSIGN(
          is_done[row],
          choose_token({static_cast<int64_t>(row), static_cast<uint32_t>(row)}, now, options,
                       logits, history[row], states[row], result.sequences[row], tokens));
      if (i == ids.size() || tokens.size() <= first + i || tokens[first + i].id != ids[i]) break;
      ++accepted[row];
    }
    if (ids.empty()) continue;
    result.proposed += std::ssize(ids);
    result.accepted += accepted[row];
    adapt_lookup(looks_up[row], options.lookup, std::ssize(ids), accepted[row]);
  }
  if (most > 0) HG_TRY(drop_rejected(accepted, most));
  sampler = now;
  return {};
}

Status Generator::Body::check_speculation(size_t sequences, const GenerateOptions& with) const {
  HG_TRY(check_proposals(with));
  if (with.lookup == 0 && with.draft == nullptr) return {};
  HG_CHECK(with.num_beams == 1, "generate: a beam search does not speculate; num_beams is ",
           with.num_beams);
  HG_TRY(decoder.check_speculation());
  if (sequences > 1) HG_TRY(decoder.check_rows("speculate with several sequences"));
  if (with.draft == nullptr) return {};
  const Body& body = *with.draft->body_;
  HG_CHECK(&body != this, "generate: the draft is the generator itself");
  if (sequences > 1) return with.draft->check_draft(decoder.vocabulary());
  HG_TRY(check_same_vocabulary(body.decoder.vocabulary(), decoder.vocabulary()));
  return body.decoder.check_no_encoder("draft with");
}

// Tokens that a row may still get after the next one.
int64_t Generator::Body::left(size_t row) const {
  return std::min(options.max_tokens, kMostTokens) - std::ssize(result.sequences[row].ids) - 1;
}

// Tokens of the longest row that has not ended.
int64_t Generator::Body::longest() const {
  int64_t most = 0;
  for (size_t row = 0; row < history.size(); ++row)
    if (!is_done[row]) most = std::max(most, std::ssize(history[row]));
  return most;
}

// Columns that all rows may have together: models may have tables for no more.
int64_t Generator::Body::most_columns() const {
  int64_t most = 0;
  for (size_t row = 0; row < history.size(); ++row)
    if (!is_done[row]) most = std::max(most, std::ssize(history[row]) + left(row));
  return most;
}

// Tokens that may follow each row, fewer than it may still have.
Result<std::vector<std::vector<int32_t>>> Generator::Body::propose(std::stop_token stop) {
  if (options.lookup > 0) return look_up();
  if (options.draft == nullptr) return std::vector<std::vector<int32_t>>(history.size());
  const Clock::time_point start = Clock::now();
  HG_TRY_ASSIGN(std::vector<std::vector<int32_t>> proposed, drafted(std::move(stop)));
  result.decode_ms += ms_since(start);
  return proposed;
}

Result<std::vector<std::vector<int32_t>>> Generator::Body::drafted(std::stop_token stop) {
  Body& draft = *options.draft->body_;
  std::vector<std::vector<int32_t>> proposed(1);
  if (history.size() == 1) {
    HG_TRY_ASSIGN(
        proposed[0],
        draft.draft(history[0], static_cast<size_t>(std::min(options.draft_tokens, left(0))),
                    result.sequences[0].ids.size(), *sampler, std::move(stop)));
    return proposed;
  }
  int64_t columns = most_columns();
  if (const int64_t limit = draft.decoder.position_limit(); limit > 0)
    columns = std::min(columns, limit);
  std::vector<DraftText> texts;
  for (size_t row = 0; row < history.size(); ++row) {
    const int64_t most =
        is_done[row] ? 0 : std::min({options.draft_tokens, left(row), columns - longest()});
    texts.push_back({history[row], std::max(int64_t{0}, most), result.sequences[row].ids.size(),
                     &*sampler, static_cast<uint32_t>(row)});
  }
  return options.draft->draft_rows(texts, columns, std::move(stop));
}

std::vector<std::vector<int32_t>> Generator::Body::look_up() const {
  std::vector<std::vector<int32_t>> found(history.size());
  int64_t most = 0;
  for (size_t row = 0; row < history.size(); ++row) {
    if (is_done[row]) continue;
    found[row] = looked_up(history[row], static_cast<size_t>(std::min(looks_up[row], left(row))));
    most = std::max(most, std::ssize(found[row]));
  }
  most = rounded_run(1 + std::min(most, most_columns() - longest())) - 1;
  for (std::vector<int32_t>& ids : found)
    if (std::ssize(ids) > most) ids.resize(static_cast<size_t>(most));
  return found;
}

// Removes rejected tokens from the past.
Status Generator::Body::drop_rejected(std::span<const int64_t> accepted, int64_t proposed) {
  if (history.size() == 1) return decoder.truncate(decoder.past() - proposed + accepted[0]);
  std::vector<int64_t> kept(accepted.begin(), accepted.end());
  const int64_t most = *std::max_element(kept.begin(), kept.end());
  for (size_t row = 0; row < kept.size(); ++row)
    if (is_done[row]) kept[row] = most;
  return decoder.keep_new(kept, proposed);
}

// Drops columns that no sequence needs before a run with so many proposals. Moving the others costs
// as much as reading them, so this waits until half are free, or until the model has no more.
Status Generator::Body::drop_unused(int64_t proposed) {
  const int64_t read = longest() - 1, unused = decoder.past() - read;
  const bool is_full = decoder.past() + 1 + proposed > most_columns();
  return unused > 0 && (unused >= read || is_full) ? decoder.drop_columns(unused) : Status();
}

// Continues a text by at most `most` tokens, with the draws of steps from `step` on.
Result<std::vector<int32_t>> Generator::Body::draft(std::vector<int32_t> text, size_t most,
                                                    size_t step, const Sampler& with,
                                                    std::stop_token stop) {
  discard();
  std::vector<int32_t> proposed;
  while (proposed.size() < most) {
    const int64_t length = std::ssize(text), limit = decoder.position_limit();
    if (limit > 0 && length > limit) break;
    HG_TRY_ASSIGN(const int64_t same, decoder.resume(text, length));
    if (same == 0) HG_TRY(decoder.start(1, length));
    for (int64_t i = same; i < length; ++i) decoder.push(0, text[static_cast<size_t>(i)], i, false);
    HG_TRY(decoder.run(stop));
    HG_TRY(decoder.logits(0, logits));
    HG_TRY_ASSIGN(const int32_t id, with.choose(logits, text, step + proposed.size(), 0));
    text.push_back(id);
    proposed.push_back(id);
  }
  return proposed;
}

// Searches all prompts together: row i * num_beams + k is beam k of prompt i.
Status Generator::Body::search(std::stop_token stop) {
  const auto count = static_cast<size_t>(options.num_beams);
  std::vector<BeamSearch> searches(history.size() / count, BeamSearch(options));
  const std::vector<std::vector<int32_t>> prompts = history;
  const Sampler now = *sampler;
  sampler.reset();
  const auto any = [&](auto is) { return std::any_of(searches.begin(), searches.end(), is); };
  for (bool goes_on = options.max_tokens > 0; goes_on;) {
    HG_TRY(run(stop));
    std::vector<size_t> from;
    for (size_t i = 0; i < searches.size(); ++i) {
      std::vector<float> all;
      for (size_t row = i * count; row < (i + 1) * count; ++row) {
        HG_TRY(decoder.logits(row, logits));
        if (options.on_logits)
          HG_TRY(options.on_logits(static_cast<int64_t>(i), history[row], logits));
        HG_TRY(log_softmax(logits));
        HG_TRY_ASSIGN(const std::vector<float> penalized, now.filter(logits, history[row]));
        all.insert(all.end(), penalized.begin(), penalized.end());
      }
      searches[i].advance(all);
      for (const BeamSearch::Beam& beam : searches[i].beams())
        from.push_back(i * count + beam.parent);
    }
    goes_on = any([](const BeamSearch& each) { return each.may_improve(); }) &&
              any([](const BeamSearch& each) { return !each.all_have_ended(); }) &&
              (options.early_stopping != EarlyStopping::yes ||
               any([](const BeamSearch& each) { return !each.has_all_answers(); }));
    if (!goes_on) break;
    HG_TRY(decoder.reorder(from));
    for (size_t row = 0; row < history.size(); ++row) {
      const std::vector<int32_t>& ids = searches[row / count].beams()[row % count].ids;
      history[row] = prompts[row];
      history[row].insert(history[row].end(), ids.begin(), ids.end());
      decoder.push(row, ids.back(), static_cast<int64_t>(history[row].size()) - 1, false);
    }
  }
  const auto answers = static_cast<size_t>(options.num_return_sequences);
  for (size_t i = 0; i < result.sequences.size(); ++i)
    take(searches[i / answers].answers()[i % answers], result.sequences[i],
         static_cast<int64_t>(i));
  tokens.clear();
  is_done.assign(is_done.size(), true);
  sampler = now;
  return {};
}

void Generator::Body::take(const BeamSearch::Beam& beam, GeneratedSequence& sequence,
                           int64_t name) {
  sequence.score = beam.score;
  for (size_t k = 0; k < beam.ids.size(); ++k) {
    if (!beam.is_finished) break;
    const int32_t id = beam.ids[k];
    if (is_stop_id(options, id)) {
      sequence.finish = Finish::stop;
      break;
    }
    sequence.ids.push_back(id);
    if (options.log_probabilities) sequence.log_probabilities.push_back(beam.log_probabilities[k]);
    if (options.on_token && !options.on_token({name, id, beam.log_probabilities[k]})) {
      sequence.finish = Finish::stop;
      break;
    }
  }
}

Generator::Generator(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

Result<Generator> Generator::create(const Model& model, SessionOptions options,
                                    std::optional<DType> past) {
  return or_no_memory([&]() -> Result<Generator> {
    HG_TRY_ASSIGN(DecoderSession decoder, DecoderSession::create(model, std::move(options), 1,
                                                                 DecoderOutput::logits, past));
    return Generator(std::make_unique<Body>(std::move(decoder)));
  });
}

Status Generator::begin(std::span<const std::vector<int32_t>> prompts, GenerateOptions options) {
  return or_no_memory([&]() -> Status {
    HG_CHECK(options.num_beams <= 1, "generate: num_beams is ", options.num_beams,
             "; a beam search needs generate()");
    return body_->begin(prompts, std::move(options));
  });
}

Result<std::span<const GeneratedToken>> Generator::step(std::stop_token stop) {
  return or_no_memory([&]() -> Result<std::span<const GeneratedToken>> {
    HG_TRY(body_->step(std::move(stop)));
    return std::span<const GeneratedToken>(body_->tokens);
  });
}

Status Generator::end(int64_t sequence) {
  return or_no_memory([&]() -> Status {
    const auto count = static_cast<int64_t>(body_->result.sequences.size());
    HG_CHECK(sequence >= 0 && sequence < count, "generate: there is no sequence ", sequence,
             " among ", count);
    const auto row = static_cast<size_t>(sequence);
    body_->result.sequences[row].finish = Finish::stop;
    body_->is_done[row] = true;
    return {};
  });
}

Result<Generation> Generator::generate(std::span<const std::vector<int32_t>> prompts,
                                       const GenerateOptions& options, std::stop_token stop) {
  return or_no_memory([&]() -> Result<Generation> {
    HG_TRY(body_->begin(prompts, options));
    if (options.num_beams > 1) {
      HG_TRY(body_->search(std::move(stop)));
      return body_->result;
    }
    do {
      HG_TRY(body_->step(stop));
    } while (!body_->tokens.empty());
    return body_->result;
  });
}

int64_t Generator::length() const { return body_->decoder.length(); }

Result<std::vector<int32_t>> Generator::ids() const {
  return or_no_memory([&]() -> Result<std::vector<int32_t>> { return body_->decoder.ids(); });
}

Result<std::span<const float>> Generator::append(std::span<const int32_t> ids,
                                                 std::stop_token stop) {
  return or_no_memory([&]() -> Result<std::span<const float>> {
    HG_TRY(body_->append(ids, std::move(stop)));
    return std::span<const float>(body_->logits);
  });
}

void Generator::reset() {
  body_->discard();
  body_->decoder.reset();
}

Status Generator::truncate(int64_t length) {
  return or_no_memory([&]() -> Status {
    HG_TRY(body_->decoder.truncate(length));
    body_->discard();
    return {};
  });
}

Result<Generator> Generator::fork() const {
  return or_no_memory([&]() -> Result<Generator> {
    HG_TRY_ASSIGN(DecoderSession copy, body_->decoder.fork());
    return Generator(std::make_unique<Body>(std::move(copy)));
  });
}

Status Generator::save(const std::string& path) const {
  return or_no_memory([&] { return body_->decoder.save(path); });
}

Status Generator::load(const std::string& path) {
  return or_no_memory([&]() -> Status {
    HG_TRY(body_->decoder.load(path));
    body_->discard();
    return {};
  });
}

Status Generator::change_sessions(std::function<Status(Session&)> change, uint64_t hash) {
  return or_no_memory([&]() -> Status {
    HG_TRY(body_->decoder.change_sessions(std::move(change), hash));
    body_->discard();
    return {};
  });
}

Status Generator::check_draft(int64_t vocabulary) const {
  HG_TRY(check_same_vocabulary(body_->decoder.vocabulary(), vocabulary));
  return DraftRows::check(body_->decoder);
}

Result<std::vector<std::vector<int32_t>>> Generator::draft_rows(std::span<const DraftText> texts,
                                                                int64_t columns,
                                                                std::stop_token stop) {
  DraftRows rows = std::exchange(body_->rows, {});
  body_->discard();
  HG_TRY_ASSIGN(std::vector<std::vector<int32_t>> proposed,
                rows.propose(body_->decoder, texts, columns, std::move(stop)));
  body_->rows = std::move(rows);
  return proposed;
}

const Generation& Generator::generation() const { return body_->result; }
int64_t Generator::vocabulary() const { return body_->decoder.vocabulary(); }
int64_t Generator::position_limit() const { return body_->decoder.position_limit(); }

}  // namespace hg
