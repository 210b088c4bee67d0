// SPDX-License-Identifier: Apache-2.0
// Speculative decoding, compared with decoding token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/batch_generator.h"
#include "hg/generator.h"
#include "lib/generate/lookup.h"
#include "tests/support/must.h"
#include "tests/support/small_decoder.h"

namespace hg {
namespace {

using namespace small_decoder;

Generator generator_of(const Form& form = {}) {
  return must(Generator::create(decoder(form), {.threads = 2}));
}

TEST(LookUp, TakesAnOccurrenceWithEnoughTokensAfterIt) {
  EXPECT_EQ(looked_up(Ids{}, 4), Ids());
  EXPECT_EQ(looked_up(Ids{1, 2, 3}, 4), Ids());
  EXPECT_EQ(looked_up(Ids{1, 1}, 0), Ids());
  EXPECT_EQ(looked_up(Ids{1, 1}, 4), Ids{1});
  EXPECT_EQ(looked_up(Ids{7, 7, 7, 7, 7, 7, 7, 7}, 4), (Ids{7, 7, 7, 7}));
  EXPECT_EQ(looked_up(Ids{7, 7, 7, 7, 7}, 4), (Ids{7, 7}));  // more follow 7, 7, 7 nowhere
  EXPECT_EQ(looked_up(Ids{1, 2, 1, 2, 1, 2, 1, 2}, 3), (Ids{1, 2, 1}));
  // The latest one with enough tokens.
  EXPECT_EQ(looked_up(Ids{9, 1, 2, 9, 3, 4, 5, 9}, 3), (Ids{3, 4, 5}));
  EXPECT_EQ(looked_up(Ids{9, 1, 2, 9, 3, 4, 5, 9}, 5), (Ids{1, 2, 9, 3, 4}));
  // More tokens that are the same come before more tokens that follow.
  EXPECT_EQ(looked_up(Ids{8, 9, 1, 2, 7, 8, 9, 3, 0, 9, 4, 4, 8, 9}, 3), (Ids{3, 0, 9}));
}

// Beside all places of a random text.
TEST(LookUp, EqualsATrialOfAllPlaces) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    Ids text(random() % 24);
    for (int32_t& id : text) id = static_cast<int32_t>(random() % 3);
    const size_t most = random() % 7;
    Ids wanted;
    for (size_t n = 3; n > 0 && wanted.empty(); --n)
      for (size_t end = n; end < text.size() && most > 0; ++end) {
        const auto at = text.begin() + static_cast<std::ptrdiff_t>(end);
        const auto count = static_cast<std::ptrdiff_t>(n);
        const auto follow = static_cast<std::ptrdiff_t>(std::min(most, text.size() - end));
        if (std::equal(at - count, at, text.end() - count) &&
            follow >= static_cast<std::ptrdiff_t>(wanted.size()))
          wanted.assign(at, at + follow);
      }
    EXPECT_EQ(looked_up(text, most), wanted) << ::testing::PrintToString(text) << ", " << most;
  }
}

TEST(LookUp, RunsHaveFewNumbersOfTokens) {
  const std::vector<int64_t> wanted = {1, 2, 3, 4, 4, 6, 6, 8, 8, 8, 8, 12, 12, 12, 12, 16};
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(rounded_run(static_cast<int64_t>(i) + 1), wanted[i]);
}

// Text that repeats a few tokens needs few runs.
TEST(Speculation, AcceptsManyTokensOfRepeatedText) {
  Generator plain = generator_of(), looking = generator_of();
  for (const size_t period : {1u, 2u, 5u}) {
    SCOPED_TRACE(period);
    GenerateOptions options = {.max_tokens = 64};
    options.on_logits = [&](int64_t, std::span<const int32_t> history, std::span<float> logits) {
      logits[3 + history.size() % period] += 1000;
      return Status();
    };
    const Generation wanted = must(plain.generate({{1, 2}}, options));
    options.lookup = 7;
    ASSERT_TRUE(looking.begin(Prompts{{1, 2}}, options).ok());
    int runs = 0;
    while (!must(looking.step()).empty()) ++runs;
    EXPECT_EQ(looking.generation().sequences[0].ids, wanted.sequences[0].ids);
    EXPECT_LE(runs, 16);
    EXPECT_EQ(looking.generation().accepted, looking.generation().proposed);
    EXPECT_EQ(runs + looking.generation().accepted, 64);
  }
}

