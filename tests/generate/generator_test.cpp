// SPDX-License-Identifier: Apache-2.0
// Generates with small decoders with random weights, and compares the results with runs over the
// whole text without a past.
#include "hg/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/words.h"
#include "tests/support/must.h"
#include "tests/support/small_decoder.h"

namespace hg {
namespace {

using namespace small_decoder;

Generator generator_of(const Form& form = {}, int threads = 2) {
  SessionOptions options;
  options.threads = threads;
  return must(Generator::create(decoder(form), options));
}

TEST(Generator, EqualsRunsOfTheWholeText) {
  const std::vector<Prompts> all = {
      {random_ids(1, 1)},
      {random_ids(7, 2)},
      {random_ids(40, 3)},
      {random_ids(7, 4), random_ids(1, 5), random_ids(40, 6)},
  };
  Whole whole;
  std::vector<std::vector<Ids>> wanted;  // per call and prompt
  for (const Prompts& prompts : all)
    for (wanted.emplace_back(); const Ids& prompt : prompts)
      wanted.back().push_back(whole.greedy(prompt, 70));
  for (const int threads : {1, 2, 4}) {
    Generator generator = generator_of({}, threads);
    for (size_t call = 0; call < all.size(); ++call) {
      const Generation answer = must(generator.generate(all[call], {.max_tokens = 70}));
      ASSERT_EQ(answer.sequences.size(), all[call].size());
      for (size_t i = 0; i < all[call].size(); ++i) {
        EXPECT_EQ(answer.sequences[i].ids, wanted[call][i]) << "call " << call << ", prompt " << i;
        EXPECT_EQ(answer.sequences[i].finish, Finish::length);
      }
      EXPECT_GT(answer.prompt_ms, 0);
      EXPECT_GT(answer.decode_ms, 0);
    }
  }
}

TEST(Generator, TakesFormsOfDecoders) {
  Whole whole;
  const Ids prompt = random_ids(5, 9), longer = random_ids(9, 10);
  const Ids wanted = whole.greedy(prompt, 8), wanted_longer = whole.greedy(longer, 8);
  const std::vector<Form> forms = {
      {.past = false},
      {.past = false, .mask = false, .positions = false},
      {.mask = false},
      {.positions = false},
      {.positions = false, .columns = true},
      {.mask = false, .positions = false},
      {.integers = i32},
      {.last_only = true},
      {.past = false, .last_only = true},
      {.present_name = "present_key_values."},
      {.past_name = "past_", .present_name = "present_"},
      {.ids_name = "tokens", .logits_name = "scores"},
      {.batch = 1},
  };
  for (size_t i = 0; i < forms.size(); ++i) {
    const Form& form = forms[i];
    Generator generator = generator_of(form);
    EXPECT_EQ(generator.vocabulary(), kWords);
    EXPECT_EQ(generator.position_limit(), form.positions ? kPositions : 0);
    EXPECT_EQ(must(generator.generate({prompt}, {.max_tokens = 8})).sequences[0].ids, wanted)
        << "form " << i;
    if (form.batch.is_constant()) {
      expect_refusal(generator.generate({prompt, prompt}).status(), Code::invalid_argument,
                     "the model takes 1 prompt at a time, got 2");
      continue;
    }
    const Result<Generation> both = generator.generate({prompt, longer}, {.max_tokens = 8});
    if (!form.mask || !form.positions) {
      expect_refusal(both.status(), Code::invalid_argument,
                     "prompts have 5 to 9 ids; different lengths need the inputs attention_mask");
      continue;
    }
    ASSERT_TRUE(both.ok()) << both.status().message();
    EXPECT_EQ(both->sequences[0].ids, wanted) << "form " << i;
    EXPECT_EQ(both->sequences[1].ids, wanted_longer) << "form " << i;
  }
  for (const DType halves : {f16, bf16})
    EXPECT_EQ(must(generator_of({.floats = halves}).generate({prompt}, {.max_tokens = 1}))
                  .sequences[0]
                  .ids[0],
              wanted[0]);
}

TEST(Generator, StopsAtIdsAndCallbacks) {
  Whole whole;
  const Prompts prompts = {random_ids(4, 21), random_ids(6, 22)};
  const Ids first = whole.greedy(prompts[0], 20), second = whole.greedy(prompts[1], 20);
  Generator generator = generator_of();
  const Generation one =
      must(generator.generate(prompts, {.max_tokens = 20, .stop_ids = {first[5]}}));
  const auto stopped = [&](const Ids& ids) {
    return Ids(ids.begin(), std::find(ids.begin(), ids.end(), first[5]));
  };
  EXPECT_EQ(one.sequences[0].ids, stopped(first));
  EXPECT_EQ(one.sequences[0].finish, Finish::stop);
  EXPECT_EQ(one.sequences[1].ids, stopped(second));

  std::vector<Ids> seen(2);
  GenerateOptions options = {.max_tokens = 20};
  options.on_token = [&](const GeneratedToken& token) {
    Ids& ids = seen[static_cast<size_t>(token.prompt)];
    ids.push_back(token.id);
    return token.prompt == 1 || ids.size() < 3;
  };
  const Generation two = must(generator.generate(prompts, options));
  EXPECT_EQ(two.sequences[0].ids, Ids(first.begin(), first.begin() + 3));
  EXPECT_EQ(two.sequences[0].finish, Finish::stop);
  EXPECT_EQ(to_string(two.sequences[0].finish), "stop");
  EXPECT_EQ(two.sequences[1].ids, second);
  EXPECT_EQ(to_string(two.sequences[1].finish), "length");
  EXPECT_EQ(seen[0], two.sequences[0].ids);
  EXPECT_EQ(seen[1], second);

  const Generation none = must(generator.generate(prompts, {.max_tokens = 0}));
  ASSERT_EQ(none.sequences.size(), 2u);
  EXPECT_TRUE(none.sequences[0].ids.empty());
  EXPECT_EQ(none.prompt_ms, 0);

  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(generator.generate(prompts, {}, source.get_token()).status().code(), Code::cancelled);
  EXPECT_EQ(must(generator.generate(prompts, {.max_tokens = 20})).sequences[1].ids, second);
}

TEST(Generator, StepsGiveTheSameTokens) {
  Whole whole;
  const Prompts prompts = {random_ids(4, 31), random_ids(6, 32)};
  Generator generator = generator_of();
  expect_refusal(generator.step().status(), Code::invalid_argument, "begin()");
  ASSERT_TRUE(generator.begin(prompts, {.max_tokens = 9}).ok());
  std::vector<Ids> seen(2);
  for (;;) {
    const std::span<const GeneratedToken> tokens = must(generator.step());
    if (tokens.empty()) break;
    for (const GeneratedToken& token : tokens)
      seen[static_cast<size_t>(token.prompt)].push_back(token.id);
  }
  EXPECT_TRUE(must(generator.step()).empty());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(seen[i], whole.greedy(prompts[i], 9));
    EXPECT_EQ(generator.generation().sequences[i].ids, seen[i]);
  }
  ASSERT_TRUE(generator.begin(prompts, {.max_tokens = 9}).ok());
  EXPECT_EQ(must(generator.step()).size(), 2u);
  ASSERT_TRUE(generator.end(0).ok());
  const std::span<const GeneratedToken> tokens = must(generator.step());
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens[0].prompt, 1);
  EXPECT_EQ(generator.generation().sequences[0].finish, Finish::stop);
  EXPECT_EQ(generator.generation().sequences[0].ids.size(), 1u);
  expect_refusal(generator.end(2), Code::invalid_argument, "there is no sequence 2 among 2");

