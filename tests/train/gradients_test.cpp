// SPDX-License-Identifier: Apache-2.0
// Symbolic gradients against known results; the op tests compare every rule with finite
// differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "hg/hg.h"
#include "hg/op.h"
#include "hg/train.h"
#include "tests/support/evaluated.h"

namespace hg {
namespace {

using test::evaluate;
using Fn = std::function<Value(const Value&)>;

// t = a * b; y = t + (t * a) * a
TEST(Gradients, AreExactOnGraphsWithReuse) {
  Graph g;
  const Value a = g.input("a", f64, {}), b = g.input("b", f64, {});
  const Value t = g.call("mul", {a, b});
  const Value y = g.call("add", {t, g.call("mul", {g.call("mul", {t, a}), a})});
  for (const Value& d : grad(y, {a, b, t})) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  // d/dt alone: 1 + a^2
  EXPECT_EQ(evaluate(std::move(g), {{3}, {5}}), (std::vector<double>{140, 30, 10}));
}

TEST(Gradients, CanBeDifferentiatedAgain) {
  Graph g;
  const Value a = g.input("a", f64, {});
  const Value cube = g.call("mul", {g.call("mul", {a, a}), a});
  const Value first = grad(cube, {a})[0];
  const Value second = grad(first, {a})[0];
  const Value third = grad(second, {a})[0];
  for (const Value& d : {first, second, third}) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{3}}), (std::vector<double>{27, 18, 6}));
}

TEST(Gradients, OfAPolynomialOverAVector) {
  Graph g;
  const Value x = g.input("x", f64, {"n"});
  const auto number = [&](double v) { return g.scalar(v, f64); };
  const Value y = g.call("add", {g.call("add", {g.call("mul", {number(2), g.call("mul", {x, x})}),
                                                g.call("mul", {number(8), x})}),
                                 number(-1)});
  g.output("y", y);
  g.output("dx", grad(y, {x})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{1, 2, 3, 4}}),
            (std::vector<double>{9, 23, 41, 63, 12, 16, 20, 24}));
}

TEST(Gradients, SumOverBroadcastDimsAndTakeSeeds) {
  Graph g;
  const Value x = g.input("x", f64, {3}), s = g.input("s", f64, {}), seed = g.input("v", f64, {3});
  const Value y = g.call("mul", {x, s});
  for (const Value& d : grad(y, {x, s}, seed)) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{1, 2, 3}, {10}, {1, 0, -1}}),
            (std::vector<double>{10, 0, -10, 1 - 3}));
}

// Only a run knows which of two open sizes is broadcast.
TEST(Gradients, SumOverOpenSizesThatAreRepeated) {
  const std::vector<double> one = {5}, three = {1, 2, 3};
  const auto check = [](const std::vector<double>& x, const std::vector<double>& y,
                        const std::vector<double>& expected) {
    Graph g;
    const Value a = g.input("a", f64, {"n"}), b = g.input("b", f64, {"m"});
    for (const Value& d : grad(a * b, {a, b})) g.output("", d);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    EXPECT_EQ(evaluate(std::move(g), {x, y}), expected);
  };
  check(three, three, {1, 2, 3, 1, 2, 3});
  check(one, three, {6, 5, 5, 5});
  check(three, one, {5, 5, 5, 6});
  for (const Dim& size : {Dim(3), Dim("m")})  // the size that x is expanded to
    for (const std::vector<double>& x : {one, three}) {
      Graph g;
      const Value a = g.input("a", f64, {"n"}), b = g.input("b", f64, {size});
      const Value wide = g.call("expand", {a}, {{"shape", {2, size}}});
      for (const Value& d : {grad(a * b, {a})[0], grad(wide, {a})[0]}) g.output("", d);
      ASSERT_TRUE(g.status().ok()) << g.status().message();
      EXPECT_EQ(evaluate(std::move(g), {x, three}), x.size() == 1
                                                        ? (std::vector<double>{6, 6})
                                                        : (std::vector<double>{1, 2, 3, 2, 2, 2}));
    }
  Graph g;
  const Value a = g.input("a", f64, {"n"}), first = slice(a, 0, 0, min(Dim(1), Dim("n")));
  g.output("", grad(first * a, {first})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {three}), std::vector<double>{6});
}