// Proposals become fewer where the model chooses other tokens.
TEST(Speculation, ProposesFewTokensThatAreRejected) {
  Generator looking = generator_of();
  GenerateOptions options = {.max_tokens = 40, .lookup = 7};
  std::mt19937 random(5);
  options.on_logits = [&](int64_t, std::span<const int32_t>, std::span<float> logits) {
    logits[random() % 16] += 1000;
    return Status();
  };
  const Generation answer = must(looking.generate({random_ids(120, 1)}, options));
  EXPECT_GT(answer.proposed, 20);
  EXPECT_LT(answer.proposed, 80);  // about one per run
}

// Greedy and sampled, with stops and callbacks: the tokens are those without proposals.
TEST(Speculation, GivesTheSameTokens) {
  std::mt19937 random(8);
  Generator plain = generator_of(), looking = generator_of(), drafted = generator_of();
  Generator same = generator_of(), other = generator_of({.positions = false});
  int64_t accepted = 0, rejected = 0;
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    Ids prompt = random_ids(1 + random() % 20, random());
    const Ids again = prompt;
    prompt.insert(prompt.end(), again.begin(), again.end());
    GenerateOptions options = {.max_tokens = static_cast<int64_t>(random() % 40),
                               .log_probabilities = i % 3 == 0,
                               .reuse_past = i % 4 == 3};
    if (i % 2 == 1)
      options.sampler = {.temperature = 0.7f, .top_k = 9, .repetition_penalty = 1.1f, .seed = 7};
    if (i % 5 == 4) options.stop_ids = random_ids(4, random());
    if (i % 7 == 6)
      options.on_logits = [](int64_t, std::span<const int32_t> history, std::span<float> logits) {
        logits[history.size() % logits.size()] += 20;
        return Status();
      };
    const Generation wanted = must(plain.generate({prompt}, options));
    const auto expect_same = [&](Generator& generator) {
      const Generation got = must(generator.generate({prompt}, options));
      EXPECT_EQ(got.sequences[0].ids, wanted.sequences[0].ids);
      EXPECT_EQ(got.sequences[0].finish, wanted.sequences[0].finish);
      ASSERT_EQ(got.sequences[0].log_probabilities.size(),
                wanted.sequences[0].log_probabilities.size());
      for (size_t k = 0; k < got.sequences[0].log_probabilities.size(); ++k)
        EXPECT_NEAR(got.sequences[0].log_probabilities[k], wanted.sequences[0].log_probabilities[k],
                    1e-4);
      EXPECT_LE(got.accepted, got.proposed);
      accepted += got.accepted;
      rejected += got.proposed - got.accepted;
      // What was rejected has left the past.
      Ids text = prompt;
      text.insert(text.end(), got.sequences[0].ids.begin(), got.sequences[0].ids.end());
      const Ids read = must(generator.ids());
      ASSERT_LE(read.size(), text.size());
      EXPECT_TRUE(std::equal(read.begin(), read.end(), text.begin()));
    };
    options.lookup = 1 + static_cast<int64_t>(random() % 8);
    expect_same(looking);
    options.lookup = 0;
    options.draft_tokens = 1 + static_cast<int64_t>(random() % 8);
    options.draft = i % 2 == 0 ? &same : &other;
    expect_same(drafted);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(rejected, 100);
  Generator fork = must(drafted.fork());
  const Generation answer = must(fork.generate({{1, 2, 1, 2}}, {.max_tokens = 9, .lookup = 3}));
  EXPECT_EQ(answer.sequences[0].ids, Whole().greedy({1, 2, 1, 2}, 9));
}

// Columns that lag behind another row are dropped before the table of positions ends, also while
// nothing is proposed.
TEST(Speculation, StaysInATableOfPositions) {
  const Form form = {.table = true};
  Generator plain = generator_of(form), looking = generator_of(form);
  GenerateOptions options = {.max_tokens = kPositions - 60 + 1};
  options.on_logits = [](int64_t prompt, std::span<const int32_t> history,
                         std::span<float> logits) {
    const size_t size = history.size();
    const size_t mixed = (size * 2654435761u >> 7) % 2;  // is hard to guess
    logits[prompt == 0 ? 0 : size < 142 ? mixed : 2 + (size - 142)] += 1000;
    return Status();
  };
  const Prompts prompts = {Ids(3, 0), Ids(60, 1)};
  const Generation wanted = must(plain.generate(prompts, options));
  options.lookup = 7;
  const Generation got = must(looking.generate(prompts, options));
  for (size_t k = 0; k < prompts.size(); ++k)
    EXPECT_EQ(got.sequences[k].ids, wanted.sequences[k].ids) << k;
}

