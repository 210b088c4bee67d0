// SPDX-License-Identifier: Apache-2.0
// Lazy expressions: when they run, what is known earlier, derivatives, and shared sessions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hg/expression.h"
#include "hg/hg.h"
#include "hg/lazy_ops.h"
#include "tests/support/must.h"

namespace hg {
namespace {

template <class T>
Array array_of(const std::vector<T>& values, const Sizes& shape) {
  return *Array::copy_of(view(values, shape));
}
Array scalar(double value) { return array_of(std::vector<double>{value}, {}); }

std::vector<double> numbers(const Array& array) {
  const Array whole = *Array::copy_of(array.tensor());
  std::vector<double> all;
  for (int64_t i = 0; i < whole.count(); ++i)
    all.push_back(whole.dtype() == f64   ? whole.as<double>()[i]
                  : whole.dtype() == f32 ? whole.as<float>()[i]
                                         : static_cast<double>(whole.as<int64_t>()[i]));
  return all;
}

using Numbers = std::vector<double>;

Numbers values(const Var& var) {
  const Result<Array> array = var.value();
  EXPECT_TRUE(array.ok()) << array.status().message();
  return array.ok() ? numbers(*array) : Numbers();
}
Numbers values_of(const Var& var) { return values(var); }
double number(const Var& var) {
  const Numbers all = values(var);
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? std::numeric_limits<double>::quiet_NaN() : all[0];
}

// -- When it runs ---------------------------------------------------------------------------------

TEST(Lazy, NothingRunsUntilAValueIsAsked) {
  const Lazy lazy(SessionOptions{});
  const Var a(scalar(3), lazy), b(scalar(5), lazy);
  const Var y = a * b + a;
  const Var dy = grad(y, a);
  EXPECT_EQ(y.shape(), Sizes{});
  EXPECT_EQ(y.dtype(), f64);
  EXPECT_EQ(lazy.counters().runs, 0);
  EXPECT_EQ(lazy.counters().plans, 0);
  EXPECT_EQ(number(y), 18);
  EXPECT_EQ(lazy.counters().runs, 1);
  EXPECT_EQ(number(dy), 6);
  EXPECT_EQ(lazy.counters().runs, 2);
}

TEST(Lazy, ExpressionsOfOneFormShareASession) {
  const Lazy lazy(SessionOptions{});
  for (int i = 1; i <= 5; ++i) {
    const Var a(scalar(i), lazy), b(scalar(2), lazy);
    EXPECT_EQ(number(a * b + a), 3 * i);
  }
  EXPECT_EQ(lazy.counters().plans, 1);
  EXPECT_EQ(lazy.counters().runs, 5);
  // One leaf used twice, or another shape, is another form; other numbers need only one more plan.
  const Var a(scalar(7), lazy);
  EXPECT_EQ(number(a * a + a), 56);
  EXPECT_EQ(number(a * 2 + a), 21);
  EXPECT_EQ(number(a * 3 + a), 28);
  EXPECT_EQ(values(Var(array_of<double>({1, 2}, {2}), lazy) * a + a), (Numbers{14, 21}));
  EXPECT_EQ(lazy.counters().plans, 5);
  // Leaves without a Lazy keep the one of their first evaluation.
  Var b(scalar(1));
  EXPECT_EQ(number(b + 1), 2);
  EXPECT_EQ(number(*(b + 1).evaluated() + 1), 3);
}

TEST(Lazy, PlansGoThatWereNotUsedForLongest) {
  const auto sum = [](const Lazy& lazy, int64_t size) {
    const Var x(array_of<float>(std::vector<float>(static_cast<size_t>(size), 1), {size}), lazy);
    return number(lazy::sum(lazy::exp(x) * 0 + x, {}));
  };
  const Lazy two(SessionOptions{}, 2);
  for (const int64_t size : {1, 2, 1, 3, 1, 2}) EXPECT_EQ(sum(two, size), double(size));
  EXPECT_EQ(two.counters().plans, 4);  // 3 evicted 2, which is planned again

  // A constant's memory counts, and the last plan stays whatever its size.
  const Lazy small(SessionOptions{}, 256, 10000);
  const Array ones = array_of<float>(std::vector<float>(2000, 1), {2000});
  const Var x(ones, small), one = Var::constant(ones, small);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(number(lazy::sum(x + one, {})), 4000);
  EXPECT_EQ(small.counters().plans, 1);
  const Var other = Var::constant(array_of<float>(std::vector<float>(2000, 2), {2000}), small);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(number(lazy::sum(x + other, {})), 6000);
    EXPECT_EQ(number(lazy::sum(x + one, {})), 4000);
  }
  EXPECT_EQ(small.counters().plans, 5);
}

// The first value of a number is a constant of the plan; one more plan reads all other values.
TEST(Lazy, NumbersThatChangeArePlannedOnce) {
  const Lazy lazy(SessionOptions{});
  const Array data = array_of<float>({1, -2, 3}, {3});
  Var w(array_of<float>({0, 0, 0}, {3}), lazy);
  std::vector<double> expected(3);
  for (int step = 0; step < 200; ++step) {
    const double rate = 0.5 / (1 + step);
    const Var x(data, lazy);
    w = *(w - rate * grad(lazy::sum(lazy::square(w - x) * 0.5, {}), w)).evaluated();
    for (size_t i = 0; i < 3; ++i) expected[i] -= rate * (expected[i] - numbers(data)[i]);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(values(w)[i], expected[i], 1e-5);
  EXPECT_LE(lazy.counters().plans, 3);  // for the two values of rate, and for w alone

  // For each dtype that the number takes in the expression, including integers, and for two at
  // once.
  const Var a(array_of<int64_t>({1, 2}, {2}), lazy), b(array_of<double>({1, 2}, {2}), lazy);
  const int64_t before = lazy.counters().plans;
  for (int k = 1; k < 50; ++k) {
    const Var factor = k, shift = 1.0 / k;
    EXPECT_EQ(values(a * factor), (Numbers{1.0 * k, 2.0 * k}));
    const Numbers sum = values(b * factor + lazy::sum(a * factor, {}) + shift);
    EXPECT_DOUBLE_EQ(sum[1], 5.0 * k + 1.0 / k);
  }
  EXPECT_EQ(lazy.counters().plans - before, 4);
  // The first number fits the dtype, a later one does not.
  const Var small(array_of<uint8_t>({1}, {1}), lazy);
  const auto at_most = [&](int most) { return lazy::clamp(small, 0, most).value(); };
  EXPECT_TRUE(at_most(1).ok());
  EXPECT_TRUE(at_most(2).ok());
  const Status large = at_most(300).status();
  EXPECT_NE(large.message().find("300"), std::string_view::npos) << large.message();
  EXPECT_TRUE(at_most(3).ok());
  for (const int number : {1, 2, 300}) {  // sums wrap, as in torch
    EXPECT_EQ(values(small + number), Numbers{double((1 + number) % 256)});
  }
}

TEST(Lazy, NumbersArePromotedAsInPyTorch) {
  const Var a(array_of<int64_t>({1, 2}, {2}));
  EXPECT_EQ((a * 2).dtype(), i64);
  EXPECT_EQ((a * 2.0).dtype(), f32);
  EXPECT_EQ((a / 2).dtype(), f32);
  EXPECT_EQ((a * Var(array_of<double>({1}, {1}))).dtype(), f64);
  EXPECT_EQ(values(a * 0.5), (Numbers{0.5, 1}));
  EXPECT_EQ(values(lazy::where(lazy::gt(a, 1), a, 0)), (Numbers{0, 2}));
}

TEST(Lazy, CommonPartsRunOnce) {
  const Lazy lazy(SessionOptions{.disabled_passes = {"programs"}});
  const Var x(array_of<float>({0.5f, 1}, {2}), lazy);
  const Var common = lazy::exp(x);
  const Var y = common + common * x, z = lazy::exp(x) - 1;  // written twice
  const std::vector<Array> both = must(evaluate({y, z}));
  EXPECT_FLOAT_EQ(static_cast<float>(numbers(both[1])[1]), std::exp(1.0f) - 1);
  EXPECT_EQ(lazy.counters().runs, 1);
  EXPECT_EQ(lazy.counters().nodes, 4);  // exp, mul, add, sub
}

TEST(Lazy, ConstantPartsAreComputedOnce) {
  const Lazy lazy(SessionOptions{.disabled_passes = {"programs"}});
  const Var table = Var::constant(array_of<float>({1, 2, 3, 4}, {2, 2}), lazy);
  const Var inverse = lazy::sum(lazy::exp(lazy::matmul(table, table)), {});
  Var x(array_of<float>({1}, {1}), lazy);
  const Var y = x * inverse;
  const double first = number(y);
  EXPECT_EQ(lazy.counters().nodes, 1);  // mul
  for (int i = 2; i < 10; ++i) {
    ASSERT_TRUE(x.set(array_of<float>({static_cast<float>(i)}, {1})).ok());
    EXPECT_FLOAT_EQ(static_cast<float>(number(y)), static_cast<float>(first * i));
  }
  EXPECT_EQ(lazy.counters().plans, 1);
  EXPECT_EQ(lazy.counters().nodes, 9);
}

TEST(Lazy, LeavesAreReadByEachRun) {
  std::vector<float> memory = {1, 2};
  const Var x(Array::wrap(view(memory, {2})));
  const Var y = x * 10;
  EXPECT_EQ(values(y), (Numbers{10, 20}));
  memory = {3, 4};
  EXPECT_EQ(values(y), (Numbers{30, 40}));

  Var named = Var::variable("w", f32, {2});
  EXPECT_EQ((named * 2).shape(), Sizes{2});
  EXPECT_EQ((named * 2).value().status().message(), "the leaf 'w' has no array");
  EXPECT_EQ(named.set(scalar(1)).message(), "'w' is f32[2], the array is f64[]");
  ASSERT_TRUE(named.set(array_of<float>({5, 6}, {2})).ok());
  EXPECT_EQ(values(named * 2), (Numbers{10, 12}));
}

TEST(Lazy, EachRunDrawsNumbersOfItsOwn) {
  const auto draw = [](uint64_t seed) {
    const Lazy lazy(SessionOptions{.seed = seed});
    const Var x(array_of<float>(std::vector<float>(64, 1), {64}), lazy);
    const Var once = lazy::dropout(x, 0.5, true), other = lazy::dropout(x, 0.5, true) * 1;
    std::vector<Numbers> all = {values(once), values(other), values(once)};
    const Var slope = grad(lazy::sum(once, {}), x);
    const std::vector<Array> both = must(evaluate({once, slope}));
    EXPECT_EQ(numbers(both[0]), numbers(both[1]));  // from one run
    all.push_back(numbers(both[0]));
    return all;
  };
  const std::vector<Numbers> first = draw(1), second = draw(2);
  EXPECT_EQ(draw(1), first);
  for (size_t i = 0; i < first.size(); ++i)
    for (size_t j = 0; j < first.size(); ++j) {
      EXPECT_NE(first[i], second[j]);
      if (i != j) {
        EXPECT_NE(first[i], first[j]);
      }
    }
}

// -- What it is before it runs --------------------------------------------------------------------

TEST(Lazy, TypesAndErrorsAreKnownBefore) {
  const Lazy lazy(SessionOptions{});
  const Var a(array_of<float>({1, 2, 3, 4, 5, 6}, {2, 3}), lazy);
  EXPECT_EQ(lazy::matmul(a, lazy::permute(a, {1, 0})).shape(), (Sizes{2, 2}));
  EXPECT_EQ(lazy::argmax(a, 1).dtype(), i64);
  EXPECT_EQ(jacobian(lazy::sum(a, {1}), a).shape(), (Sizes{2, 2, 3}));
  EXPECT_EQ(lazy::topk(a, 2)[1].shape(), (Sizes{2, 2}));
  const std::vector<Var> two = lazy::expression({a, a}, "low = a - 1; high = a * b");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].shape(), (Sizes{2, 3}));
  const Var wrong = lazy::matmul(a, a) + 1;
  EXPECT_FALSE(wrong.type().ok());
  EXPECT_EQ(wrong.type().status().message(), wrong.value().status().message());
  EXPECT_FALSE(Var().value().ok());
  EXPECT_EQ(lazy.counters().runs, 0);
}

