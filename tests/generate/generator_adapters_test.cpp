// SPDX-License-Identifier: Apache-2.0
// Adapters of generators, compared with generators of models whose weights include them.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "hg/adapter.h"
#include "hg/forward_backward.h"
#include "hg/generator.h"
#include "tests/support/must.h"
#include "tests/support/small_decoder.h"
#include "tests/support/temporary_file.h"

namespace hg {
namespace {

using namespace small_decoder;

Model adapter(const Model& base, uint64_t seed, int64_t rank, std::vector<std::string> layers) {
  const Model made = must(take_adapter(
      must(add_adapter(base, {.layers = std::move(layers), .rank = rank, .seed = seed}))));
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::vector<TensorData> contents;
  std::vector<std::pair<std::string, ConstTensor>> named;
  for (const State& state : made.graph().states()) {
    if (!state.name.ends_with(".lora_B.weight")) continue;
    contents.push_back(must(TensorData::copy_of(state.data.tensor)));
    const Tensor& b = contents.back().tensor;
    for (int64_t i = 0; i < b.count(); ++i)
      b.as<float>()[i] = static_cast<float>(random() % 2001) / 2000 - 0.5f;
    named.emplace_back(state.name, b);
  }
  return must(with_states(made, named));
}

struct Adapters {
  const Model base = decoder();
  const Model one = adapter(base, 1, 3, {"q*", "v*", "o*"});
  const Model two = adapter(base, 2, 2, {"up*", "v*", "head*"});
  Generator generator = must(Generator::create(must(apply_adapters(base, both(), 5))));
  std::vector<Model> both() const { return {one, two}; }
  // Of a model without adapters beside its layers.
  Generator merged(const std::vector<Model>& all) const {
    if (all.empty()) return must(Generator::create(base));
    return must(Generator::create(must(merge_adapters(must(apply_adapters(base, all))))));
  }
};

std::vector<float> logits_of(Generator& generator, const Ids& ids) {
  const std::span<const float> logits = must(generator.append(ids));
  return {logits.begin(), logits.end()};
}

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-3) << i;
}

TEST(GeneratorAdapters, SwitchBetweenCalls) {
  Adapters a;
  const std::vector<std::vector<Model>> sets = {{a.one}, {a.two}, {a.one, a.two}, {}, {a.one}};
  std::vector<Ids> different;
  for (size_t i = 0; i < sets.size(); ++i) {
    SCOPED_TRACE(i);
    must(set_adapters(a.generator, sets[i]));
    Generator plain = a.merged(sets[i]);
    // Other numbers of prompts open other sessions.
    for (const Prompts& prompts : {Prompts{{1, 2, 3}}, Prompts{{4}, {5, 6, 7, 8}}}) {
      const Generation got = must(a.generator.generate(prompts, {.max_tokens = 12})),
                       wanted = must(plain.generate(prompts, {.max_tokens = 12}));
      for (size_t k = 0; k < prompts.size(); ++k)
        EXPECT_EQ(got.sequences[k].ids, wanted.sequences[k].ids);
      if (prompts.size() == 1) different.push_back(got.sequences[0].ids);
    }
  }
  EXPECT_EQ(different[0], different[4]);
  for (size_t i = 0; i < 4; ++i)
    for (size_t k = 0; k < i; ++k) EXPECT_NE(different[i], different[k]) << i << ", " << k;
}

// Keys and values of other adapters are not used.
TEST(GeneratorAdapters, ReadThePastAgain) {
  Adapters a;
  must(set_adapters(a.generator, {&a.one, 1}));
  (void)logits_of(a.generator, {1, 2, 3, 4, 5});
  must(set_adapters(a.generator, {&a.two, 1}));
  EXPECT_EQ(a.generator.length(), 5);
  Generator plain = a.merged({a.two});
  expect_near(logits_of(a.generator, {6, 7}), logits_of(plain, {1, 2, 3, 4, 5, 6, 7}));
  must(set_adapters(a.generator, {&a.one, 1}));
  const Generation again =
      must(a.generator.generate({{1, 2, 3, 4, 5, 6, 7, 8}}, {.max_tokens = 9, .reuse_past = true}));
  EXPECT_EQ(again.reused, 0);
  EXPECT_EQ(again.sequences[0].ids,
            must(a.merged({a.one}).generate({{1, 2, 3, 4, 5, 6, 7, 8}}, {.max_tokens = 9}))
                .sequences[0]
                .ids);
  (void)must(a.generator.generate({{1}, {2}}, {.max_tokens = 3}));
  must(set_adapters(a.generator, {&a.two, 1}));
  EXPECT_EQ(a.generator.length(), 0);
  Generator plain_two = a.merged({a.two});
  expect_near(logits_of(a.generator, {9, 8}), logits_of(plain_two, {9, 8}));
}

TEST(GeneratorAdapters, OfForksAndFilesAreTheirOwn) {
  Adapters a;
  must(set_adapters(a.generator, {&a.one, 1}));
  (void)logits_of(a.generator, {1, 2, 3});
  Generator fork = must(a.generator.fork());
  must(set_adapters(fork, {&a.two, 1}));
  Generator one = a.merged({a.one}), two = a.merged({a.two});
  expect_near(logits_of(a.generator, {4}), logits_of(one, {1, 2, 3, 4}));
  expect_near(logits_of(fork, {4}), logits_of(two, {1, 2, 3, 4}));
  Generator copy = must(a.generator.fork());
  expect_near(logits_of(copy, {5}), logits_of(one, {5}));
  const test::TemporaryFile file("past.hgm");
  must(a.generator.save(file.path()));
  expect_refusal(fork.load(file.path()), Code::invalid_argument,
                 "belongs to another model, adapter or precision");
  must(set_adapters(fork, {&a.one, 1}));
  must(fork.load(file.path()));
  expect_near(logits_of(fork, {6, 7}), logits_of(a.generator, {6, 7}));
}

TEST(GeneratorAdapters, ThatDoNotFitChangeNothing) {
  Adapters a;
  must(set_adapters(a.generator, {&a.one, 1}));
  const std::vector<Model> many = {a.one, a.two, a.one};
  expect_refusal(set_adapters(a.generator, many), Code::invalid_argument, "has room for rank 5");
  Generator plain = a.merged({a.one});
  expect_near(logits_of(a.generator, {1, 2}), logits_of(plain, {1, 2}));
  Generator base = must(Generator::create(a.base));
  expect_refusal(set_adapters(base, {&a.one, 1}), Code::invalid_argument,
                 "which the session does not adapt");
}

}  // namespace
}  // namespace hg