// The rows of the windows become full, and columns leave them.
TEST(Speculation, GivesTheSameTokensBeyondWindows) {
  const Form form = {.window = 5, .all_slide = false, .position_count = 1000};
  Generator plain = generator_of(form), looking = generator_of(form), draft = generator_of(form);
  GenerateOptions options = {.max_tokens = 700};
  options.on_logits = [](int64_t prompt, std::span<const int32_t> history,
                         std::span<float> logits) {
    logits[history.size() % static_cast<size_t>(2 + prompt)] += 4;
    return Status();
  };
  const Prompts prompts = {random_ids(30, 1), random_ids(3, 2), random_ids(11, 3)};
  const Generation wanted = must(plain.generate(prompts, options));
  options.lookup = 7;
  const Generation got = must(looking.generate(prompts, options));
  for (size_t k = 0; k < prompts.size(); ++k)
    EXPECT_EQ(got.sequences[k].ids, wanted.sequences[k].ids) << k;
  EXPECT_GT(got.accepted, 100);
  EXPECT_GT(got.proposed - got.accepted, 100);
  options.lookup = 0;
  options.draft = &draft;  // does not know on_logits
  const Generation drafted = must(looking.generate(prompts, options));
  for (size_t k = 0; k < prompts.size(); ++k)
    EXPECT_EQ(drafted.sequences[k].ids, wanted.sequences[k].ids) << k;
  EXPECT_GT(drafted.accepted, 100);
  EXPECT_GT(drafted.proposed - drafted.accepted, 100);
}

// Rows accept different numbers of tokens, end at different times, and have windows or tables.
TEST(Speculation, GivesTheSameTokensInBatches) {
  std::mt19937 random(11);
  const std::vector<Form> forms = {
      {}, {.table = true}, {.window = 7}, {.window = 9, .all_slide = false}, {.plain = true}};
  int64_t accepted[2] = {}, rejected[2] = {};  // of look-ups, and of drafts
  for (size_t form = 0; form < forms.size(); ++form) {
    Generator plain = generator_of(forms[form]), looking = generator_of(forms[form]);
    Generator drafted = generator_of(forms[form]), same = generator_of(forms[form]);
    Generator other = generator_of(forms[(form + 1) % forms.size()]);
    for (int i = 0; i < 16; ++i) {
      SCOPED_TRACE(str_cat("form ", uint64_t{form}, ", call ", i));
      Prompts prompts(1 + random() % 5);
      for (Ids& prompt : prompts) {
        prompt = random_ids(1 + random() % 20, random());
        const Ids again = prompt;
        if (random() % 3 > 0) prompt.insert(prompt.end(), again.begin(), again.end());
      }
      GenerateOptions options = {.max_tokens = 1 + static_cast<int64_t>(random() % 60)};
      if (i % 4 == 1) options.max_tokens = kPositions - 40;
      if (i % 2 == 1) options.sampler = {.temperature = 0.7f, .top_k = 9, .seed = 7};
      if (i % 3 == 2) options.stop_ids = random_ids(3, random());
      if (i % 5 == 4) options.num_return_sequences = 2;
      const uint32_t period = 1 + random() % 9;
      if (i % 4 == 3)
        options.on_logits = [period](int64_t prompt, std::span<const int32_t> history,
                                     std::span<float> logits) {
          logits[(history.size() + static_cast<size_t>(prompt)) % period] += 15;
          return Status();
        };
      const Generation wanted = must(plain.generate(prompts, options));
      const auto expect_same = [&](Generator& generator) {
        const Generation got = must(generator.generate(prompts, options));
        ASSERT_EQ(got.sequences.size(), wanted.sequences.size());
        for (size_t k = 0; k < got.sequences.size(); ++k) {
          EXPECT_EQ(got.sequences[k].ids, wanted.sequences[k].ids) << k;
          EXPECT_EQ(got.sequences[k].finish, wanted.sequences[k].finish) << k;
        }
        accepted[options.draft != nullptr] += got.accepted;
        rejected[options.draft != nullptr] += got.proposed - got.accepted;
        // The same model proposes what the model chooses.
        if (options.draft == &same && !options.on_logits && options.stop_ids.empty()) {
          EXPECT_GE(got.accepted * 100, got.proposed * 99);
        }
      };
      options.lookup = 1 + static_cast<int64_t>(random() % 8);
      expect_same(looking);
      options.lookup = 0;
      options.draft = i % 3 == 0 ? &other : &same;
      options.draft_tokens = 1 + static_cast<int64_t>(random() % 8);
      expect_same(drafted);
    }
  }
  for (const int i : {0, 1}) {
    EXPECT_GT(accepted[i], 1000);
    EXPECT_GT(rejected[i], 1000);
  }
}