TEST(Lazy, ExpressionsPrint) {
  Var a(scalar(3)), b(scalar(5));
  ASSERT_TRUE(a.set_name("a").ok() && b.set_name("b").ok());
  EXPECT_EQ((a * b + a).text(), "(a * b) + a");
  EXPECT_EQ((2 - a).text(), "2 - a");
  EXPECT_EQ(lazy::softmax(a, 0).text(), "softmax(a, dim=0)");
  const Var t = a * b;
  EXPECT_EQ((t + t * a).text(), "t0 = a * b\nt0 + (t0 * a)");
  EXPECT_EQ(grad(t, a).text(), "grad(a * b; a)");
  Var chain = a;
  for (int i = 0; i < 60; ++i) chain = chain + chain;
  EXPECT_LT(chain.text().size(), 2000u);
}

TEST(Lazy, NumbersStandOnBothSides) {
  const Var x(array_of<double>({3, 8}, {2}));
  EXPECT_EQ(values(2 - x), (Numbers{-1, -6}));
  EXPECT_EQ(values(x - 2), (Numbers{1, 6}));
  EXPECT_EQ(values(24.0 / x), (Numbers{8, 3}));
  EXPECT_EQ(values(x / 2), (Numbers{1.5, 4}));
  EXPECT_EQ(values(-x * 2 + 1), (Numbers{-5, -15}));
  EXPECT_EQ(values(lazy::maximum(x, 5)), (Numbers{5, 8}));
  EXPECT_EQ(values(2.5 * Var(array_of<int64_t>({1, 2}, {2}))), (Numbers{2.5, 5}));
}

