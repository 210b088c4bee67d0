// SPDX-License-Identifier: Apache-2.0
// Compares the sampler with its definition in plain loops.
#include "hg/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/must.h"

namespace hg {
namespace {

using Ids = std::vector<int32_t>;

Ids random_ids(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 61);
  return ids;
}

void expect_refusal(const Status& status, Code code, std::string_view part) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
}

// The steps of the sampler as transformers defines them, with a sorted list.
std::vector<bool> kept_by_definition(std::vector<float> logits, const Ids& history,
                                     const SamplerOptions& o, double& margin) {
  const std::vector<float> before = logits;
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::find(history.begin(), history.end(), static_cast<int32_t>(i)) != history.end())
      logits[i] =
          before[i] < 0 ? before[i] * o.repetition_penalty : before[i] / o.repetition_penalty;
  for (float& logit : logits) logit /= o.temperature;
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<bool> kept(logits.size(), true);
  if (o.top_k > 0)
    for (size_t i = 0; i < logits.size(); ++i)
      kept[i] =
          logits[i] >= logits[order[std::min(static_cast<size_t>(o.top_k), order.size()) - 1]];
  const auto sum = [&] {
    double all = 0;
    for (size_t i = 0; i < logits.size(); ++i)
      if (kept[i]) all += std::exp(double{logits[i]});
    return all;
  };
  margin = 1;
  if (o.top_p < 1) {
    const double all = sum();
    double below = 0;
    std::vector<bool> next = kept;
    for (size_t i = order.size(); i-- > 1;) {
      if (!kept[order[i]]) continue;
      below += std::exp(double{logits[order[i]]}) / all;
      margin = std::min(margin, std::abs(below - (1 - double{o.top_p})));
      if (below <= 1 - double{o.top_p}) next[order[i]] = false;
    }
    kept = next;
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    const double part = std::exp(double{logits[i]} - logits[order[0]]);
    if (o.min_p > 0) margin = std::min(margin, std::abs(part - o.min_p));
    if (part < o.min_p) kept[i] = false;
  }
  return kept;
}

TEST(Sampler, KeepsWhatItsDefinitionKeeps) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> unit(0, 1);
  int compared = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> logits(1 + random() % 50);
    std::normal_distribution<float> normal(0, 0.1f + 4 * unit(random));
    for (float& logit : logits) logit = normal(random);
    if (round % 5 == 0)
      for (float& logit : logits) logit = std::round(logit);  // ties
    const Ids history = random_ids(random() % 6, random());   // some ids without a logit
    SamplerOptions o;
    o.temperature = 0.2f + 2 * unit(random);
    if (random() % 2) o.top_k = static_cast<int32_t>(1 + random() % 60);
    if (random() % 2) o.top_p = std::max(0.01f, unit(random));
    if (random() % 2) o.min_p = unit(random);
    if (random() % 2) o.repetition_penalty = 0.5f + unit(random);
    double margin = 0;
    const std::vector<bool> wanted = kept_by_definition(logits, history, o, margin);
    if (margin < 1e-6) continue;  // rounding could change the choice
    ++compared;
    const std::vector<float> got = must(must(Sampler::create(o)).filter(logits, history));
    for (size_t i = 0; i < logits.size(); ++i)
      ASSERT_EQ(std::isfinite(got[i]), wanted[i]) << "round " << round << ", token " << i;
    const int32_t id = must(must(Sampler::create(o)).choose(logits, history, 0));
    ASSERT_TRUE(wanted[static_cast<size_t>(id)]);
  }
  EXPECT_GT(compared, 1900);
}

TEST(Sampler, DrawsByProbability) {
  const std::vector<float> logits = {0, 1, 2, -1, -20};
  constexpr int kDraws = 20000;
  for (const float temperature : {0.7f, 1.0f, 3.0f}) {
    const Sampler sampler =
        must(Sampler::create({.temperature = temperature, .seed = uint64_t{1} << 40}));
    std::vector<int> counts(logits.size());
    for (uint64_t i = 0; i < kDraws; ++i)
      ++counts[static_cast<size_t>(must(sampler.choose(logits, {}, i, 3)))];
    for (size_t i = 0; i < logits.size(); ++i) {
      double sum = 0;
      for (const float logit : logits) sum += std::exp(logit / double{temperature});
      const double part = std::exp(logits[i] / double{temperature}) / sum;
      EXPECT_NEAR(counts[i], kDraws * part, 5 * std::sqrt(kDraws * part * (1 - part)) + 1);
    }
  }
}

TEST(Sampler, Limits) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Sampler greedy = must(Sampler::create({}));
  EXPECT_EQ(must(greedy.choose(std::vector<float>{1, 3, 3, 2}, {}, 0)), 1);
  EXPECT_EQ(must(greedy.choose(std::vector<float>{-infinity, -5}, {}, 0)), 1);
  const Sampler penalty = must(Sampler::create({.repetition_penalty = 2}));
  EXPECT_EQ(must(penalty.choose(std::vector<float>{3, 2}, Ids{0, 0}, 0)), 1);
  EXPECT_EQ(must(penalty.choose(std::vector<float>{-1, -1.5f}, Ids{0}, 0)), 1);
  const Sampler hot = must(Sampler::create({.temperature = 1e-30f}));
  expect_refusal(greedy.choose({}, {}, 0).status(), Code::invalid_argument, "no logits");
  expect_refusal(greedy.choose(std::vector<float>{0, infinity}, {}, 0).status(),
                 Code::invalid_argument, "the logit of token 1 of 2 is inf");
  expect_refusal(greedy.choose(std::vector<float>{-infinity, -infinity}, {}, 0).status(),
                 Code::invalid_argument, "all 2 logits are -infinity");
  expect_refusal(hot.choose(std::vector<float>{0, 1e10f}, {}, 0).status(), Code::invalid_argument,
                 "is inf");
  EXPECT_FLOAT_EQ(must(log_probability(std::vector<float>{0, 0, -infinity, 0}, 1)),
                  -std::log(3.0f));
  EXPECT_EQ(must(log_probability(std::vector<float>{7}, 0)), 0);
  expect_refusal(log_probability(std::vector<float>{7}, 1).status(), Code::invalid_argument,
                 "the id 1 is outside the vocabulary of 1 tokens");
}

}  // namespace
}  // namespace hg