// As in PyTorch, the gradient is 0 rather than NaN at points where the function has none.
TEST(Gradients, OfAnglesAndSignsAreZeroWhereTheyHaveNone) {
  const auto gradients_of = [](const char* op, std::vector<double> x, std::vector<double> y) {
    Graph g;
    const Value a = g.input("a", f64, {2}), b = g.input("b", f64, {2});
    for (const Value& d : grad(g.call(op, {a, b}), {a, b})) g.output("", d);
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    return evaluate(std::move(g), {std::move(x), std::move(y)});
  };
  EXPECT_EQ(gradients_of("atan2", {0, 2}, {0, -2}), (std::vector<double>{0, -0.25, 0, -0.25}));
  EXPECT_EQ(gradients_of("hypot", {0, -2}, {0, 0}), (std::vector<double>{0, -1, 0, 0}));
  EXPECT_EQ(gradients_of("copysign", {0, 2}, {HUGE_VAL, -2}), (std::vector<double>{0, -1, 0, 0}));
}

// As in amax and amin: NaN counts as the largest value.
TEST(Gradients, OfScatteredExtremesAreNaNWhereThoseAre) {
  Graph g;
  const Value x = g.input("x", f64, {3}), src = g.input("src", f64, {3});
  const Value index = cast(g.input("index", f64, {3}), i64);
  for (const ScatterReduce reduce : {ScatterReduce::amax, ScatterReduce::amin})
    for (const Value& d : grad(scatter(x, index, src, 0, reduce), {x, src})) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  const std::vector<double> d = evaluate(std::move(g), {{1, 2, 5}, {1, NAN, 2}, {0, 1, 1}});
  ASSERT_EQ(d.size(), 12u);
  for (size_t i = 0; i < d.size(); i += 6) {
    EXPECT_EQ(d[i], 0.5);
    EXPECT_TRUE(std::isnan(d[i + 1]));
    EXPECT_EQ(d[i + 2], 1);
    EXPECT_EQ(d[i + 3], 0.5);
    EXPECT_TRUE(std::isnan(d[i + 4]));
    EXPECT_TRUE(std::isnan(d[i + 5]));
  }
}

TEST(Gradients, OfMaskedScatterTakeAnEmptySource) {
  const auto gradients_of = [](std::vector<double> mask, std::vector<double> src) {
    Graph g;
    const Value x = g.input("x", f64, {"n"}), given = g.input("mask", f64, {"n"});
    const Value from = g.input("src", f64, {"m"});
    const Value y = masked_scatter(x, cast(given, boolean), from);
    for (const Value& d : grad(y * x, {from, x})) g.output("", d);
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    return evaluate(std::move(g), {{2, 3, 4}, std::move(mask), std::move(src)});
  };
  EXPECT_EQ(gradients_of({0, 0, 0}, {}), (std::vector<double>{4, 6, 8}));
  EXPECT_EQ(gradients_of({0, 1, 0}, {7, 8}), (std::vector<double>{3, 0, 4, 7, 8}));
}

// The running product of a 0-d tensor is the number itself, even if it is infinite.
TEST(Gradients, OfRunningTotalsOfOneNumberAreOne) {
  Graph g;
  const Value x = g.input("x", f64, {});
  for (const char* op : {"cumprod", "logcumsumexp"})
    g.output("", grad(g.call(op, {x}, {{"dim", 0}}), {x})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{HUGE_VAL}}), (std::vector<double>{1, 1}));
}

// More numbers than bf16 can count are added to one element, so they must be summed in f32.
TEST(Gradients, OfEqualIndicesOfHalvesAreSummedInF32) {
  Graph g;
  const Value x = g.input("x", f64, {1});
  const Value zeros =
      g.call("full", {}, {{"shape", std::vector<Dim>{4000}}, {"value", 0}, {"dtype", i64}});
  const Value picked = g.call("gather", {cast(x, bf16), zeros}, {{"dim", 0}});
  g.output("", grad(cast(picked, f64), {x})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{1}}), std::vector<double>{4000});
}