TEST(Lazy, OpsArePure) {
  const Var x(array_of<double>({1, 2}, {2}));
  const Var y = x * 2, z = lazy::relu(y) + y;
  EXPECT_EQ(values(z), (Numbers{4, 8}));
  EXPECT_EQ(values(y), (Numbers{2, 4}));
  EXPECT_EQ(values(x), (Numbers{1, 2}));
}

// -- Derivatives ----------------------------------------------------------------------------------

TEST(Lazy, GradientsOfPartsThatAreUsedTwice) {
  const Var a(scalar(3)), b(scalar(5));
  const Var t = a * b;
  const Var y = t + (t * a) * a;
  EXPECT_EQ(number(y), 150);
  EXPECT_EQ(number(grad(y, a)), 140);
  EXPECT_EQ(number(grad(y, b)), 30);
  EXPECT_EQ(number(grad(y, t)), 10);  // by a part of y: 1 + a^2
  const std::vector<Var> both = grad(y, std::vector<Var>{a, b});
  const std::vector<Array> together = must(evaluate(both));
  EXPECT_EQ(numbers(together[0])[0], 140);
  EXPECT_EQ(numbers(together[1])[0], 30);
  EXPECT_EQ(number(grad(a * 2, b)), 0);
}

TEST(Lazy, AChainOfAHundredIsExact) {
  const double c = 1.0625;
  const Var leaf(scalar(3)), factor(scalar(c));
  Var y = leaf;
  double expected = 3, slope = 1, by_factor = 0;
  for (int i = 0; i < 100; ++i) {
    y = y * factor;
    by_factor = by_factor * c + expected;
    expected *= c;
    slope *= c;
  }
  EXPECT_EQ(number(y), expected);
  EXPECT_EQ(number(grad(y, leaf)), slope);
  EXPECT_NEAR(number(grad(y, factor)), by_factor, 1e-12 * by_factor);
}