// A draft forgets what was rejected, for each row alone: only tokens that it cannot know are wrong.
TEST(Speculation, DraftsRightTokensAfterRejections) {
  for (const Form& form : {Form{}, Form{.window = 7}, Form{.table = true}}) {
    Generator plain = generator_of(form), drafted = generator_of(form), draft = generator_of(form);
    GenerateOptions options = {.max_tokens = 80};
    options.on_logits = [](int64_t prompt, std::span<const int32_t> history,
                           std::span<float> logits) {
      if ((history.size() * (7 + static_cast<size_t>(prompt))) % 11 == 0)
        logits[history.size() % 8] += 1000;
      return Status();
    };
    const Prompts prompts = {random_ids(30, 1), random_ids(3, 2), random_ids(11, 3)};
    const Generation wanted = must(plain.generate(prompts, options));
    options.draft = &draft;
    options.draft_tokens = 4;
    const Generation got = must(drafted.generate(prompts, options));
    for (size_t k = 0; k < prompts.size(); ++k)
      EXPECT_EQ(got.sequences[k].ids, wanted.sequences[k].ids) << k;
    const int64_t unknown = 3 * 80 / 11 + 3;
    EXPECT_GT(got.proposed - got.accepted, unknown);
    EXPECT_LE(got.proposed - got.accepted, unknown * options.draft_tokens);
  }
}

// A draft that is used for other texts in between, and by sequences that end and begin again.
TEST(Speculation, DraftsForOtherTextsInBetween) {
  Generator plain = generator_of(), drafted = generator_of(), draft = generator_of();
  std::mt19937 random(4);
  GenerateOptions options = {.max_tokens = 12};
  for (int i = 0; i < 12; ++i) {
    SCOPED_TRACE(i);
    Prompts prompts = {random_ids(9, 1), random_ids(1 + random() % 30, 2), random_ids(20, 3)};
    prompts.resize(1 + random() % 3);
    prompts.front().resize(1 + random() % 9);
    options.draft = nullptr;
    const Generation wanted = must(plain.generate(prompts, options));
    options.draft = &draft;
    ASSERT_TRUE(drafted.begin(prompts, options).ok());
    for (int step = 0; !must(drafted.step()).empty(); ++step)
      if (i % 3 == 1 && step == 1) {
        const std::vector<Prompts> others = {{{1, 2}}, Prompts(prompts.size(), Ids{4, 5})};
        ASSERT_TRUE(draft.generate(others[random() % 2], {.max_tokens = 3}).ok());
      }
    for (size_t k = 0; k < prompts.size(); ++k)
      EXPECT_EQ(drafted.generation().sequences[k].ids, wanted.sequences[k].ids) << k;
    EXPECT_EQ(drafted.generation().accepted, drafted.generation().proposed);
  }
}

