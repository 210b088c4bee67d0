// SPDX-License-Identifier: Apache-2.0
// Broadcasting of open sizes from 0 to 3: results and their sizes against kernels/reference, or a
// refusal where PyTorch refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/ops/sample_case.h"
#include "tests/support/must.h"

namespace hg::test {
namespace {

constexpr int kSizes = 4;

// The size that these broadcast to.
std::optional<int64_t> broadcast_of(const Sizes& sizes) {
  int64_t wide = 1;
  for (const int64_t size : sizes) {
    if (wide != 1 && size != 1 && size != wide) return std::nullopt;
    if (size != 1) wide = size;
  }
  return wide;
}

// Calls f with every choice of `count` sizes.
template <class F>
void for_sizes(size_t count, const F& f) {
  Sizes sizes(static_cast<int>(count), 0);
  for (size_t left = count; left != 0;) {
    f(sizes);
    for (left = count; left != 0 && ++sizes.begin()[left - 1] == kSizes; --left)
      sizes.begin()[left - 1] = 0;
  }
}

// The first dim of each input is open.
void check(Sample sample, const std::vector<size_t>& open, const Sizes& sizes) {
  for (size_t k = 0; k < open.size(); ++k) sample.inputs[open[k]].shape[0] = sizes.begin()[k];
  SCOPED_TRACE(str_cat(sample.op, " of ", sizes));
  const std::unique_ptr<Case> c = must(build(sample, f32, Wiring::symbolic));
  const Result<std::vector<Answer>> answers = run(*c, {.threads = 1});
  const std::optional<int64_t> wide = broadcast_of(sizes);
  ASSERT_EQ(answers.ok(), wide.has_value()) << answers.status().message();
  if (!wide) return;
  ASSERT_EQ((*answers)[0].shape[0], *wide);
  const std::vector<std::vector<double>> expected = expected_of(*c, *answers);
  for (size_t i = 0; i < expected[0].size(); ++i) {
    const double y = (*answers)[0].values[i], right = expected[0][i];
    if (std::isnan(y) && std::isnan(right)) continue;
    ASSERT_LE(std::abs(y - right), tolerance_of(sample, f32) * (1 + std::abs(right))) << i;
  }
}

TEST(Broadcast, HasTheSizesAndValuesOfTheLoops) {
  std::set<std::string_view> done;
  for (Sample sample : all_samples()) {
    const Op* op = Registry::built_in().find(sample.op);
    ASSERT_NE(op, nullptr);
    const bool is_product = sample.op == "matmul";
    if (!is_product && (op->def.traits & kElementwise) == 0) continue;
    std::vector<size_t> open;
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      SampleInput& input = sample.inputs[i];
      if (!input.given || input.constant) continue;
      input.values.clear();
      input.shape = is_product ? Sizes{1, 2, 2} : Sizes{1};
      open.push_back(i);
    }
    if (open.size() < 2 || !done.insert(sample.op).second) continue;
    for_sizes(open.size(), [&](const Sizes& sizes) { check(sample, open, sizes); });
  }
  EXPECT_GT(done.size(), 30u);
}

// A size in an attribute, and gradients of inputs that broadcasting may have repeated.
TEST(Broadcast, ReachesAttributesAndGradients) {
  Graph g;
  std::vector<Value> x;
  for (const char* symbol : {"n", "m", "k"})
    x.push_back(g.input(str_cat("x_", symbol), f32, {symbol}));
  const Value y = x[0] * x[1] * x[2] + x[0];
  const Value total = sum(y, {0});
  g.output("y", y);
  g.output("ones", expand(g.scalar(1.0), y.shape()));
  for (const Value& dx : grad(std::span(&total, 1), x)) g.output("", dx);
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model, {.threads = 1});
  std::vector<float> twos(kSizes, 2);
  for_sizes(3, [&](const Sizes& sizes) {
    SCOPED_TRACE(str_cat(sizes));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.set_input(i, view(twos, {sizes[i]})).ok());
    const std::optional<int64_t> wide = broadcast_of(sizes);
    const Status status = session.run();
    ASSERT_EQ(status.ok(), wide.has_value()) << status.message();
    if (!wide) return;
    for (const int i : {0, 1}) ASSERT_EQ(session.output(i)->shape, Sizes{*wide});
    for (int i = 0; i < 3; ++i) {
      const Tensor dx = *session.output(2 + i);
      ASSERT_EQ(dx.shape, Sizes{sizes[i]});
      const auto times = static_cast<float>(sizes[i] == 1 ? *wide : 1);
      for (int64_t k = 0; k < sizes[i]; ++k)
        ASSERT_EQ(dx.as<float>()[k], times * (i == 0 ? 5 : 4)) << i;
    }
  });
}

}  // namespace
}  // namespace hg::test