TEST(Lazy, DerivativesOfAnyOrder) {
  const Var x(scalar(2));
  Var y = x * x * x * x;
  const double expected[] = {16, 32, 48, 48, 24, 0};
  for (const double value : expected) {
    EXPECT_DOUBLE_EQ(number(y), value);
    y = grad(y, x);
  }
  // Of an expression that contains a gradient.
  const Var slope = grad(lazy::exp(x * 3), x);
  EXPECT_NEAR(number(grad(slope * slope, x)), 2 * 9 * 3 * std::exp(12.0), 1e-6);
}

TEST(Lazy, JacobianHvpAndVjp) {
  const Var x(array_of<double>({1, 2, 3}, {3}));
  const Var y = x * x;
  EXPECT_EQ(values(jacobian(y, x)), (Numbers{2, 0, 0, 0, 4, 0, 0, 0, 6}));
  const Var seed(array_of<double>({10, 100, 1000}, {3}));
  EXPECT_EQ(values(vjp({&y, 1}, {&x, 1}, {&seed, 1})[0]), (Numbers{20, 400, 6000}));
  EXPECT_EQ(values(jvp({&y, 1}, {&x, 1}, {&seed, 1})[0]), (Numbers{20, 400, 6000}));
  EXPECT_EQ(values(jvp(std::vector{y, lazy::sum(y, {})}, {&x, 1}, {&seed, 1})[1]), (Numbers{6420}));
  // Of a Jacobian-vector product, which is an expression too.
  const Var along = jvp({&y, 1}, {&x, 1}, {&seed, 1})[0];
  EXPECT_EQ(values(jvp({&along, 1}, {&x, 1}, {&seed, 1})[0]), (Numbers{200, 20000, 2000000}));
  EXPECT_EQ(along.text(), "jvp(x0 * x0; x0; x1)");
  const Var cubes = lazy::sum(x * x * x, {});
  EXPECT_EQ(values(hvp(cubes, {&x, 1}, {&seed, 1})[0]), (Numbers{60, 1200, 18000}));
  const Var wrong(array_of<double>({1}, {1}));
  EXPECT_FALSE(vjp({&y, 1}, {&x, 1}, {&wrong, 1})[0].value().ok());
  EXPECT_FALSE(jvp({&y, 1}, {&x, 1}, {&wrong, 1})[0].value().ok());
}