  ASSERT_TRUE(generator.begin(prompts).ok());
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(generator.step(source.get_token()).status().code(), Code::cancelled);
  expect_refusal(generator.step().status(), Code::invalid_argument, "begin()");
}

TEST(Generator, SamplesTheSameForEveryThreadCount) {
  const Prompts prompts = {random_ids(4, 41), random_ids(4, 41), random_ids(11, 42)};
  GenerateOptions options = {.max_tokens = 40, .log_probabilities = true};
  options.sampler = {.temperature = 0.9f, .top_k = 20, .top_p = 0.95f, .seed = 5};
  const Generation one = must(generator_of({}, 1).generate(prompts, options));
  for (const int threads : {2, 3, 4}) {
    const Generation more = must(generator_of({}, threads).generate(prompts, options));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(one.sequences[i].ids, more.sequences[i].ids);
      EXPECT_EQ(one.sequences[i].log_probabilities, more.sequences[i].log_probabilities);
    }
  }
  EXPECT_NE(one.sequences[0].ids, one.sequences[1].ids);  // equal prompts draw different numbers
  options.sampler.seed = 6;
  EXPECT_NE(must(generator_of().generate(prompts, options)).sequences[0].ids, one.sequences[0].ids);
  // Probabilities are computed from the model's logits.
  Whole whole;
  Ids text = prompts[2];
  for (size_t i = 0; i < 40; ++i) {
    const std::vector<float> logits = whole.logits(text);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    const int32_t id = one.sequences[2].ids[i];
    EXPECT_NEAR(one.sequences[2].log_probabilities[i],
                logits[static_cast<size_t>(id)] - std::log(sum), 1e-4);
    text.push_back(id);
  }
}

