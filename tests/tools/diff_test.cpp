// SPDX-License-Identifier: Apache-2.0
// hg-diff on two models: the shortest edit script of their lines, and every state that differs.
#include "tools/diff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "hg/ops.h"
#include "tests/support/must.h"

namespace hg::tools {
namespace {

Model model_of(const std::function<void(Graph&)>& build) {
  Graph g;
  build(g);
  return must(Model::from_graph(std::move(g)));
}

Model random_model(std::mt19937& random) {
  return model_of([&](Graph& g) {
    const Value x = g.input("x", f32, {4});
    Value y = x;
    for (int i = 0, nodes = 1 + static_cast<int>(random() % 12); i < nodes; ++i) {
      static constexpr const char* kOps[] = {"sin", "cos", "exp", "tanh"};
      y = g.call(kOps[random() % 4], {x});
    }
    g.output("y", y);
  });
}

std::vector<std::string> lines_of(const Model& model) {
  std::vector<std::string> lines(1);
  for (const char c : model.graph().text())
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  lines.pop_back();
  return lines;
}

size_t longest_common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::vector<size_t>> most(a.size() + 1, std::vector<size_t>(b.size() + 1, 0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k)
      most[i + 1][k + 1] = a[i] == b[k] ? most[i][k] + 1 : std::max(most[i][k + 1], most[i + 1][k]);
  return most[a.size()][b.size()];
}

TEST(Diff, TellsTheFewestLinesThatMakeOneOfTheOther) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Model a = random_model(random), b = random_model(random);
    const std::vector<std::string> from = lines_of(a), to = lines_of(b);
    std::vector<std::string> removed, added;
    for (const LineChange& change : diff_models(a, b).graph)
      (change.added ? added : removed).push_back(change.line);
    const size_t common = longest_common(from, to);
    EXPECT_EQ(removed.size(), from.size() - common);
    EXPECT_EQ(added.size(), to.size() - common);
    const auto rest = [](const std::vector<std::string>& lines,
                         const std::vector<std::string>& without) {
      std::vector<std::string> kept;  // no line occurs twice in a model
      for (const std::string& line : lines)
        if (std::find(without.begin(), without.end(), line) == without.end()) kept.push_back(line);
      return kept;
    };
    EXPECT_EQ(rest(from, removed), rest(to, added));
  }
}

TEST(Diff, SeesConstantsOfBodies) {
  const auto branch = [](double factor) {
    return model_of([factor](Graph& g) {
      using Values = std::vector<Value>;
      const Value x = g.input("x", f32, {4});
      g.output("y", cond(
                        gt(sum(x), g.scalar(0.0)), {x},
                        [factor](Graph& b, std::span<const Value> v) {
                          return Values{v[0] * b.scalar(factor)};
                        },
                        [](Graph&, std::span<const Value> v) { return Values{v[0]}; })
                        .at(0));
    });
  };
  EXPECT_TRUE(diff_models(branch(2), branch(2)).is_equal());
  const ModelDiff diff = diff_models(branch(2), branch(3));
  EXPECT_TRUE(diff.graph.empty());
  ASSERT_EQ(diff.states.size(), 1u);
  EXPECT_TRUE(diff.states[0].name.starts_with("if_1/0/")) << diff.states[0].name;
  EXPECT_EQ(diff.states[0].largest, 1);
}

TEST(Diff, TellsByHowMuchLargeIntegersDiffer) {
  const auto with = [](int64_t value) {
    return model_of([value](Graph& g) {
      const Result<TensorData> data = TensorData::copy_of(view(&value, i64, Sizes{1}));
      g.output("y", g.input("x", i64, {1}) + g.constant(*data));
    });
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto largest = [&](int64_t a, int64_t b) {
    return diff_models(with(a), with(b)).states.at(0).largest;
  };
  EXPECT_EQ(largest(kMost, kMost - 1), 1);
  EXPECT_EQ(largest(-kMost - 1, kMost), std::ldexp(1.0, 64));
  EXPECT_TRUE(diff_models(with(kMost), with(kMost)).is_equal());
}

TEST(Diff, SeesWhatIsTrained) {
  const auto with = [](bool required) {
    return model_of([required](Graph& g) {
      const Value w = g.parameter("w", f32, {4}, init::ones());
      g.set_requires_grad(w, required);
      g.output("y", g.input("x", f32, {4}) * w);
    });
  };
  EXPECT_TRUE(diff_models(with(false), with(false)).is_equal());
  EXPECT_FALSE(diff_models(with(true), with(false)).is_equal());
}

}  // namespace
}  // namespace hg::tools
