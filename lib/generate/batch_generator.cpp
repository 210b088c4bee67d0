// SPDX-License-Identifier: Apache-2.0
// Each row of the running session holds a sequence at its right end. Every step gives each row one
// more token; rows without a sequence get one that nobody reads. There are sessions of 1, 2, 4, ...
// rows, between which sequences move.
#include "hg/batch_generator.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>

#include "lib/generate/choice.h"
#include "lib/generate/decoder_session.h"
#include "lib/generate/draft_rows.h"
#include "lib/generate/lookup.h"
#include "lib/generate/prompt_check.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

constexpr int64_t kMostLeft = int64_t{1} << 40;  // tokens, so that sums do not overflow

struct Row {
  int64_t id = -1;  // -1: free
  GenerateOptions options = {};
  std::optional<Sampler> sampler = {};
  std::vector<int32_t> history = {};
  std::unique_ptr<Constraint::State> state = {};
  EndedSequence result = {};
  int64_t looks_up = 0;  // most tokens that the next look-up proposes

  // Tokens that the sequence may still get.
  int64_t left() const {
    return std::min(options.max_tokens, kMostLeft) - std::ssize(result.sequence.ids);
  }
};

using Proposals = std::vector<std::vector<int32_t>>;

}  // namespace

struct BatchGenerator::Body {
  Body(DecoderSession one, Model decoder_model, SessionOptions with, int64_t count,
       std::optional<DType> past)
      : model(std::move(decoder_model)),
        session_options(std::move(with)),
        stored(past),
        reader(std::move(one)),
        rows(static_cast<size_t>(count)) {}

  Result<int64_t> add(const std::vector<int32_t>& prompt, GenerateOptions with,
                      std::stop_token stop);
  Status read(const std::vector<int32_t>& prompt, bool reuse, std::stop_token stop,
              int64_t& reused);
  Status make_room();
  Status resize(int64_t count);
  Status shrink();
  Status drop_columns(int64_t proposed = 0);
  int64_t longest() const;
  int64_t most_columns() const;
  Status check_speculation(const GenerateOptions& with) const;
  Result<Proposals> propose(std::stop_token stop);
  Status draft(Generator& with, int64_t columns, Proposals& proposed, std::stop_token stop);
  int64_t choose(size_t row, const std::vector<int32_t>& proposed, int64_t most);
  Status step(std::stop_token stop);
  void end(Row& row);

  const Model model;
  const SessionOptions session_options;
  const std::optional<DType> stored;
  DecoderSession reader;                      // one row: prompts
  std::map<int64_t, DecoderSession> runners;  // by their number of rows; opened when needed
  DecoderSession* runner = nullptr;           // of `size` rows
  int64_t size = 0;
  std::vector<Row> rows;  // the first `size` may be taken
  int roomy_steps = 0;    // steps for which half of the rows would have been enough
  std::vector<float> logits;
  std::vector<GeneratedToken> tokens;
  std::vector<EndedSequence> ended;
  int64_t added = 0, running = 0;
};

// Reads all but the last token of a prompt, which the next step reads.
Status BatchGenerator::Body::read(const std::vector<int32_t>& prompt, bool reuse,
                                  std::stop_token stop, int64_t& reused) {
  const size_t count = prompt.size() - 1;
  reused = 0;
  if (reuse) {
    // Keeps all but the last token, so the last one takes part.
    HG_TRY_ASSIGN(reused, reader.resume(prompt, static_cast<int64_t>(prompt.size())));
  }
  if (reused == 0) HG_TRY(reader.start(1, static_cast<int64_t>(prompt.size())));
  for (auto i = static_cast<size_t>(reused); i < count; ++i)
    reader.push(0, prompt[i], static_cast<int64_t>(i), false);
  return static_cast<size_t>(reused) < count ? reader.run(std::move(stop)) : Status();
}