TEST(Lazy, VmapIsTheFunctionOfEachSample) {
  const Var w(array_of<double>({1, 2, 3}, {3}));
  const Var batch(array_of<double>({1, 0, 0, 0, 1, 0, 1, 1, 1, 2, 2, 2}, {4, 3}));
  const auto f = [&](std::span<const Var> sample) {
    return lazy::sum(sample[0] * w, {}) * lazy::sum(sample[0], {});
  };
  const Var y = must(vmap(f, {&batch, 1}));
  EXPECT_EQ(y.shape(), Sizes{4});
  EXPECT_EQ(values(y), (Numbers{1, 2, 18, 72}));
  // A gradient per sample, which the gradient of a sum does not give.
  const auto slope = [&](std::span<const Var> sample) { return grad(f(sample), w); };
  const Var each = must(vmap(slope, {&batch, 1}));
  EXPECT_EQ(values(each), (Numbers{1, 0, 0, 0, 1, 0, 3, 3, 3, 12, 12, 12}));
}

// -- At work --------------------------------------------------------------------------------------

TEST(Lazy, LinearRegressionConverges) {
  constexpr int kSize = 128;
  const Lazy lazy(SessionOptions{.threads = 1});
  std::vector<float> inputs(kSize), wanted(kSize);
  for (int i = 0; i < kSize; ++i) {
    const auto k = static_cast<size_t>(i);
    inputs[k] = static_cast<float>(i) / kSize - 0.5f;
    wanted[k] = 3 * inputs[k] - 2;
  }
  const Var x(array_of(inputs, {kSize}), lazy), t(array_of(wanted, {kSize}), lazy);
  Var w(array_of<float>({0}, {}), lazy), b(array_of<float>({0}, {}), lazy);
  for (int step = 0; step < 20000; ++step) {
    const Var error = w * x + b - t;
    const Var loss = lazy::mean(error * error, {});
    const std::vector<Var> slopes = grad(loss, std::vector<Var>{w, b});
    const std::vector<Array> next = must(evaluate({w - 0.1 * slopes[0], b - 0.1 * slopes[1]}));
    ASSERT_TRUE(w.set(next[0]).ok() && b.set(next[1]).ok());
  }
  EXPECT_NEAR(number(w), 3, 1e-4);
  EXPECT_NEAR(number(b), -2, 1e-4);
  EXPECT_EQ(lazy.counters().plans, 2);  // one for the step, one for the reads
}

