// SPDX-License-Identifier: Apache-2.0
// Functions of f32 on numbers of all sizes beside the C library's of doubles: at most the next
// float, with the same NaN, infinities and zeros.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "hg/hg.h"
#include "tests/must.h"
#include "tests/random_case.h"

namespace hg::test {
namespace {

struct Function {
  const char* op;
  double (*of)(double);
};
const Function kFunctions[] = {
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"tan", [](double x) { return std::tan(x); }},
    {"asin", [](double x) { return std::asin(x); }},
    {"acos", [](double x) { return std::acos(x); }},
    {"atan", [](double x) { return std::atan(x); }},
    {"sinh", [](double x) { return std::sinh(x); }},
    {"cosh", [](double x) { return std::cosh(x); }},
    {"asinh", [](double x) { return std::asinh(x); }},
    {"acosh", [](double x) { return std::acosh(x); }},
    {"atanh", [](double x) { return std::atanh(x); }},
    {"log1p", [](double x) { return std::log1p(x); }},
    {"log2", [](double x) { return std::log2(x); }},
    {"log10", [](double x) { return std::log10(x); }},
    {"exp2", [](double x) { return std::exp2(x); }},
};

bool is_close(float value, float exact) {
  if (std::isnan(exact)) return std::isnan(value);
  if (value == exact) return value != 0 || std::signbit(value) == std::signbit(exact);
  return value == std::nextafter(exact, value);
}

std::vector<float> computed(const char* op, const std::vector<std::vector<float>>& inputs) {
  Graph g;
  const auto n = static_cast<int64_t>(inputs[0].size());
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i) values.push_back(g.input("", f32, {n}));
  g.output("y", g.call(op, values));
  Session session = must(Session::create(must(Model::from_graph(std::move(g))), {.threads = 2}));
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(session.set_input(static_cast<int>(i), view(inputs[i], {n})).ok());
  EXPECT_TRUE(session.run().ok());
  const Tensor y = must(session.output("y"));
  return {y.as<float>(), y.as<float>() + n};
}

// HG_CASES floats, by their bits: of every size and sign.
TEST(WideFunctions, AreThoseOfTheCLibrary) {
  std::vector<float> x;
  const auto count = static_cast<uint64_t>(case_count(300007));
  for (uint64_t i = 0; i < count; ++i)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(i * (uint64_t{1} << 32) / count)));
  // Half of them where functions turn.
  Chance chance(1);
  for (uint64_t i = 0; i < count; ++i)
    x.push_back(static_cast<float>(chance.below(2000001) - 1000000) *
                (chance.chance(50) ? 1e-6f : 1e-4f));
  for (const Function& f : kFunctions) {
    SCOPED_TRACE(f.op);
    const std::vector<float> y = computed(f.op, {x});
    int shown = 0;
    for (size_t i = 0; i < x.size() && shown < 5; ++i) {
      const auto exact = static_cast<float>(f.of(double{x[i]}));
      if (is_close(y[i], exact)) continue;
      ADD_FAILURE() << "of " << x[i] << ": " << y[i] << " for " << exact;
      ++shown;
    }
  }
}

TEST(WideFunctions, AnglesOfTwoNumbers) {
  Chance chance(2);
  const auto number = [&] {
    constexpr float kEnds[] = {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f};
    return chance.chance(20)
               ? kEnds[chance.below(std::size(kEnds))]
               : std::bit_cast<float>(static_cast<uint32_t>(chance.below(int64_t{1} << 32)));
  };
  std::vector<std::vector<float>> inputs(2);
  for (int64_t i = case_count(300007); i > 0; --i)
    for (std::vector<float>& each : inputs) each.push_back(number());
  const std::vector<float> y = computed("atan2", inputs);
  for (size_t i = 0; i < y.size(); ++i) {
    const double exact = std::atan2(double{inputs[0][i]}, double{inputs[1][i]});
    ASSERT_TRUE(is_close(y[i], static_cast<float>(exact)))
        << inputs[0][i] << ", " << inputs[1][i] << ": " << y[i] << " for " << exact;
  }
}

// Ends of lines, and results in the memory of what they are made of.
TEST(WideFunctions, LinesOfEachLength) {
  for (int64_t n = 0; n < 40; ++n) {
    std::vector<float> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(i % 7 == 6 ? 1e30 : i));
    Graph g;
    const Value in = g.input("x", f32, {n});
    g.output("y", g.call("sin", {g.call("sin", {in * 1.0})}));
    Session session = must(Session::create(must(Model::from_graph(std::move(g))), {.threads = 1}));
    ASSERT_TRUE(session.set_input("x", view(x, {n})).ok());
    ASSERT_TRUE(session.run().ok());
    const Tensor y = must(session.output("y"));
    for (int64_t i = 0; i < n; ++i) {
      const auto first = static_cast<float>(std::sin(double{x[size_t(i)]}));
      ASSERT_TRUE(is_close(y.as<float>()[i], static_cast<float>(std::sin(double{first}))));
    }
  }
}

}  // namespace
}  // namespace hg::test