Result<int64_t> BatchGenerator::Body::add(const std::vector<int32_t>& prompt, GenerateOptions with,
                                          std::stop_token stop) {
  HG_TRY(check_prompts(reader, {&prompt, 1}, with));
  HG_CHECK(with.num_beams == 1 && with.num_return_sequences == 1,
           "generate: a sequence of a batch has one answer, without beams; num_beams is ",
           with.num_beams, ", num_return_sequences ", with.num_return_sequences);
  HG_TRY(check_speculation(with));
  HG_TRY_ASSIGN(const Sampler sampler, Sampler::create(with.sampler));
  if (running == static_cast<int64_t>(rows.size()))
    return Status(Code::busy, str_cat("generate: all ", uint64_t{rows.size()}, " rows are taken"));
  EndedSequence result;
  HG_TRY(read(prompt, with.reuse_past, std::move(stop), result.reused));
  HG_TRY(make_room());
  const auto free =
      std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row.id < 0; });
  HG_TRY(runner->replace_row(static_cast<size_t>(free - rows.begin()), reader, 0, reader.past()));
  result.id = added++;
  const int64_t lookup = with.lookup;
  *free = Row{result.id, std::move(with), sampler, prompt, {}, std::move(result), lookup};
  ++running;
  if (free->options.max_tokens == 0) end(*free);
  return added - 1;
}

// Opens or enlarges the running session, so that one more row is free.
Status BatchGenerator::Body::make_room() {
  roomy_steps = 0;
  if (running == 0) {
    HG_TRY(resize(1));
  } else if (running == size) {
    HG_TRY(resize(std::min(2 * size, static_cast<int64_t>(rows.size()))));
  }
  return drop_columns();
}

// A step computes all rows of its session. Moves the sequences to one with fewer rows when that has
// been enough for some steps: others often join soon after one has ended.
Status BatchGenerator::Body::shrink() {
  constexpr int kSteps = 8;
  int64_t smaller = 1;
  while (2 * smaller < size) smaller *= 2;
  roomy_steps = size > 1 && running <= smaller ? roomy_steps + 1 : 0;
  if (roomy_steps < kSteps) return {};
  roomy_steps = 0;
  return resize(smaller);
}

// Moves the sequences to the session with `count` rows.
Status BatchGenerator::Body::resize(int64_t count) {
  auto found = runners.find(count);
  if (found == runners.end()) {
    HG_TRY_ASSIGN(DecoderSession opened, DecoderSession::create(model, session_options, count,
                                                                DecoderOutput::logits, stored));
    found = runners.emplace(count, std::move(opened)).first;
  }
  DecoderSession& target = found->second;
  // The longest one first, so that later ones do not move it. Free rows come last.
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return rows[a].history.size() > rows[b].history.size();
  });
  HG_TRY(target.start(count, running > 0 ? runner->past() : 0));
  for (size_t i = 0; i < static_cast<size_t>(running); ++i)
    HG_TRY(target.replace_row(i, *runner, order[i],
                              static_cast<int64_t>(rows[order[i]].history.size()) - 1));
  std::vector<Row> sorted;
  sorted.reserve(rows.size());
  for (const size_t i : order) sorted.push_back(std::move(rows[i]));
  rows = std::move(sorted);
  runner = &target;
  size = count;
  return {};
}

// Columns that the longest sequence needs: its last token is not read.
int64_t BatchGenerator::Body::longest() const {
  int64_t most = 0;
  for (const Row& row : rows)
    if (row.id >= 0) most = std::max(most, std::ssize(row.history) - 1);
  return most;
}

// Columns that a sequence can get: a model may have tables for no more.
int64_t BatchGenerator::Body::most_columns() const {
  int64_t most = 0;
  for (const Row& row : rows)
    if (row.id >= 0) most = std::max(most, std::ssize(row.history) - 1 + row.left());
  return most;
}

// Drops columns that belong to no sequence, before a run with so many proposals. Moving the others
// costs as much as reading them, so this waits until at least half are free, or until the run would
// have more columns than a sequence can get.
Status BatchGenerator::Body::drop_columns(int64_t proposed) {
  const int64_t used = longest(), unused = runner->past() - used;
  const bool is_full = runner->past() + proposed >= most_columns();
  return unused > 0 && (unused >= used || is_full) ? runner->drop_columns(unused) : Status();
}