// Sequences of a running batch have options of their own: look-ups, two drafts, or none.
TEST(Speculation, GivesTheSameTokensInRunningBatches) {
  std::mt19937 random(21);
  int64_t accepted = 0, rejected = 0;
  for (const Form& form : {Form{}, Form{.table = true}, Form{.window = 9, .all_slide = false}}) {
    Generator plain = generator_of(form), same = generator_of(form), other = generator_of(form);
    BatchGenerator batch = must(BatchGenerator::create(decoder(form), 5, {.threads = 2}));
    std::map<int64_t, GeneratedSequence> wanted;
    int added = 0;
    while (added < 40 || batch.running() > 0) {
      while (added < 40 && batch.running() < batch.rows() && random() % 3 > 0) {
        Ids prompt = random_ids(1 + random() % 20, random());
        const Ids again = prompt;
        if (random() % 3 > 0) prompt.insert(prompt.end(), again.begin(), again.end());
        GenerateOptions options = {.max_tokens = 1 + static_cast<int64_t>(random() % 40)};
        if (added % 2 == 1) options.sampler = {.temperature = 0.7f, .top_k = 9, .seed = random()};
        if (added % 3 == 2) options.stop_ids = random_ids(3, random());
        const uint32_t period = 1 + random() % 9;
        if (added % 4 == 3)
          options.on_logits = [period](int64_t, std::span<const int32_t> history,
                                       std::span<float> logits) {
            logits[history.size() % period] += 15;
            return Status();
          };
        const GeneratedSequence alone = must(plain.generate({prompt}, options)).sequences[0];
        const uint32_t kind = random() % 4;
        if (kind == 0) options.lookup = 1 + static_cast<int64_t>(random() % 8);
        if (kind == 1 || kind == 2) options.draft = kind == 1 ? &same : &other;
        options.draft_tokens = 1 + static_cast<int64_t>(random() % 6);
        wanted[must(batch.add(prompt, options))] = alone;
        ++added;
      }
      ASSERT_TRUE(batch.step().ok());
      for (const EndedSequence& ended : batch.ended()) {
        EXPECT_TRUE(ended.status.ok());
        EXPECT_EQ(ended.sequence.ids, wanted.at(ended.id).ids) << ended.id;
        EXPECT_EQ(ended.sequence.finish, wanted.at(ended.id).finish) << ended.id;
        accepted += ended.accepted;
        rejected += ended.proposed - ended.accepted;
        wanted.erase(ended.id);
      }
    }
    EXPECT_TRUE(wanted.empty());
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(rejected, 100);
}

TEST(Speculation, RunningBatchesRefuseOtherModels) {
  BatchGenerator batch = must(BatchGenerator::create(decoder({}), 2, {.threads = 1}));
  Generator draft = generator_of(), unmasked = generator_of({.positions = false});
  const auto refuses = [&](GenerateOptions options, Code code, std::string_view part) {
    expect_refusal(batch.add({1}, std::move(options)).status(), code, part);
    EXPECT_EQ(batch.running(), 0);
  };
  refuses({.lookup = -1}, Code::invalid_argument, "lookup is -1");
  refuses({.lookup = 2, .draft = &draft}, Code::invalid_argument, "not by both");
  refuses({.draft = &unmasked}, Code::unsupported,
          "cannot draft for several sequences: the model lacks the input");
  BatchGenerator last =
      must(BatchGenerator::create(decoder({.last_only = true}), 2, {.threads = 1}));
  expect_refusal(last.add({1}, {.lookup = 2}).status(), Code::unsupported,
                 "'logits' is f32[b, 1, 61]");
}

TEST(Speculation, RefusesOtherModels) {
  Generator generator = generator_of(), draft = generator_of();
  const auto refuses = [&](Generator& with, const Prompts& prompts, GenerateOptions options,
                           Code code, std::string_view part) {
    expect_refusal(with.generate(prompts, options).status(), code, part);
  };
  refuses(generator, {{1}}, {.lookup = -1}, Code::invalid_argument, "lookup is -1");
  refuses(generator, {{1}}, {.draft = &draft, .draft_tokens = 0}, Code::invalid_argument,
          "draft_tokens 0");
  refuses(generator, {{1}}, {.lookup = 2, .draft = &draft}, Code::invalid_argument, "not by both");
  refuses(generator, {{1}}, {.num_beams = 2, .lookup = 2}, Code::invalid_argument,
          "does not speculate; num_beams is 2");
  Generator unmasked = generator_of({.positions = false});
  refuses(unmasked, {{1}, {2}}, {.lookup = 2}, Code::unsupported,
          "cannot speculate with several sequences: the model lacks the input");
  refuses(generator, {{1}, {2}}, {.draft = &unmasked}, Code::unsupported,
          "cannot draft for several sequences: the model lacks the input");
  refuses(generator, {{1}}, {.draft = &generator}, Code::invalid_argument, "the generator itself");
  for (const Form& form : {Form{.past = false}, Form{.mask = false}}) {
    Generator other = generator_of(form);
    refuses(other, {{1}}, {.lookup = 2}, Code::unsupported, "needs a past that grows");
  }
  Generator last = generator_of({.last_only = true});
  refuses(last, {{1}}, {.lookup = 2}, Code::unsupported, "'logits' is f32[b, 1, 61]");
  Graph few;
  few.output("logits", embedding(few.parameter("words", f32, {13, 13}),
                                 few.input("input_ids", i64, {"b", "t"})));
  Generator words = must(Generator::create(must(Model::from_graph(std::move(few)))));
  refuses(generator, {{1}}, {.draft = &words}, Code::invalid_argument,
          "the draft has 13 tokens, the model 61");
}

}  // namespace
}  // namespace hg