TEST(Generator, LogitsMayBeChanged) {
  const Prompts prompts = {random_ids(4, 51)};
  Generator generator = generator_of();
  GenerateOptions options = {.max_tokens = 5};
  options.on_logits = [&](int64_t prompt, std::span<const int32_t> history,
                          std::span<float> logits) -> Status {
    EXPECT_EQ(prompt, 0);
    EXPECT_EQ(logits.size(), size_t{kWords});
    const auto only = history.size() % kWords;
    for (size_t i = 0; i < logits.size(); ++i)
      if (i != only) logits[i] = -std::numeric_limits<float>::infinity();
    return {};
  };
  EXPECT_EQ(must(generator.generate(prompts, options)).sequences[0].ids, (Ids{4, 5, 6, 7, 8}));
  options.on_logits = [](int64_t, std::span<const int32_t>, std::span<float> logits) -> Status {
    logits[3] = NAN;
    return {};
  };
  expect_refusal(generator.generate(prompts, options).status(), Code::invalid_argument,
                 "the logit of token 3 of 61 is nan");
  options.on_logits = [](int64_t, std::span<const int32_t>, std::span<float>) {
    return not_found("no grammar");
  };
  expect_refusal(generator.generate(prompts, options).status(), Code::not_found, "no grammar");
}

TEST(Generator, RefusesBeforeAnyRun) {
  Generator generator = generator_of();
  const auto refuses = [&](const Prompts& prompts, const GenerateOptions& options,
                           std::string_view part) {
    expect_refusal(generator.generate(prompts, options).status(), Code::invalid_argument, part);
  };
  refuses({}, {}, "there are no prompts");
  refuses({{1}, {}}, {}, "prompt 1 is empty");
  refuses({{1, kWords}}, {}, "prompt 0 has the id 61, but the vocabulary has 61 tokens");
  refuses({{-1}}, {}, "the id -1");
  refuses({{1}}, {.max_tokens = -1}, "max_tokens is -1");
  refuses({{1}}, {.stop_ids = {3, -7}}, "stop_ids has the id -7");
  refuses({{1}}, {.stop_ids = {kWords}},
          "stop_ids has the id 61, but the vocabulary has 61 tokens");
  refuses({{1, 2}}, {.max_tokens = 200},
          "prompt 0 of length 2 and max_tokens 200 exceed the model's 200 positions");
  refuses({{1}}, {.max_tokens = std::numeric_limits<int64_t>::max()}, "200 positions");
  refuses({Ids(201, 1)}, {.max_tokens = 0}, "200 positions");
  refuses({{1}}, {.sampler = {.temperature = -1}}, "temperature is -1");
  refuses({{1}}, {.sampler = {.temperature = INFINITY}},
          "temperature is inf, expected a finite number of at least 0");
  refuses({{1}}, {.num_beams = 2, .length_penalty = NAN}, "nan, expected a finite number");
  refuses({{1}}, {.sampler = {.top_k = -1}}, "top_k is -1");
  refuses({{1}}, {.sampler = {.top_p = 0}}, "top_p is 0");
  refuses({{1}}, {.sampler = {.min_p = 1.5f}}, "min_p is 1.5");
  refuses({{1}}, {.sampler = {.repetition_penalty = 0}}, "repetition_penalty is 0");
  EXPECT_EQ(must(generator.generate({{1, 2}}, {.max_tokens = 199})).sequences[0].ids.size(), 199u);
}