Status BatchGenerator::Body::check_speculation(const GenerateOptions& with) const {
  HG_TRY(check_proposals(with));
  if (with.lookup == 0 && with.draft == nullptr) return {};
  HG_TRY(reader.check_speculation());
  return with.draft == nullptr ? Status() : with.draft->check_draft(reader.vocabulary());
}

// Tokens that may follow each row, fewer than it may still get.
Result<Proposals> BatchGenerator::Body::propose(std::stop_token stop) {
  Proposals proposed(static_cast<size_t>(size));
  const int64_t columns = most_columns(), fitting = columns - longest() - 1;
  int64_t most = 0;
  for (size_t i = 0; i < proposed.size(); ++i) {
    Row& row = rows[i];
    if (row.id < 0 || row.options.lookup == 0) continue;
    proposed[i] =
        looked_up(row.history, static_cast<size_t>(std::min(row.looks_up, row.left() - 1)));
    most = std::max(most, std::ssize(proposed[i]));
  }
  most = rounded_run(1 + std::min(most, fitting)) - 1;
  for (std::vector<int32_t>& ids : proposed)
    if (std::ssize(ids) > most) ids.resize(static_cast<size_t>(most));
  std::vector<Generator*> drafts;
  for (const Row& row : rows)
    if (row.id >= 0 && row.options.draft != nullptr &&
        std::find(drafts.begin(), drafts.end(), row.options.draft) == drafts.end())
      drafts.push_back(row.options.draft);
  for (Generator* const each : drafts) HG_TRY(draft(*each, columns, proposed, stop));
  return proposed;
}

// Sets the proposals for the rows with this draft.
Status BatchGenerator::Body::draft(Generator& with, int64_t columns, Proposals& proposed,
                                   std::stop_token stop) {
  static constexpr int32_t kUnused[] = {0};
  if (const int64_t limit = with.position_limit(); limit > 0) columns = std::min(columns, limit);
  std::vector<DraftText> texts(proposed.size(), DraftText{kUnused});
  for (size_t i = 0; i < texts.size(); ++i) {
    const Row& row = rows[i];
    if (row.id < 0 || row.options.draft != &with) continue;
    const int64_t most =
        std::min({row.options.draft_tokens, row.left() - 1, columns - longest() - 1});
    texts[i] = {row.history, std::max(int64_t{0}, most), row.result.sequence.ids.size(),
                &*row.sampler};
  }
  HG_TRY_ASSIGN(Proposals drafted, with.draft_rows(texts, columns, std::move(stop)));
  for (size_t i = 0; i < texts.size(); ++i)
    if (texts[i].most > 0) proposed[i] = std::move(drafted[i]);
  return {};
}

void BatchGenerator::Body::end(Row& row) {
  row.result.id = row.id;
  ended.push_back(std::move(row.result));
  row = {};
  --running;
}

Status BatchGenerator::Body::step(std::stop_token stop) {
  tokens.clear();
  ended.clear();
  if (running == 0) return {};
  HG_TRY(shrink());
  HG_TRY_ASSIGN(const Proposals proposed, propose(stop));
  int64_t most = 0;
  for (const std::vector<int32_t>& ids : proposed) most = std::max(most, std::ssize(ids));
  HG_TRY(drop_columns(most));
  for (size_t i = 0; i < static_cast<size_t>(size); ++i) {
    const bool is_free = rows[i].id < 0;
    const int32_t last = is_free ? 0 : rows[i].history.back();
    int64_t position = is_free ? 0 : std::ssize(rows[i].history) - 1;
    runner->push(i, last, position, false);
    for (const int32_t id : proposed[i]) runner->push(i, id, ++position, false);
    for (int64_t k = std::ssize(proposed[i]); k < most; ++k) runner->push(i, last, position, true);
  }
  runner->keep_logits(1 + most);
  if (Status ran = runner->run(std::move(stop)); !ran.ok()) {
    runner->discard_new();
    return ran;
  }
  std::vector<int64_t> kept(static_cast<size_t>(size), 0);
  for (size_t i = 0; i < kept.size(); ++i)
    if (rows[i].id >= 0) kept[i] = choose(i, proposed[i], most);
  const int64_t all = *std::max_element(kept.begin(), kept.end());
  for (size_t i = 0; i < kept.size(); ++i)
    if (rows[i].id < 0) kept[i] = all;
  return most > 0 ? runner->keep_new(kept, most) : Status();
}

