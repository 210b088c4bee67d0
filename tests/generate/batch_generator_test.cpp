// SPDX-License-Identifier: Apache-2.0
// Sequences that join and leave a batch, compared with runs over the whole text.
#include "hg/batch_generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "hg/hg.h"
#include "tests/support/must.h"
#include "tests/generate/random_batches.h"
#include "tests/support/small_decoder.h"

namespace hg {
namespace {

using namespace small_decoder;

TEST(BatchGenerator, EqualsRunsOfTheWholeText) {
  Whole whole;
  const std::vector<Form> forms = {{},
                                   {.integers = i32},
                                   {.last_only = true},
                                   {.table = true},
                                   {.past_name = "past.", .present_name = "present."}};
  for (size_t i = 0; i < forms.size(); ++i)
    for (const int64_t rows : {1, 2, 5}) {
      BatchGenerator batch = must(BatchGenerator::create(decoder(forms[i]), rows, {.threads = 2}));
      EXPECT_EQ(batch.rows(), rows);
      EXPECT_EQ(batch.vocabulary(), kWords);
      EXPECT_EQ(batch.position_limit(), kPositions);
      run_at_random(batch, static_cast<uint32_t>(10 * i + rows), kWords, 150,
                    [&](const Asked& asked, const GeneratedSequence& got, bool is_ended) {
                      const auto count = static_cast<int64_t>(got.ids.size());
                      EXPECT_TRUE(is_ended || count == asked.max_tokens) << count;
                      EXPECT_EQ(got.ids, whole.greedy(asked.prompt, count));
                    });
    }
}

// States with a batch that is not the first dim, one that grows along the first dim, and one of a
// fixed shape. All numbers are integers, so that sums are exact.
struct Sums {
  static constexpr int64_t kCount = 13, kSize = 5;
  std::vector<float> words, head;
  Sums() {
    std::mt19937 random(5);
    for (std::vector<float>* const all : {&words, &head})
      for (int64_t i = 0; i < kCount * kSize; ++i)
        all->push_back(static_cast<float>(static_cast<int>(random() % 7) - 3));
  }
  Model model() const {
    Graph g;
    const Dim b("b"), t("t"), p("p");
    const auto table = [&](const char* name, const std::vector<float>& values) {
      return g.parameter(name, must(TensorData::copy_of(view(values, {kCount, kSize}))));
    };
    const Value ids = g.input("input_ids", i64, {b, t});
    const Value shown = cast(g.input("attention_mask", i64, {b, p + t}), f32);
    const Value positions = cast(g.input("position_ids", i64, {b, t}), f32);
    const Value x = embedding(table("words", words), ids) + reshape(positions, {b, t, 1}) * 0.0;
    const Value all = concat({g.input("past.x", f32, {p, b, kSize}), permute(x, {1, 0, 2})}, 0);
    g.output("present.x", all);
    // The sum of the shown positions, and of all tokens that the row has read.
    const Value grown = sum(all * reshape(permute(shown, {1, 0}), {p + t, b, 1}), {0}, true);
    const Value fixed =
        g.input("past.s", f32, {1, b, kSize}) + permute(sum(x, {1}, true), {1, 0, 2});
    g.output("present.s", fixed);
    g.output("logits", linear(permute(grown + grown + fixed, {1, 0, 2}), table("head", head)));
    return must(Model::from_graph(std::move(g)));
  }
  Ids greedy(Ids ids, int64_t count) const {
    const size_t begin = ids.size();
    while (count-- > 0) {
      std::vector<float> sums(kSize), logits(kCount);
      for (size_t i = 0; i < ids.size(); ++i)
        for (int64_t e = 0; e < kSize; ++e) sums[e] += 3 * words[ids[i] * kSize + e];
      for (int64_t i = 0; i < kCount; ++i)
        for (int64_t e = 0; e < kSize; ++e) logits[i] += head[i * kSize + e] * sums[e];
      ids.push_back(
          static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    return {ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end()};
  }
};

TEST(BatchGenerator, MovesStatesOfAnyShape) {
  const Sums sums;
  BatchGenerator batch = must(BatchGenerator::create(sums.model(), 4, {.threads = 1}));
  run_at_random(
      batch, 3, Sums::kCount, 300, [&](const Asked& asked, const GeneratedSequence& got, bool) {
        EXPECT_EQ(got.ids, sums.greedy(asked.prompt, static_cast<int64_t>(got.ids.size())));
      });
}

TEST(BatchGenerator, MakesRoomForMorePositions) {
  const Sums sums;
  BatchGenerator batch = must(BatchGenerator::create(sums.model(), 3, {.threads = 1}));
  const Ids long_prompt(1500, 7);
  (void)must(batch.add({1, 2}, {.max_tokens = 2200}));
  for (int i = 0; i < 900; ++i) (void)must(batch.step());
  (void)must(batch.add(long_prompt, {.max_tokens = 20}));
  int seen = 0;
  while (batch.running() > 0) {
    (void)must(batch.step());
    for (const EndedSequence& ended : batch.ended()) {
      ++seen;
      if (ended.id == 1) {
        EXPECT_EQ(ended.sequence.ids, sums.greedy(long_prompt, 20));
      } else {
        const Ids wanted = sums.greedy({1, 2}, 2200);
        EXPECT_EQ(ended.sequence.ids, wanted);
      }
    }
  }
  EXPECT_EQ(seen, 2);
}

// The second sequence goes on when the first has ended at the last position of the model.
TEST(BatchGenerator, HasNoMoreColumnsThanItsSequencesNeed) {
  Whole whole;
  BatchGenerator batch = must(BatchGenerator::create(decoder({.table = true}), 2, {.threads = 1}));
  const Prompts prompts = {random_ids(100, 1), random_ids(60, 2)};
  (void)must(batch.add(prompts[0], {.max_tokens = 100}));
  for (int i = 0; i < 50; ++i) (void)must(batch.step());
  (void)must(batch.add(prompts[1], {.max_tokens = 100}));
  size_t seen = 0;
  while (batch.running() > 0) {
    (void)must(batch.step());
    for (const EndedSequence& ended : batch.ended()) {
      EXPECT_EQ(ended.sequence.ids, whole.greedy(prompts[static_cast<size_t>(ended.id)], 100));
      ++seen;
    }
  }
  EXPECT_EQ(seen, 2u);
}

TEST(BatchGenerator, SequencesHaveTheirOwnOptions) {
  Generator alone = must(Generator::create(decoder(), {.threads = 1}));
  BatchGenerator batch = must(BatchGenerator::create(decoder(), 4, {.threads = 1}));
  const Ids prompt = random_ids(6, 9);
  std::vector<GenerateOptions> all = {
      {.max_tokens = 30},
      {.max_tokens = 25, .sampler = {.temperature = 1.5f, .seed = 4}, .log_probabilities = true},
      {.max_tokens = 20, .sampler = {.temperature = 0.7f, .top_k = 9, .seed = 5}},
      {.max_tokens = 40, .sampler = {.repetition_penalty = 1.3f}}};
  all[0].stop_ids = {must(alone.generate({prompt}, {.max_tokens = 9})).sequences[0].ids[8]};
  int calls = 0;
  all[3].on_token = [&](const GeneratedToken& token) {
    EXPECT_EQ(token.prompt, 3);
    return ++calls < 7;
  };
  std::vector<GeneratedSequence> wanted;
  for (GenerateOptions options : all) {
    if (options.on_token)
      options.on_token = [n = 0](const GeneratedToken&) mutable { return ++n < 7; };
    wanted.push_back(must(alone.generate({prompt}, options)).sequences[0]);
  }
  for (const GenerateOptions& options : all) {
    (void)must(batch.add(prompt, options));
    (void)must(batch.step());
    for (const EndedSequence& ended : batch.ended()) ADD_FAILURE() << ended.id;
  }
  int seen = 0;
  while (batch.running() > 0) {
    (void)must(batch.step());
    for (const EndedSequence& ended : batch.ended()) {
      const GeneratedSequence& expected = wanted[static_cast<size_t>(ended.id)];
      EXPECT_EQ(ended.sequence.ids, expected.ids) << ended.id;
      EXPECT_EQ(ended.sequence.finish, expected.finish) << ended.id;
      ASSERT_EQ(ended.sequence.log_probabilities.size(), expected.log_probabilities.size());
      for (size_t i = 0; i < expected.log_probabilities.size(); ++i)
        EXPECT_NEAR(ended.sequence.log_probabilities[i], expected.log_probabilities[i], 1e-4);
      ++seen;
    }
  }
  EXPECT_EQ(seen, 4);
}

TEST(BatchGenerator, FailuresConcernOneSequence) {
  Whole whole;
  BatchGenerator batch = must(BatchGenerator::create(decoder(), 2, {.threads = 1}));
  const Ids prompt = random_ids(5, 1);
  (void)must(batch.add(prompt, {.max_tokens = 12}));
  GenerateOptions fails = {.max_tokens = 12};
  fails.on_logits = [](int64_t, std::span<const int32_t> history, std::span<float>) {
    return history.size() < 4 ? Status() : not_found("no grammar");
  };
  (void)must(batch.add({3, 4}, fails));
  expect_refusal(batch.add(prompt).status(), Code::busy, "all 2 rows are taken");
  std::stop_source source;
  source.request_stop();
  expect_refusal(batch.step(source.get_token()).status(), Code::cancelled, "");
  int seen = 0;
  while (batch.running() > 0) {
    (void)must(batch.step());
    for (const EndedSequence& ended : batch.ended()) {
      ++seen;
      if (ended.id == 0) {
        EXPECT_EQ(ended.sequence.ids, whole.greedy(prompt, 12));
      } else {
        expect_refusal(ended.status, Code::not_found, "no grammar");
        EXPECT_EQ(ended.sequence.ids, whole.greedy({3, 4}, 2));
        // While the other runs: refused and cancelled prompts change nothing.
        expect_refusal(batch.add({}).status(), Code::invalid_argument, "is empty");
        expect_refusal(batch.add({kWords}).status(), Code::invalid_argument, "the id 61");
        expect_refusal(batch.add({1}, {.max_tokens = -1}).status(), Code::invalid_argument, "-1");
        expect_refusal(batch.add({1}, {.sampler = {.top_p = 0}}).status(), Code::invalid_argument,
                       "top_p");
        expect_refusal(batch.add({1, 2, 3}, {}, source.get_token()).status(), Code::cancelled, "");
      }
    }
  }
  EXPECT_EQ(seen, 2);
  EXPECT_TRUE(must(batch.step()).empty());
  expect_refusal(batch.end(0), Code::not_found, "no running sequence 0");
  expect_refusal(batch.end(-1), Code::not_found, "no running sequence -1");
}

TEST(BatchGenerator, RefusesModelsWhoseSequencesCannotJoin) {
  const auto refuses = [](const Form& form, std::string_view part) {
    expect_refusal(BatchGenerator::create(decoder(form), 2).status(), Code::unsupported, part);
  };
  refuses({.mask = false}, "lacks the input attention_mask or position_ids");
  refuses({.positions = false}, "lacks the input attention_mask or position_ids");
  refuses({.past = false}, "the session does not keep the model's past");
  refuses({.batch = Dim(1)}, "the model takes 1 prompts at a time");
  for (const int64_t rows : {0, -1, 5000})
    expect_refusal(BatchGenerator::create(decoder(), rows).status(), Code::invalid_argument,
                   "rows is ");
}

}  // namespace
}  // namespace hg