TEST(Generator, KeepsToTheGuardOfItsMask) {
  Graph graph = decoder().graph();
  const Dim length = graph.value_info(graph.inputs()[1]).type.shape[1];
  graph.guard(length, Relation::le, 12, "a limit");
  const Model model = must(Model::from_graph(std::move(graph)));
  Generator generator = must(Generator::create(model));
  EXPECT_EQ(generator.position_limit(), 12);
  EXPECT_EQ(must(generator.generate({{1, 2, 3}}, {.max_tokens = 10})).sequences[0].ids,
            must(generator_of().generate({{1, 2, 3}}, {.max_tokens = 10})).sequences[0].ids);
  expect_refusal(generator.generate({{1, 2, 3}}, {.max_tokens = 11}).status(),
                 Code::invalid_argument,
                 "prompt 0 of length 3 and max_tokens 11 exceed the model's 12 positions");
}

TEST(Generator, TakesAnEntryOfAModel) {
  const Model alone = decoder();
  Model model;
  ASSERT_TRUE(model.add_entry("decode", alone.graph()).ok());
  ASSERT_TRUE(model.add_entry("other", alone.graph()).ok());
  Generator generator = must(Generator::create(model, {.entry = "decode"}));
  EXPECT_EQ(generator.position_limit(), kPositions);
  const Prompts prompts = {{1, 2, 3}};
  EXPECT_EQ(must(generator.generate(prompts, {.max_tokens = 8})).sequences[0].ids,
            must(generator_of().generate(prompts, {.max_tokens = 8})).sequences[0].ids);
  expect_refusal(Generator::create(model).status(), Code::unsupported, "entries decode, other");
}

