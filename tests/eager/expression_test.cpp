// SPDX-License-Identifier: Apache-2.0
// Text kernels: the language and its errors, types, broadcasting, calls, gradients, graphs.
#include "hg/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"
#include "lib/graph/split_mix.h"
#include "tests/support/compiled.h"
#include "tests/support/must.h"

namespace hg {
namespace {

TextKernel made(std::string text, KernelOptions options = {}) {
  return must(kernel("k", std::move(text), std::move(options)));
}

std::string error_of(std::string text, KernelOptions options = {}) {
  const Result<TextKernel> result = kernel("k", std::move(text), std::move(options));
  EXPECT_FALSE(result.ok());
  return std::string(result.status().message());
}

template <class T>
T value_at(const void* data, int64_t i) {
  return static_cast<const T*>(data)[i];
}

// Elements of any dtype, as doubles.
std::vector<double> numbers(const TensorData& data) {
  std::vector<double> all;
  for (int64_t i = 0; i < data.tensor.count(); ++i) {
    const void* p = data.tensor.data;
    switch (data.tensor.dtype) {
      case DType::f32:
        all.push_back(value_at<float>(p, i));
        break;
      case DType::f64:
        all.push_back(value_at<double>(p, i));
        break;
      case DType::f16:
        all.push_back(static_cast<float>(value_at<Half>(p, i)));
        break;
      case DType::bf16:
        all.push_back(static_cast<float>(value_at<BFloat16>(p, i)));
        break;
      case DType::i64:
        all.push_back(static_cast<double>(value_at<int64_t>(p, i)));
        break;
      case DType::i32:
        all.push_back(value_at<int32_t>(p, i));
        break;
      case DType::i16:
        all.push_back(value_at<int16_t>(p, i));
        break;
      case DType::i8:
        all.push_back(value_at<int8_t>(p, i));
        break;
      case DType::u8:
        all.push_back(value_at<uint8_t>(p, i));
        break;
      default:
        all.push_back(value_at<bool>(p, i));
        break;
    }
  }
  return all;
}

using Numbers = std::vector<double>;
using Arguments = TextKernel::Arguments;

std::vector<TensorData> results_of(const TextKernel& kernel, Arguments arguments,
                                   const CallOptions& options = {}) {
  Result<std::vector<TensorData>> y = kernel.call(arguments, options);
  EXPECT_TRUE(y.ok()) << y.status().message();
  return y.ok() ? *std::move(y) : std::vector<TensorData>(1);
}
Numbers call(const TextKernel& kernel, Arguments arguments, const CallOptions& options = {}) {
  return numbers(results_of(kernel, arguments, options)[0]);
}
Numbers call(std::string text, Arguments arguments = {}, const CallOptions& options = {}) {
  return call(made(std::move(text)), arguments, options);
}
std::string call_error(const TextKernel& kernel, Arguments arguments) {
  const Result<std::vector<TensorData>> y = kernel.call(arguments);
  EXPECT_FALSE(y.ok());
  return std::string(y.status().message());
}
Numbers gradient(const TextKernel& kernel, Arguments arguments, const std::string& of,
                 const BackwardOptions& options = {}) {
  Result<std::vector<TensorData>> dx = kernel.grad(arguments, {of}, options);
  EXPECT_TRUE(dx.ok()) << dx.status().message();
  return dx.ok() ? numbers((*dx)[0]) : Numbers();
}

const std::vector<float> kX = {1, 2, 3, 4};
const ConstTensor kFour = view(kX, {4});

// -- The stated values ----------------------------------------------------------------------------

TEST(Expression, PolynomialAndItsGradient) {
  const TextKernel polynomial = made("a*x*x + b*x + c");
  EXPECT_EQ(polynomial.parameters(), (std::vector<std::string>{"a", "x", "b", "c"}));
  const Arguments named = {{"a", 2.0}, {"b", 8.0}, {"c", -1.0}, {"x", kFour}};
  EXPECT_EQ(call(polynomial, named), (Numbers{9, 23, 41, 63}));
  EXPECT_EQ(call(polynomial, {2, kFour, 8, -1}), (Numbers{9, 23, 41, 63}));
  EXPECT_EQ(gradient(polynomial, named, "x"), (Numbers{12, 16, 20, 24}));
  EXPECT_EQ(gradient(polynomial, named, "a"), (Numbers{30}));
  EXPECT_EQ(gradient(polynomial, named, "c"), (Numbers{4}));
}

TEST(Expression, OneSessionForCallsOfOneKind) {
  const TextKernel polynomial = made("a*x*x + b*x + c");
  for (int i = 0; i < 5; ++i) {
    const double a = i;
    EXPECT_EQ(call(polynomial, {a, kFour, 8.0, -1.0})[1], 4 * a + 15);
  }
  EXPECT_EQ(polynomial.sessions_made(), 1);
  const TextKernel copy = polynomial;
  EXPECT_EQ(call(copy, {1.0, view(kX, {2, 2}), 8.0, -1.0})[0], 8);
  EXPECT_EQ(polynomial.sessions_made(), 2);
}

// -- The language ---------------------------------------------------------------------------------

TEST(Expression, LevelsOfBindingArePythons) {
  EXPECT_EQ(call("2 + 3 * 4"), Numbers{14});
  EXPECT_EQ(call("(2 + 3) * 4"), Numbers{20});
  EXPECT_EQ(call("-2 ** 2"), Numbers{-4});
  EXPECT_EQ(call("2 ** 3 ** 2"), Numbers{512});
  EXPECT_EQ(call("2.0 ** -1"), Numbers{0.5});
  EXPECT_EQ(call("7 - 2 - 1"), Numbers{4});
  EXPECT_EQ(call("-7 // 2"), Numbers{-4});
  EXPECT_EQ(call("-7 % 3"), Numbers{2});
  EXPECT_EQ(call("7 / 2"), Numbers{3.5});
  EXPECT_EQ(call("1 | 6 & 3 ^ 1"), Numbers{3});
  EXPECT_EQ(call("1 << 3 + 1"), Numbers{16});
  EXPECT_EQ(call("~5"), Numbers{-6});
  EXPECT_EQ(call("1 < 2 and not 3 < 2 or false"), Numbers{1});
  EXPECT_EQ(call("1 < 2 && !(3 < 2) || false"), Numbers{1});
  EXPECT_EQ(call("1 > 2 ? 3 : 4 > 3 ? 5 : 6"), Numbers{5});
  EXPECT_EQ(call("0x1F + 1. + .5 + 1e2"), Numbers{132.5f});
  EXPECT_EQ(call("min(3, 1, 2) + max(1.5, 2)"), Numbers{3});
  EXPECT_EQ(call("select(true, 1, 2) + where(false, 1, 2)"), Numbers{3});
  EXPECT_EQ(call("cos(pi)  # a comment\n"), Numbers{-1});
}

TEST(Expression, SaysWhatStandsForMissingArguments) {
  const auto defaults = made("(x, a = 2, b = -0.5, c = true) -> a*x*b + c").defaults();
  ASSERT_EQ(defaults.size(), size_t{4});
  EXPECT_FALSE(defaults[0]);
  EXPECT_EQ(defaults[1]->kind, i64);
  EXPECT_EQ(defaults[1]->whole, 2);
  EXPECT_EQ(defaults[2]->real, -0.5);
  EXPECT_EQ(defaults[3]->kind, boolean);
}

TEST(Expression, NamesStatementsAndOutputs) {
  const TextKernel two = made("let t = a * x; low = t - 1; high = t + 1;");
  EXPECT_EQ(two.outputs(), (std::vector<std::string>{"low", "high"}));
  const std::vector<TensorData> y = results_of(two, {2.0, kFour});
  EXPECT_EQ(numbers(y[0]), (Numbers{1, 3, 5, 7}));
  EXPECT_EQ(numbers(y[1]), (Numbers{3, 5, 7, 9}));
  // Every output has the shape of the call.
  EXPECT_EQ(numbers(results_of(made("u = 2*a; v = x"), {2.0, kFour})[0]), (Numbers{4, 4, 4, 4}));

  const TextKernel declared = made("(x: f32, n: i64, eps = 0.5) -> x * n + eps");
  EXPECT_EQ(declared.parameters(), (std::vector<std::string>{"x", "n", "eps"}));
  EXPECT_EQ(call(declared, {kFour, 2}), (Numbers{2.5, 4.5, 6.5, 8.5}));
  EXPECT_EQ(call(declared, {kFour, 2, {"eps", 1}}), (Numbers{3, 5, 7, 9}));
  EXPECT_EQ(call_error(declared, {1, kFour}), "kernel 'k': 'n' is f32, but is declared i64");
}

TEST(Expression, FunctionsAreTheElementwiseOps) {
  EXPECT_EQ(call("clamp(x, 2, 3)", {kFour}), (Numbers{2, 2, 3, 3}));
  EXPECT_EQ(call("clamp(x, max=2)", {kFour}), (Numbers{1, 2, 2, 2}));
  EXPECT_EQ(call("leaky_relu(1.5 - x, negative_slope=0.5)", {kFour}),
            (Numbers{0.5, -0.25, -0.75, -1.25}));
  EXPECT_EQ(call("relu(x - 2) + square(x)", {kFour}), (Numbers{1, 4, 10, 18}));
  EXPECT_FLOAT_EQ(static_cast<float>(call("gelu(x, approximate='tanh')", {kFour})[0]), 0.841192f);
  EXPECT_EQ(call("mse_loss(x, 2, reduction='none')", {kFour}), (Numbers{1, 0, 1, 4}));
  EXPECT_EQ(call("round(x / 3, 2)", {kFour}), (Numbers{0.33f, 0.67f, 1, 1.33f}));
}

TEST(Expression, ErrorsNameLineAndColumn) {
  EXPECT_EQ(error_of("a +\n  sinn(x)"),
            "kernel 'k', line 2, column 3: unknown function 'sinn'; did you mean 'sign'?");
  EXPECT_EQ(error_of("a + "),
            "kernel 'k', line 1, column 5: the text ends where a value was expected");
  EXPECT_EQ(error_of("(a + b"),
            "kernel 'k', line 1, column 7: the text ends where ')' was expected");
  EXPECT_EQ(error_of("a $ b"), "kernel 'k', line 1, column 3: '$' means nothing here");
  EXPECT_EQ(error_of("a b"), "kernel 'k', line 1, column 3: 'b' stands where ';' was expected");
  EXPECT_EQ(error_of("3x"), "kernel 'k', line 1, column 1: a number cannot go on with 'x'");
  EXPECT_EQ(error_of("99999999999999999999"),
            "kernel 'k', line 1, column 1: 99999999999999999999 does not fit i64");
  EXPECT_EQ(error_of("a < b < c"),
            "kernel 'k', line 1, column 7: comparisons do not chain: write a < b and b < c");
  EXPECT_EQ(error_of(""), "kernel 'k', line 1, column 1: the text gives no result");
  EXPECT_EQ(error_of("let t = 1"), "kernel 'k', line 1, column 10: the text gives no result");
  EXPECT_EQ(error_of("x = x + 1"), "kernel 'k', line 1, column 1: 'x' has a value already");
  EXPECT_EQ(error_of("let pi = 3; pi"),
            "kernel 'k', line 1, column 5: 'pi' cannot be given a value");
  EXPECT_EQ(error_of("(a) -> a + b"), "kernel 'k', line 1, column 12: 'b' is not declared");
  EXPECT_EQ(error_of("(a, a) -> a"), "kernel 'k', line 1, column 5: there are two parameters 'a'");
  EXPECT_EQ(error_of("sum(x)"),
            "kernel 'k', line 1, column 1: 'sum' is no function of one element");
  EXPECT_EQ(error_of("gelu(x, approximate='tanh)"),
            "kernel 'k', line 1, column 21: the quote does not end");
  EXPECT_EQ(
      error_of("u = a; u + 1"),
      "kernel 'k', line 1, column 8: the last result has no name, but 'u' has; name it too, or "
      "bind 'u' with let");
  EXPECT_EQ(call_error(made("clamp(x, 1, 2, 3)"), {kFour}),
            "kernel 'k', line 1, column 1: 'clamp' takes at most 3 arguments, there are 4");
  EXPECT_EQ(call_error(made("atan2(x)"), {kFour}),
            "kernel 'k', line 1, column 1: 'atan2' lacks its argument 'b'");
  EXPECT_EQ(call_error(made("sin(x, p=1)"), {kFour}),
            "kernel 'k', line 1, column 1: 'sin' has no argument 'p'");
  EXPECT_EQ(call_error(made("mse_loss(x, 2)"), {kFour}),
            "kernel 'k', line 1, column 1: 'mse_loss' is no function of one element");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "(";
  EXPECT_EQ(error_of(deep + "x"),
            "kernel 'k', line 1, column 201: more than 200 parentheses are open");
}

TEST(Expression, LongTextsNeedNoStack) {
  std::string text = "x";
  for (int i = 0; i < 5000; ++i) text += " + 1";
  EXPECT_EQ(call(text, {kFour}), (Numbers{5001, 5002, 5003, 5004}));
}

TEST(Expression, ArgumentsAreNamedInErrors) {
  const TextKernel sum = made("a + b");
  EXPECT_EQ(call_error(sum, {1}), "kernel 'k': 'b' is missing");
  EXPECT_EQ(call_error(sum, {1, 2, 3}), "kernel 'k' has 2 parameters, there are 3 arguments");
  EXPECT_EQ(call_error(sum, {1, {"a", 2}}), "kernel 'k': 'a' is given twice");
  EXPECT_EQ(call_error(sum, {{"c", 2}}), "kernel 'k' has no parameter 'c', but a, b");
  EXPECT_EQ(call_error(sum, {kFour, view(kX, {3})}),
            "kernel 'k': 'b' is [3], which does not broadcast to [4] of the arguments before it");
  const std::vector<int64_t> whole = {1, 2};
  const Result<std::vector<TensorData>> dx = sum.grad({view(whole, {2}), kFour}, {"a"});
  EXPECT_EQ(dx.status().message(), "kernel 'k': 'a' is i64, which has no gradient");
}

// -- Types and shapes -----------------------------------------------------------------------------

TEST(Expression, BroadcastsAsNumpyUnlessStrict) {
  const std::vector<float> column = {10, 20};
  EXPECT_EQ(call("a + b", {view(kX, {4}), view(column, {2, 1})}),
            (Numbers{11, 12, 13, 14, 21, 22, 23, 24}));
  const TextKernel strict = made("a + b", {.strict = true});
  EXPECT_EQ(call(strict, {kFour, 1}), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(call(strict, {kFour, view(column, {})}), (Numbers{11, 12, 13, 14}));
  EXPECT_EQ(call(strict, {kFour, kFour}), (Numbers{2, 4, 6, 8}));
  EXPECT_EQ(call_error(strict, {kFour, view(column, {1})}),
            "kernel 'k': strict shapes differ: 'a' is [4], 'b' is [1]");
}

TEST(Expression, StridesAndNoElements) {
  const ConstTensor every_second(kX.data(), f32, {2}, {2});
  const ConstTensor backwards(kX.data() + 3, f32, {4}, {-1});
  const ConstTensor repeated(kX.data() + 1, f32, {4}, {0});
  EXPECT_EQ(call("x * 2", {every_second}), (Numbers{2, 6}));
  EXPECT_EQ(call("x + y * 10", {backwards, repeated}), (Numbers{24, 23, 22, 21}));
  EXPECT_EQ(gradient(made("x * x"), {every_second}, "x"), (Numbers{2, 6}));
  const std::vector<TensorData> none =
      results_of(made("x * 2 + y"), {view(kX.data(), f32, {0, 4}), kFour});
  EXPECT_EQ(none[0].tensor.shape, (Sizes{0, 4}));
  EXPECT_EQ(gradient(made("x * 2 + y"), {view(kX.data(), f32, {0, 4}), kFour}, "y"),
            (Numbers{0, 0, 0, 0}));
}

TEST(Expression, NumbersAdaptAndTensorsPromoteAsInTorch) {
  const auto dtype_of = [](std::string text, Arguments arguments) {
    return results_of(made(std::move(text)), arguments)[0].tensor.dtype;
  };
  const std::vector<Half> half = {Half(1.0f), Half(2.0f)};
  const std::vector<int64_t> whole = {3, 4};
  const std::vector<uint8_t> byte = {5, 6};
  const std::vector<int8_t> small = {-5, 6};
  const std::vector<double> wide = {1, 2};
  const ConstTensor h = view(half, {2}), w = view(whole, {2}), b = view(byte, {2});
  const ConstTensor s = view(small, {2}), d = view(wide, {2}), d0 = view(wide, {});
  EXPECT_EQ(dtype_of("x * 2.5", {h}), f16);
  EXPECT_EQ(dtype_of("x * y", {h, d0}), f16);
  EXPECT_EQ(dtype_of("x * y", {h, d}), f64);
  EXPECT_EQ(dtype_of("x * y", {h, w}), f16);
  EXPECT_EQ(dtype_of("x * 2", {w}), i64);
  EXPECT_EQ(dtype_of("x * 2.0", {w}), f32);
  EXPECT_EQ(dtype_of("x * y", {w, d0}), f64);
  EXPECT_EQ(dtype_of("x / 2", {w}), f32);
  EXPECT_EQ(dtype_of("x + y", {b, s}), i16);
  EXPECT_EQ(dtype_of("x < y", {b, s}), boolean);
  EXPECT_EQ(dtype_of("sin(x)", {b}), f32);
  EXPECT_EQ(dtype_of("floor(x)", {b}), u8);
  EXPECT_EQ(dtype_of("f16(x) + i8(x)", {b}), f16);
  EXPECT_EQ(dtype_of("cast(x, dtype='bf16')", {b}), bf16);
  EXPECT_EQ(dtype_of("2 * 3", {}), i64);
  EXPECT_EQ(dtype_of("2 * 3.0", {}), f32);
  EXPECT_EQ(dtype_of("x > 3 ? 1.5 : 2", {w}), f32);
  EXPECT_EQ(call("i32(x * 1.5)", {w}), (Numbers{4, 6}));
  EXPECT_EQ(call_error(made("x + 300"), {b}),
            "kernel 'k', line 1, column 3: the number 300 does not fit u8");
  EXPECT_EQ(call_error(made("x ** -1"), {w}),
            "kernel 'k', line 1, column 3: integers have no power of -1");
}

// -- Generators -----------------------------------------------------------------------------------

TEST(Expression, Indices) {
  const CallOptions shape = {.shape = {2, 3}};
  EXPECT_EQ(call("id()", {}, shape), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(call("id(0)", {}, shape), (Numbers{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(call("id(-1) * 0.5", {}, shape), (Numbers{0, 0.5, 1, 0, 0.5, 1}));
  EXPECT_EQ(call("x * id()", {kFour}), (Numbers{0, 2, 6, 12}));
  EXPECT_EQ(gradient(made("x * id()"), {kFour}, "x"), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(call("id()"), Numbers{0});
  EXPECT_EQ(call_error(made("x + id(1)"), {kFour}),
            "kernel 'k', line 1, column 5: id(1) of a call over [4]");
}

TEST(Expression, RandomNumbersDependOnSeedAndPlaceAlone) {
  const CallOptions shape = {.shape = {100, 10}};
  const TextKernel rand = made("rand(seed)");
  const Numbers y = call(rand, {{"seed", 7}}, shape);
  uint64_t seed_state = uint64_t{7} - kSplitMixStep;
  uint64_t state = split_mix(seed_state);  // mix(7)
  for (const double value : y)
    ASSERT_EQ(value, static_cast<double>(split_mix(state) >> 40) / (1 << 24));
  EXPECT_EQ(call(rand, {{"seed", 7}}, shape), y);
  EXPECT_NE(call(rand, {{"seed", 8}}, shape), y);
  EXPECT_NEAR(std::accumulate(y.begin(), y.end(), 0.0) / 1000, 0.5, 0.03);
}

// -- Gradients ------------------------------------------------------------------------------------

TEST(Expression, BackwardOfOnesOwn) {
  // A step function with the gradient of the identity times 10, to recognize it.
  const TextKernel step = made("y = x > b ? 1.0 : 0.0", {.backward = "dx = dy * 10 + 0 * y"});
  EXPECT_EQ(call(step, {kFour, 2.5}), (Numbers{0, 0, 1, 1}));
  EXPECT_EQ(gradient(step, {kFour, 2.5}, "x"), (Numbers{10, 10, 10, 10}));
  const std::vector<float> seed = {1, 2, 3, 4};
  EXPECT_EQ(gradient(step, {kFour, 2.5}, "x", {.output_gradients = {view(seed, {4})}}),
            (Numbers{10, 20, 30, 40}));
  // Summed over the dims that broadcasting added.
  EXPECT_EQ(gradient(made("out = x * y", {.backward = "dx = dout; dy = dout"}),
                     {kFour, view(kX, {1})}, "y"),
            Numbers{4});
  const Result<std::vector<TensorData>> db = step.grad({kFour, 2.5}, {"b"});
  EXPECT_EQ(db.status().message(),
            "these ops have no gradient: expression 'k' has no backward for 'b'");
  EXPECT_EQ(error_of("x", {.backward = "dx = dy"}),
            "kernel 'backward of k', line 1, column 6: 'dy' is not declared");
  EXPECT_EQ(error_of("x", {.backward = "dq = dout"}), "kernel 'k' has no parameter 'q', but x");
}

TEST(Expression, GradientsAddOrOverwrite) {
  const TextKernel square = made("x * x");
  std::vector<float> dx = {100, 200, 300, 400};
  const GradientTarget target{"x", view(dx, {4})};
  ASSERT_TRUE(square.backward({kFour}, {&target, 1}, {.accumulate = true}).ok());
  EXPECT_EQ(dx, (std::vector<float>{102, 204, 306, 408}));
  ASSERT_TRUE(square.backward({kFour}, {&target, 1}).ok());
  EXPECT_EQ(dx, (std::vector<float>{2, 4, 6, 8}));
}

TEST(Expression, InPlace) {
  std::vector<float> x = {1, 2, 3, 4};
  const Tensor both = view(x, {4});
  ASSERT_TRUE(made("x * x + 1").call_into({&both, 1}, {both}).ok());
  EXPECT_EQ(x, (std::vector<float>{2, 5, 10, 17}));
}

// -- Graphs ---------------------------------------------------------------------------------------

TEST(Expression, InAGraphOneKernelAndDifferentiable) {
  Graph graph;
  const Value x = graph.input("x", f32, {"n", 4});
  const TextKernel wave = made("let t = sin(a * x); t * t + x");
  const std::vector<Value> y = wave.build(graph, {0.5, x});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(y[0].shape(), x.shape());
  graph.output("y", y[0]);
  const std::string text = compiled(graph);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find("pointwise_program"), std::string::npos) << text;
  const std::vector<Value> dx = grad(y[0], {x});
  EXPECT_TRUE(graph.status().ok());

  Graph other;
  EXPECT_TRUE(wave.build(other, {0.5, x}).empty());
  EXPECT_EQ(other.status().message(), "kernel 'k': 'x' is not a value of this graph");
}

TEST(Expression, BackwardOfOnesOwnIsKeptInTheFile) {
  Graph graph;
  const Value x = graph.input("x", f32, {"n"});
  const TextKernel clip = made("y = clamp(x, -1, 1)", {.backward = "dx = dy"});
  graph.output("y", clip.build(graph, {x})[0]);
  const std::vector<std::byte> bytes = *Model::from_graph(std::move(graph))->serialize();
  Model model = *Model::read(bytes);
  Graph& read = model.graph();
  const Value y = read.value(read.outputs()[0].second);
  read.output("dx", grad(y, {read.value(read.inputs()[0])})[0]);
  Session session = *Session::create(model);
  ASSERT_TRUE(session.set_input(0, kFour).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(session.output("y")->as<float>()[3], 1);
  TensorData dx = *TensorData::copy_of(*session.output("dx"));
  EXPECT_EQ(numbers(dx), (Numbers{1, 1, 1, 1}));
}

// -- Vectors, structs and maps --------------------------------------------------------------------

TEST(Expression, ArgumentsMapToDims) {
  std::vector<float> a(10), b(20);
  std::iota(a.begin(), a.end(), 0.0f);
  std::iota(b.begin(), b.end(), 0.0f);
  const TextKernel product = made("a * b");
  const std::vector<TensorData> outer =
      results_of(product, {{"a", view(a, {10}), {0}}, {"b", view(b, {20}), {1}}});
  ASSERT_EQ(outer[0].tensor.shape, (Sizes{10, 20}));
  const Numbers y = numbers(outer[0]);
  for (size_t i = 0; i < 10; ++i)
    for (size_t j = 0; j < 20; ++j) ASSERT_EQ(y[i * 20 + j], static_cast<double>(i * j));
  EXPECT_EQ(gradient(product, {{"a", view(a, {10}), {0}}, {"b", view(b, {20}), {1}}}, "a"),
            Numbers(10, 190));
  // Dims may change their order.
  EXPECT_EQ(call("a + 0", {{"a", view(kX, {2, 2}), {1, 0}}}), (Numbers{1, 3, 2, 4}));
  EXPECT_EQ(call_error(product, {{"a", view(a, {10}), {0, 1}}, 1}),
            "kernel 'k': 'a' is mapped to 2 dims, which must be different, but has 1");
}

TEST(Expression, SmallVectors) {
  const std::vector<float> v = {1, 2, 3, 4, 5, 6}, w = {1, 0, 2};
  const TextKernel dot = made("(v: f32[3], w: f32[3]) -> dot(v, w)");
  EXPECT_EQ(call(dot, {view(v, {2, 3}), view(w, {3})}), (Numbers{7, 16}));
  EXPECT_EQ(gradient(dot, {view(v, {2, 3}), view(w, {3})}, "w"), (Numbers{5, 7, 9}));
  EXPECT_EQ(call("(v: f32[3]) -> v.x * v[1] + v.z", {view(v, {2, 3})}), (Numbers{5, 26}));
  EXPECT_EQ(call("(v: f32[3], s) -> v * s + vec(1, 0, 0)", {view(v, {2, 3}), 2}),
            (Numbers{3, 4, 6, 9, 10, 12}));
  EXPECT_EQ(call("(v: f32[3], w: f32[3]) -> cross(v, w)", {view(v, {2, 3}), view(w, {3})}),
            (Numbers{4, 1, -2, 10, -2, -5}));
  EXPECT_EQ(call("(v: f32[2]) -> length(v)", {view(kX.data() + 2, f32, {2})}), Numbers{5});
  EXPECT_EQ(call_error(dot, {view(v, {3, 2}), view(w, {3})}),
            "kernel 'k': 'v' is [3, 2], but has 3 components along its last dim");
  EXPECT_EQ(call_error(made("(v: f32[3], w: f32[2]) -> v + w"), {view(v, {2, 3}), view(w, {2})}),
            "kernel 'k', line 1, column 29: vectors of 3 and of 2 components meet");
}

TEST(Expression, StructsOfTensors) {
  const std::vector<float> mass = {1, 2}, at = {1, 2, 3, 4};
  const TextKernel energy =
      made("(p.mass: f32, p.speed: f32[2]) -> 0.5 * p.mass * dot(p.speed, p.speed)");
  EXPECT_EQ(call(energy, {{"p", {{"mass", view(mass, {2})}, {"speed", view(at, {2, 2})}}}}),
            (Numbers{2.5, 25}));
  EXPECT_EQ(call("p.a + p.b", {{"p", {{"a", kFour}, {"b", 1}}}}), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(call_error(energy, {{"p", {{"mass", 1.0}}}}), "kernel 'k': 'p.speed' is missing");
}

}  // namespace
}  // namespace hg