// Products after a 0 are NaN if x is infinite; they do not count.
TEST(Gradients, OfRunningProductsEndAtZeros) {
  Graph g;
  const Value x = g.input("x", f64, {5});
  g.output("", grad(g.call("cumprod", {x}, {{"dim", 0}}), {x})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{2, 0, 3, 0, HUGE_VAL}}), (std::vector<double>{1, 8, 0, 0, 0}));
}

// The derivatives of x1 x2 + x0 x2 + x0 x1, and for running products also of 1 + x1 + x0, at
// (0, 5, 0).
TEST(Gradients, OfGradientsOfProductsAreRightAtZeros) {
  for (const bool running : {false, true}) {
    Graph g;
    const Value x = g.input("x", f64, {3});
    const Value y = running ? g.call("cumprod", {x}, {{"dim", 0}}) : g.call("prod", {x});
    g.output("", grad(sum(grad(sum(y), {x})[0]), {x})[0]);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    EXPECT_EQ(evaluate(std::move(g), {{0, 5, 0}}),
              running ? (std::vector<double>{6, 1, 5}) : (std::vector<double>{5, 0, 5}));
  }
}

// The elements of the Hessian of the sum, for each element of x.
std::vector<double> second_derivatives(const Fn& f, const std::vector<double>& at) {
  Graph g;
  const Value x = g.input("x", f64, {static_cast<int64_t>(at.size())});
  g.output("", grad(sum(grad(sum(f(x)), {x})[0]), {x})[0]);
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  return evaluate(std::move(g), {at});
}

// torch's values where the first derivative has a step.
TEST(Gradients, OfSecondOrderAtKinksAreTorchs) {
  const auto at = [](const char* op, NamedAttrs attrs) {
    return [=](const Value& x) { return x.graph()->call(op, {x}, attrs); };
  };
  const double slope = 0.19661193324148185;  // of the sigmoid at 1
  EXPECT_EQ(second_derivatives(at("softplus", {{"threshold", 1.0}}), {1, 2}),
            (std::vector<double>{0, 0}));
  EXPECT_NEAR(second_derivatives(at("softplus", {}), {1})[0], slope, 1e-15);
  const auto loss = [](const char* op) {
    return [=](const Value& x) {
      return x.graph()->call(op, {x, x * 0.0}, {{"reduction", "sum"}});
    };
  };
  EXPECT_EQ(second_derivatives(loss("smooth_l1_loss"), {-1, 0, 0.5, 1}),
            (std::vector<double>{0, 1, 1, 0}));
  EXPECT_EQ(second_derivatives(loss("huber_loss"), {-1, 0, 0.5, 1}),
            (std::vector<double>{1, 1, 1, 1}));
}

// The mixed derivative is that of weight x below 0; at 0 it is 0.
TEST(Gradients, OfGradientsOfPreluAreZeroAtZero) {
  Graph g;
  const Value x = g.input("x", f64, {4}), weight = g.input("weight", f64, {1});
  const std::vector<Value> first = grad(sum(g.call("prelu", {x, weight})), {x, weight});
  for (const Value& d : first) g.output("", d);
  g.output("", grad(sum(first[0]), {weight})[0]);
  g.output("", grad(sum(first[1]), {x})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{-2, 0, -0.0, 3}, {0.25}}),
            (std::vector<double>{0.25, 0.25, 0.25, 1, -2, 1, 1, 0, 0, 0}));
}