TEST(Lazy, OpenSizesTakeArraysOfAnySize) {
  const Dim n = Dim("n");
  Lazy lazy((SessionOptions()));
  Var x = Var::variable("x", {f32, {n, 3}}, lazy), b = Var::variable("b", {f32, {n, 1}}, lazy);
  const Var y = lazy::sum(x * x + b, {});
  const Var slope = grad(y, x);
  EXPECT_EQ((x * x + b).type()->shape, (Shape{n, 3}));
  EXPECT_EQ(slope.type()->shape, (Shape{n, 3}));
  for (const int64_t rows : {2, 5, 2}) {
    std::vector<float> values(rows * 3), bias(rows, 0.5f);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
    ASSERT_TRUE(x.set(array_of(values, {rows, 3})).ok() && b.set(array_of(bias, {rows, 1})).ok());
    double sum = 1.5 * double(rows);
    for (const float value : values) sum += double(value) * value;
    EXPECT_FLOAT_EQ(number(y), sum);
    Numbers expected;
    for (const float value : values) expected.push_back(2.0 * value);
    EXPECT_EQ(values_of(slope), expected);
  }
  EXPECT_EQ(lazy.counters().plans, 2);  // one for y, one for its slope
  EXPECT_FALSE(x.set(array_of(std::vector<float>(8), {2, 4})).ok());
  ASSERT_TRUE(x.set(array_of(std::vector<float>(9), {3, 3})).ok());
  const Result<Array> different = y.value();  // x has 3 rows, b has 2
  ASSERT_FALSE(different.ok());
  EXPECT_NE(different.status().message().find("n"), std::string::npos);
}

TEST(Lazy, ExpressionsBecomeModels) {
  const Dim n = Dim("n");
  const Var x = Var::variable("x", {f32, {n, 2}});
  const Var w(array_of(std::vector<float>{2, -3}, {2}));
  const Var y = lazy::sum(x * w + 1, {1});
  const std::pair<std::string, Var> outputs[] = {{"y", y}, {"slope", grad(y, x)}};
  const Model model = must(to_model(outputs));
  Session session = must(Session::create(model));
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(session.set_input("x", view(values, {3, 2})).ok() && session.run().ok());
  EXPECT_EQ(numbers(*Array::copy_of(*session.output("y"))), (Numbers{-2, -4, -6}));
  EXPECT_EQ(numbers(*Array::copy_of(*session.output("slope"))), (Numbers{2, -3, 2, -3, 2, -3}));
  const Var other = Var::variable("x", {f32, {n, 2}});
  const std::pair<std::string, Var> twice[] = {{"y", x + other}};
  EXPECT_FALSE(to_model(twice).ok());  // two inputs of one name
}

TEST(Lazy, LongChainsNeedNoStack) {
  Var y(scalar(0));
  for (int i = 0; i < 50000; ++i) y = y + 1;
  EXPECT_EQ(y.shape(), Sizes{});
}

// Python asks for the type after each call: the total time must not grow quadratically.
TEST(Lazy, TypesOfALongChainAreFoundOnce) {
  const Var x(scalar(3)), a(scalar(2));
  Var y = x;
  for (int i = 0; i < 100'000; ++i) {
    y = y + a;
    ASSERT_TRUE(y.type().ok());
  }
  Var z = x;  // evaluated and differentiated without recursion, in time that grows with its length
  for (int i = 0; i < 30'000; ++i) z = z + a;
  EXPECT_EQ(number(z), 60'003);
  EXPECT_EQ(number(grad(z, a)), 30'000);
}

TEST(Lazy, TextKernelsAreExpressions) {
  const TextKernel wave = *kernel("wave", "let k = 3; y = sin(x) * gain + k");
  const Var x = Var::variable("x", {f64, {"n"}});
  const std::vector<Var> built = must(wave.build({{"x", x}, {"gain", 2}}));
  const Var y = built[0] * 10;
  EXPECT_EQ(y.type()->shape, (Shape{"n"}));
  Var leaf = x;
  for (const std::vector<double>& given : {std::vector<double>{0, 1}, {2, 3, 4}}) {
    ASSERT_TRUE(leaf.set(array_of(given, {int64_t(given.size())})).ok());
    const Numbers now = values(y), slope = values(grad(y, x));
    for (size_t i = 0; i < given.size(); ++i) {
      EXPECT_NEAR(now[i], 10 * (2 * std::sin(given[i]) + 3), 1e-12);
      EXPECT_NEAR(slope[i], 20 * std::cos(given[i]), 1e-12);
    }
  }
  EXPECT_FALSE(wave.build({x}).ok());                     // gain is missing
  EXPECT_FALSE(wave.call({{"x", x}, {"gain", 2}}).ok());  // an expression is no tensor
}

}  // namespace
}  // namespace hg