// Adds up the embeddings of all tokens. All numbers are small integers, so that sums are exact.
struct Sums {
  static constexpr int64_t kCount = 13, kSize = 5;
  std::vector<float> words, head;
  Sums() {
    std::mt19937 random(5);
    for (std::vector<float>* const all : {&words, &head})
      for (int64_t i = 0; i < kCount * kSize; ++i)
        all->push_back(static_cast<float>(static_cast<int>(random() % 7) - 3));
  }
  // The past holds the embeddings of all tokens, or only their sum.
  Model model(bool grows) const {
    Graph g;
    const Dim b("b"), t("t"), p("p");
    const auto table = [&](const char* name, const std::vector<float>& values) {
      return g.parameter(name, must(TensorData::copy_of(view(values, {kCount, kSize}))));
    };
    const Value x = embedding(table("words", words), g.input("input_ids", i64, {b, t}));
    Value sums;
    if (grows) {
      const Value shown = cast(g.input("attention_mask", i64, {b, p + t}), f32);
      const Value all =
          concat({g.input("past.x", f32, {b, 1, p, kSize}), reshape(x, {b, 1, t, kSize})}, 2);
      g.output("present.x", all);
      sums = sum(all * reshape(shown, {b, 1, p + t, 1}), {2});
    } else {
      sums = g.input("past.x", f32, {b, 1, kSize}) + sum(x, {1}, true);
      g.output("present.x", sums);
    }
    g.output("logits", linear(sums, table("head", head)));
    return must(Model::from_graph(std::move(g)));
  }
  Ids greedy(Ids ids, int64_t count) const {
    std::vector<float> sums(kSize);
    size_t read = 0;
    const size_t begin = ids.size();
    while (count-- > 0) {
      for (; read < ids.size(); ++read)
        for (int64_t e = 0; e < kSize; ++e) sums[e] += words[ids[read] * kSize + e];
      std::vector<float> logits(kCount);
      for (int64_t i = 0; i < kCount; ++i)
        for (int64_t e = 0; e < kSize; ++e) logits[i] += head[i * kSize + e] * sums[e];
      ids.push_back(
          static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    return {ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end()};
  }
};

TEST(Generator, KeepsValuesOfAFixedShape) {
  const Sums sums;
  Generator generator = must(Generator::create(sums.model(false), {.threads = 1}));
  for (const Prompts& prompts : {Prompts{{1}}, Prompts{{1, 2, 3}, {4, 5, 6}}, Prompts{{7, 0}}}) {
    const Generation answer = must(generator.generate(prompts, {.max_tokens = 30}));
    for (size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ(answer.sequences[i].ids, sums.greedy(prompts[i], 30));
  }
  // Tokens before a truncation are read again.
  generator.reset();
  (void)must(generator.append(Ids{1, 2, 3, 4}));
  Generator fork = must(generator.fork());
  ASSERT_TRUE(generator.truncate(2).ok());
  Generator other = must(generator.fork());
  for (Generator* const each : {&generator, &other}) {
    (void)must(each->append(Ids{5}));
    EXPECT_EQ(must(each->generate({{1, 2, 5, 6}}, {.max_tokens = 9, .reuse_past = true})).reused,
              3);
    EXPECT_EQ(each->generation().sequences[0].ids, sums.greedy({1, 2, 5, 6}, 9));
  }
  (void)must(fork.generate({{1, 2, 3, 4, 0}}, {.max_tokens = 9, .reuse_past = true}));
  EXPECT_EQ(fork.generation().reused, 4);
  EXPECT_EQ(fork.generation().sequences[0].ids, sums.greedy({1, 2, 3, 4, 0}, 9));
}

TEST(Generator, MakesRoomForMorePositionsThanItBeganWith) {
  const Sums sums;
  Generator generator = must(Generator::create(sums.model(true), {.threads = 1}));
  const Generation answer = must(generator.generate({{3, 1}, {2, 0}}, {.max_tokens = 8300}));
  EXPECT_EQ(answer.sequences[0].ids, sums.greedy({3, 1}, 8300));
  EXPECT_EQ(answer.sequences[1].ids, sums.greedy({2, 0}, 8300));
}

TEST(Generator, ReadsLongPromptsInChunks) {
  const Sums sums;
  std::mt19937 random(7);
  for (const size_t length : {511, 512, 513, 1024, 1700}) {
    Prompts prompts(2);
    for (Ids& prompt : prompts)
      for (size_t i = 0; i < length; ++i)
        prompt.push_back(static_cast<int32_t>(random() % Sums::kCount));
    Generator generator = must(Generator::create(sums.model(true), {.threads = 1}));
    const Generation answer = must(generator.generate(prompts, {.max_tokens = 20}));
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(answer.sequences[i].ids, sums.greedy(prompts[i], 20));
    // As many positions as without chunks: later prompts go on.
    Ids longer = prompts[0];
    longer.insert(longer.end(), prompts[1].begin(), prompts[1].end());
    (void)must(generator.generate({prompts[0]}, {.max_tokens = 1}));
    const Generation more =
        must(generator.generate({longer}, {.max_tokens = 20, .reuse_past = true}));
    EXPECT_EQ(more.reused, static_cast<int64_t>(length));
    EXPECT_EQ(more.sequences[0].ids, sums.greedy(longer, 20));
  }
}

// Models with states may compute a token alone as a step of an answer. The tokens of this one are
// the sizes of the runs, or 3.
TEST(Generator, EndsLongPromptsWithSeveralTokens) {
  Graph g;
  const Dim b("b"), t("t");
  const Value ids = cast(g.input("input_ids", i64, {b, t}), f32);
  const Value before = g.input("past.x", f32, {b, 1, 1});
  const Value count = sum(ids * 0.0 + 1.0, {1}, true);  // [b, 1]
  g.output("present.x", before + reshape(count, {b, 1, 1}));
  const std::vector<float> sizes = {0, 1, 2, 3};
  const Value words = g.constant(must(TensorData::copy_of(view(sizes, {1, 1, 4}))));
  g.output("logits", -abs(words - reshape(minimum(count, g.scalar(3.0, f32)), {b, 1, 1})));
  Generator generator =
      must(Generator::create(must(Model::from_graph(std::move(g))), {.threads = 1}));
  for (const size_t length : {1, 2, 3, 511, 512, 513, 514, 1024, 1025, 1026}) {
    const Ids first = {static_cast<int32_t>(std::min<size_t>(length, 3)), 1, 1};
    const Ids ending = {2, 1, 1};  // of the last of several parts, if it would have one token
    EXPECT_EQ(must(generator.generate({Ids(length, 0)}, {.max_tokens = 3})).sequences[0].ids,
              length > 512 && length % 512 < 3 && length % 512 > 0 ? ending : first)
        << length;
  }
}

// Random chats: each prompt shares a beginning with the text before it.
TEST(Generator, ReadsOnlyWhatAChatAdds) {
  std::mt19937 random(3);
  Whole whole;
  Generator generator = generator_of();
  Ids text;
  for (int turn = 0; turn < 60; ++turn) {
    const size_t kept = text.empty() ? 0 : random() % (text.size() + 1);
    Ids prompt(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(kept));
    if (prompt.size() > 120) prompt.clear();
    const Ids more = random_ids(1 + random() % 9, random());
    prompt.insert(prompt.end(), more.begin(), more.end());
    if (turn % 10 == 9) {  // another kind of call between them
      (void)must(generator.generate({prompt, more}, {.max_tokens = 3}));
      text.clear();
    }
    const GenerateOptions options = {.max_tokens = 1 + static_cast<int64_t>(random() % 12),
                                     .reuse_past = true};
    const Generation answer = must(generator.generate({prompt}, options));
    // The last token of an answer is never read.
    size_t same = 0;
    while (same + 1 < text.size() && same + 1 < prompt.size() && text[same] == prompt[same]) ++same;
    EXPECT_EQ(answer.reused, static_cast<int64_t>(same)) << "turn " << turn;
    EXPECT_EQ(answer.sequences[0].ids, whole.greedy(prompt, options.max_tokens)) << turn;
    text = prompt;
    text.insert(text.end(), answer.sequences[0].ids.begin(), answer.sequences[0].ids.end());
  }
}

TEST(Generator, ReadsTheWholePromptWhereThePastCannotBeShortened) {
  const Ids prompt = random_ids(9, 1);
  for (const Form& form : {Form{.past = false}, Form{.mask = false}}) {
    Generator generator = generator_of(form);
    Ids longer = prompt;
    longer.push_back(3);
    (void)must(generator.generate({prompt}, {.max_tokens = 4}));
    const Generation answer =
        must(generator.generate({longer}, {.max_tokens = 4, .reuse_past = true}));
    EXPECT_EQ(answer.reused, 0);
    EXPECT_EQ(answer.sequences[0].ids, Whole().greedy(longer, 4));
  }
}

TEST(Generator, RefusesOtherModels) {
  const auto refuses = [](Graph g, std::string_view part) {
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    expect_refusal(Generator::create(must(Model::from_graph(std::move(g)))).status(),
                   Code::unsupported, part);
  };
  const auto with = [](auto change) {
    Graph g;
    const Value ids = g.input("input_ids", i64, {"b", "t"});
    g.output("logits", embedding(g.parameter("w", f32, {5, 7}), ids));
    change(g);
    return g;
  };
  {
    Graph g;
    g.output("y", relu(g.input("x", f32, {"n", 3})));
    refuses(std::move(g), "the input 'x' is f32[n, 3], expected i64[batch, time]");
  }
  {
    Graph g;
    const Value ids = g.input("ids", i64, {"b", 4});
    g.output("logits", embedding(g.parameter("w", f32, {5, 7}), ids));
    refuses(std::move(g), "where time is a symbol");
  }
  {
    Graph g;
    const Value past = g.input("past_0", f32, {"b", 2, "p", 3});
    g.output("present_0", past);
    refuses(std::move(g), "no input of ids");
  }
  refuses(with([](Graph& g) {
            g.output("y", g.input("segments", i64, {"b", "t"}));
          }),
          "the inputs 'input_ids' and 'segments' could both be the ids");
  refuses(with([](Graph& g) {
            g.output("y", g.input("past_0", f32, {"b", 2, "p", 3}));
          }),
          "the input 'past_0' has no output 'present_0'");
  refuses(with([](Graph& g) {
            g.output("present_0", g.input("past_0", i64, {"b", 2, "p", 3}));
          }),
          "the input 'past_0' is i64[b, 2, p, 3], expected floats [batch, heads, past, dim]");
  {
    Graph g;
    const Value ids = g.input("ids", i64, {"b", "t"});
    const Value x = embedding(g.parameter("w", f32, {5, 7}), ids);
    g.output("a", x);
    g.output("c", x);
    refuses(std::move(g), "the outputs 'a' and 'c' could both be the logits");
  }
  for (const char* const name : {"hidden_states", "last_hidden_state"}) {
    Graph g;
    g.output(name, embedding(g.parameter("w", f32, {5, 7}), g.input("ids", i64, {"b", "t"})));
    refuses(std::move(g), "the model has no output of logits");
  }
  {
    Graph g;
    g.output("logits", g.input("ids", i64, {"b", "t"}));
    refuses(std::move(g),
            "the output 'logits' is i64[b, t], expected f32[batch, time, vocabulary]");
  }
}

}  // namespace
}  // namespace hg