// sum |x|^p has an infinite slope at 0, which counts as 0 and does not reach other elements.
TEST(Gradients, OfNormsBelowOneAreDefinedBesideZeros) {
  Graph g;
  const Value x = g.input("x", f64, {3});
  const Value first = grad(g.call("norm", {x}, {{"ord", 0.5}}), {x})[0];
  g.output("", first);
  g.output("", grad(sum(first * first), {x})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  // With y = (|a|^0.5 + |b|^0.5)^2 at (a, b) = (1, -4): dy/da = 3, dy/db = -1.5, d2y/da2 = -1,
  // d2y/dadb = -0.25, d2y/db2 = -0.0625
  const std::vector<double> found = evaluate(std::move(g), {{0, 1, -4}});
  ASSERT_EQ(found.size(), 6u);
  const double expected[] = {0, 3, -1.5, 0, 2 * (3 * -1 + -1.5 * -0.25), 0};
  for (const size_t i : {0u, 1u, 2u, 4u}) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
  EXPECT_NEAR(found[5], 2 * (3 * -0.25 + -1.5 * -0.0625), 1e-12);
}

// Cofactors, and their derivatives, for matrices of each rank.
TEST(Gradients, OfDeterminantsOfSingularMatricesAreCofactors) {
  const auto check = [](const std::vector<double>& at, const std::vector<double>& first,
                        const std::vector<double>& second) {
    Graph g;
    const auto n = static_cast<int64_t>(std::sqrt(at.size()));
    const Value x = g.input("x", f64, {n * n});
    const Value d = grad(g.call("det", {reshape(x, {n, n})}), {x})[0];
    Value weighted = d * cast(g.call("arange", {}, {{"end", n * n}}), f64);
    g.output("", d);
    g.output("", grad(sum(weighted), {x})[0]);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    const std::vector<double> found = evaluate(std::move(g), {at});
    for (size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(found[i], first[i], 1e-13) << i;
    for (size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(found[at.size() + i], second[i], 1e-12) << i;
  };
  check({0}, {1}, {0});
  check({1, 1, 1, 1}, {1, -1, -1, 1}, {3, -2, -1, 0});
  check({0, 0, 0, 0}, {0, 0, 0, 0}, {3, -2, -1, 0});
  check({1, 0, 0, 1}, {1, 0, 0, 1}, {3, -2, -1, 0});  // equal singular values
  check({1, 2, 3, 4, 5, 6, 7, 8, 9}, {-3, 6, -3, 6, -12, 6, -3, 6, -3},
        {-6, 12, -6, 12, -24, 12, -6, 12, -6});
  check({1, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 8, -7, 0, -5, 4});
  check({0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0});
}

// The third derivatives of a b c by its factors, along the diagonal of a matrix.
TEST(Gradients, OfThirdOrderOfDeterminants) {
  Graph g;
  const Value x = g.input("x", f64, {9}), matrix = reshape(x, {3, 3});
  Value d = g.call("det", {matrix});
  for (const int64_t place : {0, 4, 8}) {
    d = slice(grad(d, {x})[0], 0, place, place + 1);
    d = sum(d);
  }
  g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_NEAR(evaluate(std::move(g), {{1, 0, 0, 0, 1, 0, 0, 0, 1}})[0], 1, 1e-13);
}

TEST(Gradients, AreZeroWhereNothingDepends) {
  Graph g;
  const Value x = g.input("x", f64, {2}), z = g.input("z", f64, {2});
  const Value y = g.call("mul", {x, x});
  for (const Value& d : grad(y, {z})) g.output("", d);
  g.output("y", y);
  EXPECT_EQ(evaluate(std::move(g), {{1, 2}, {3, 4}}), (std::vector<double>{0, 0, 1, 4}));
}

TEST(Gradients, EndWhereAValueIsDetached) {
  Graph g;
  const Value x = g.input("x", f64, {3});
  const Value y = detach(x * x) * x;
  for (const Value& d : grad(y, {x})) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{1, 2, -3}}), (std::vector<double>{1, 4, 9}));
}

// If slices cover the value, their gradients are concatenated; otherwise they are added to zeros.
TEST(Gradients, OfSlicesThatMakeUpAValueArePutTogether) {
  for (const bool has_more : {false, true}) {
    Graph g;
    const Value x = g.input("x", f64, {6});
    const Value a = slice(x, 0, 0, 2), b = slice(x, 0, 2, 5), c = slice(x, 0, 5, 6);
    Value y = sum(b * b) + sum(c * 5) + sum(a * 2);
    if (has_more) y = y + sum(slice(x, 0, 1, 4)) + sum(slice(x, -1, 0, 6) * 100);
    g.output("", grad(y, {x})[0]);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    const auto count = [&](std::string_view op) {
      return std::count_if(g.nodes().begin(), g.nodes().end(),
                           [&](const Node& node) { return node.op->name() == op; });
    };
    EXPECT_EQ(count("concat"), 1);
    EXPECT_EQ(count("slice_scatter"), has_more ? 1 : 0);
    const std::vector<double> expected = has_more
                                             ? std::vector<double>{102, 103, 107, 109, 110, 105}
                                             : std::vector<double>{2, 2, 6, 8, 10, 5};
    EXPECT_EQ(evaluate(std::move(g), {{1, 2, 3, 4, 5, 6}}), expected);
  }
}