// Chooses the tokens of a row after a run with `most` proposals for some row. Returns how many of
// its own it keeps.
int64_t BatchGenerator::Body::choose(size_t at, const std::vector<int32_t>& proposed,
                                     int64_t most) {
  Row& row = rows[at];
  int64_t accepted = 0;
  bool has_ended = false;
  for (size_t i = 0; !has_ended && i <= proposed.size(); ++i) {
    const size_t before = tokens.size();
    Result<bool> chosen = false;
    row.result.status = runner->logits(at, logits, most - static_cast<int64_t>(i));
    if (row.result.status.ok()) {
      chosen = choose_token({row.id, 0}, *row.sampler, row.options, logits, row.history, row.state,
                            row.result.sequence, tokens);
      row.result.status = chosen.status();
    }
    has_ended = !row.result.status.ok() || *chosen;
    if (i == proposed.size() || tokens.size() == before || tokens.back().id != proposed[i]) break;
    ++accepted;
  }
  if (!proposed.empty()) {
    row.result.proposed += std::ssize(proposed);
    row.result.accepted += accepted;
    adapt_lookup(row.looks_up, row.options.lookup, std::ssize(proposed), accepted);
  }
  if (has_ended) end(row);
  return accepted;
}

BatchGenerator::BatchGenerator(std::unique_ptr<Body> body) : body_(std::move(body)) {}
BatchGenerator::BatchGenerator(BatchGenerator&&) noexcept = default;
BatchGenerator& BatchGenerator::operator=(BatchGenerator&&) noexcept = default;
BatchGenerator::~BatchGenerator() = default;

Result<BatchGenerator> BatchGenerator::create(const Model& model, int64_t rows,
                                              SessionOptions options, std::optional<DType> past) {
  return or_no_memory([&]() -> Result<BatchGenerator> {
    HG_CHECK(rows > 0 && rows <= 4096, "generate: rows is ", rows, ", expected 1 to 4096");
    HG_TRY_ASSIGN(DecoderSession reader,
                  DecoderSession::create(model, options, 1, DecoderOutput::logits, past));
    HG_TRY(reader.check_rows("add sequences to a running batch"));
    return BatchGenerator(
        std::make_unique<Body>(std::move(reader), model, std::move(options), rows, past));
  });
}

Result<int64_t> BatchGenerator::add(const std::vector<int32_t>& prompt, GenerateOptions options,
                                    std::stop_token stop) {
  return or_no_memory([&] { return body_->add(prompt, std::move(options), std::move(stop)); });
}

Result<std::span<const GeneratedToken>> BatchGenerator::step(std::stop_token stop) {
  return or_no_memory([&]() -> Result<std::span<const GeneratedToken>> {
    HG_TRY(body_->step(std::move(stop)));
    return std::span<const GeneratedToken>(body_->tokens);
  });
}

std::span<const EndedSequence> BatchGenerator::ended() const { return body_->ended; }

Status BatchGenerator::end(int64_t id) {
  return or_no_memory([&]() -> Status {
    for (Row& row : body_->rows)
      if (row.id == id && id >= 0) {
        row.result.sequence.finish = Finish::stop;
        body_->end(row);
        return {};
      }
    return not_found("generate: there is no running sequence ", id);
  });
}

int64_t BatchGenerator::running() const { return body_->running; }
int64_t BatchGenerator::rows() const { return static_cast<int64_t>(body_->rows.size()); }
int64_t BatchGenerator::vocabulary() const { return body_->reader.vocabulary(); }
int64_t BatchGenerator::position_limit() const { return body_->reader.position_limit(); }

}  // namespace hg