// For example packed sequences: one side knows the size, the other takes it from data.
TEST(Gradients, TakeSizesThatMayBeEqual) {
  Graph g;
  const Value gates = g.input("gates", f64, {"t", "b", 12});
  const Value h0 = g.input("h0", f64, {2, 3}), c0 = g.input("c0", f64, {2, 3});
  const Value weight = g.input("weight", f64, {12, 3});
  const Value y = g.calls("lstm_scan", {gates, h0, c0, weight})[0];
  const std::vector<Value> d = grad(g.call("sum", {y}), {gates, c0});
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(d.size(), size_t{2});
  for (const int last : {16, 17}) {
    Graph norm;
    const Value x = norm.input("x", f32, {"b", "t", 16}), dy = norm.input("dy", f32, {2, 9, last});
    norm.calls("layer_norm_grad", {x, Value(), dy}, {{"normalized_shape", std::vector<Dim>{16}}});
    EXPECT_EQ(norm.status().ok(), last == 16) << norm.status().message();
  }
}

TEST(Gradients, MakeUpJacobians) {
  Graph g;
  const Value x = g.input("x", f64, {2});
  const Value y = g.call("concat", {x * x, sum(x) * x}, {{"dim", 0}});
  g.output("", jacobian(y, x));
  EXPECT_EQ(jacobian(y, x).shape(), (Shape{4, 2}));
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{3, 5}}), (std::vector<double>{6, 0, 0, 10, 11, 3, 5, 13}));
}

TEST(Gradients, MakeUpProductsWithTheJacobian) {
  Graph g;
  const Value x = g.input("x", f64, {2}), z = g.input("z", f64, {2});
  const Value u = g.input("u", f64, {2}), v = g.input("v", f64, {2});
  const Value ys[] = {x * x * z, x, sum(z), u}, wrt[] = {x, z}, directions[] = {u, v};
  for (const Value& d : jvp(ys, wrt, directions)) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{2, 3}, {5, 7}, {1, 10}, {100, 1000}}),
            (std::vector<double>{20 + 400, 420 + 9000, 1, 10, 1100, 0, 0}));
}

TEST(Gradients, NeedADirectionForEachValue) {
  Graph g;
  const Value x = g.input("x", f64, {2});
  EXPECT_TRUE(jvp(std::span(&x, 1), std::span(&x, 1), {}).empty());
  EXPECT_NE(g.status().message().find("1 values and 0 directions"), std::string::npos);
}

// y = sum(x x z): the second derivatives are diag(2 z), diag(2 x) and 0.
TEST(Gradients, MakeUpProductsWithTheHessian) {
  Graph g;
  const Value x = g.input("x", f64, {2}), z = g.input("z", f64, {2});
  const Value u = g.input("u", f64, {2}), v = g.input("v", f64, {2});
  const Value wrt[] = {x, z}, directions[] = {u, v};
  for (const Value& d : hvp(sum(x * x * z), wrt, directions)) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{2, 3}, {5, 7}, {1, 10}, {100, 1000}}),
            (std::vector<double>{10 + 400, 140 + 6000, 4, 60}));
}

TEST(Gradients, OfSecondOrderNeedASingleNumber) {
  Graph g;
  const Value x = g.input("x", f64, {2});
  EXPECT_TRUE(hvp(x, std::span(&x, 1), std::span(&x, 1)).empty());
  EXPECT_NE(g.status().message().find("'x' has the shape [2]"), std::string::npos);
}

// d sum(y) / d x against differences, at some point; x is a vector.
void expect_differences(Graph& g, const Value& x, const Value& y) {
  const Value total = sum(y);
  Graph forward = g;
  forward.output("", forward.value(total.id()));
  g.output("", grad(total, {x})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  std::vector<double> at(x.dim(0).constant());
  for (size_t i = 0; i < at.size(); ++i) at[i] = std::sin(static_cast<double>(i * i));
  const std::vector<double> dx = evaluate(std::move(g), {at});
  for (size_t i = 0; i < at.size(); ++i) {
    constexpr double kStep = 1e-5;
    std::vector<double> above = at, below = at;
    above[i] += kStep;
    below[i] -= kStep;
    const double difference = evaluate(forward, {above})[0] - evaluate(forward, {below})[0];
    const double expected = difference / (2 * kStep);
    EXPECT_NEAR(dx[i], expected, 1e-7 * (1 + std::abs(expected))) << i;
  }
}

// Through log_softmax, because ctc_loss expects normalized log_probs.
TEST(Gradients, OfCtcLossEqualDifferences) {
  Graph g;
  const auto integers = [&](const std::vector<int64_t>& values, const Sizes& shape) {
    return g.constant(*TensorData::copy_of(view(values, shape)));
  };
  const Value x = g.input("x", f64, {48});
  const Value scores = log_softmax(reshape(x, {6, 2, 4}), 2);
  expect_differences(g, x,
                     g.call("ctc_loss", {scores, integers({1, 3, 2, 2, 1, 3}, {2, 3}),
                                         integers({6, 5}, {2}), integers({3, 2}, {2})}));
}

// x x^T + 3 stays symmetric however x changes, as both ops expect.
TEST(Gradients, OfSymmetricMatricesEqualDifferences) {
  for (const char* op : {"cholesky", "eigh"}) {
    SCOPED_TRACE(op);
    Graph g;
    const Value x = g.input("x", f64, {16}), square = reshape(x, {4, 4});
    const std::vector<double> three = {3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 3};
    const Value matrix = matmul(square, permute(square, {1, 0})) +
                         g.constant(*TensorData::copy_of(view(three, {4, 4})));
    const std::vector<Value> y = g.calls(op, {matrix});
    ASSERT_FALSE(y.empty()) << g.status().message();
    Value all = sum(y[0] * y[0] * y[0]);
    if (y.size() > 1) all = all + sum(y[1] * y[1] * y[1] * y[1]);  // the vectors' signs may differ
    expect_differences(g, x, all);
  }
}

TEST(Gradients, OfSecondOrderAreRefusedWhereNoRuleIsKnown) {
  Graph g;
  const Value x = g.input("x", f32, {1, 2, 3, 3}), grid = g.input("grid", f32, {1, 2, 2, 2});
  const Value y = sum(g.call("grid_sample", {x, grid}));
  const std::vector<Value> first = grad(y, {grid});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(grad(sum(first[0]), {grid}).empty()) << "not zero in silence";
  EXPECT_EQ(g.status().message(), "these ops have no gradient: grid_sample_grad");
}

TEST(Gradients, ListAllOpsWithoutOne) {
  constexpr OpDef kWave = {.signature = "acme.wave(x) -> y",
                           .infer = [](InferContext& c) -> Status {
                             c.out(0) = c.in(0);
                             return {};
                           }};
  constexpr OpDef kTide = {
      .name = "acme.tide", .signature = "acme.tide(x) -> y", .infer = kWave.infer};
  Registry registry;
  ASSERT_TRUE(registry.add(kWave).ok());
  ASSERT_TRUE(registry.add(kTide).ok());
  Graph g(registry);
  const Value x = g.input("x", f32, {2});
  const Value y = g.call("acme.tide", {g.call("neg", {g.call("acme.wave", {x})})});
  EXPECT_TRUE(grad(y, {x}).empty());
  EXPECT_EQ(g.status().message(), "these ops have no gradient: acme.tide, acme.wave");
  const Value other = g.input("other", f32, {2});
  (void)g.take_status();
  EXPECT_TRUE(grad(g.call("add", {y, g.call("acme.wave", {other})}), {x, other}).empty());
  EXPECT_EQ(g.status().message(), "these ops have no gradient: acme.tide, acme.wave");
  (void)g.take_status();
  EXPECT_TRUE(grad(g.call("igamma", {x, g.call("bessel_j0", {y})}), {x}).empty());
  EXPECT_EQ(g.status().message(),
            "these ops have no gradient: acme.tide, acme.wave, bessel_j0, igamma for its first "
            "argument");
}

}  // namespace
}  // namespace hg
