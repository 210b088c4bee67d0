// SPDX-License-Identifier: Apache-2.0
// Dims, the builder, its errors, verification and graphs as text.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include "hg/hg.h"
#include "lib/graph/access.h"

namespace hg {
namespace {

std::string normal(const char* expression) {
  const Result<Dim> dim = Dim::parse(expression);
  return dim.ok() ? text(*dim) : std::string(dim.status().message());
}

TEST(Dim, HasOneNormalForm) {
  EXPECT_EQ(normal("(n + 1) * 2 - 2"), "2*n");
  EXPECT_EQ(normal("floordiv(n * 6, 6)"), "n");
  EXPECT_EQ(normal("floordiv(4*n + 7, 4)"), "n + 1");
  EXPECT_EQ(normal("floordiv(n*h*w + n*w, n)"), "h*w + w");
  EXPECT_EQ(normal("mod(4*n + 3, 4)"), "3");
  EXPECT_EQ(normal("min(n, n - 1)"), "n - 1");
  EXPECT_EQ(normal("max(min(t, 512), t)"), "t");
  EXPECT_EQ(normal("floordiv(floordiv(n, 2), 3)"), "floordiv(n, 6)");
  EXPECT_EQ(normal("max(8*floordiv(w + 3, 32), floordiv(w + 3, 4))"), "floordiv(w + 3, 4)");
  EXPECT_EQ(normal("min(n, 4*floordiv(n + 3, 4))"), "n");
  EXPECT_EQ(normal("max(n + 1, 4*floordiv(n, 4))"), "n + 1");
  EXPECT_EQ(normal("min(n, 4*floordiv(n + 2, 4))"), "min(4*floordiv(n + 2, 4), n)");
  EXPECT_EQ(normal("mod(3*mod(n, 8), 4)"), "mod(3*n, 4)");
  EXPECT_EQ(normal("n + mod(8 - mod(n, 8), 8)"), "8*floordiv(n + 7, 8)");
  EXPECT_EQ(normal("n - mod(n, 8)"), "8*floordiv(n, 8)");
  EXPECT_EQ(normal("n + 1 + mod(n, 8)"), "mod(n, 8) + n + 1");
  EXPECT_EQ(normal("floordiv(n + mod(7 * n, 8), 8) * 8 + mod(h, 2)"),
            "8*floordiv(n + 7, 8) + mod(h, 2)");
  EXPECT_EQ(normal("w*h - h*w"), "0");
}

// A size, and what it is for each of some values of n, h and w.
struct Sized {
  Dim dim;
  std::array<int64_t, 8> values;
};

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Sized random_size(std::mt19937& random, int depth) {
  Sized y;
  const auto draw = [&](int64_t below) { return static_cast<int64_t>(random()) % below; };
  if (depth == 0 || draw(8) == 0) {
    const size_t symbol = static_cast<size_t>(draw(4));
    const Dim kLeaves[] = {"n", "h", "w", draw(12) - 3};
    y.dim = kLeaves[symbol];
    for (size_t i = 0; i < y.values.size(); ++i)
      y.values[i] =
          symbol == 3 ? y.dim.constant() : static_cast<int64_t>(i * (5 + 6 * symbol) % 37);
    return y;
  }
  const Sized a = random_size(random, depth - 1), b = random_size(random, depth - 1);
  const int64_t k = 1 + draw(8), op = draw(8);
  const Dim kDims[] = {a.dim + b.dim,      a.dim - b.dim,    a.dim * (k - 4),
                       floordiv(a.dim, k), mod(a.dim, k),    a.dim + mod(-1 * a.dim, k),
                       min(a.dim, b.dim),  max(a.dim, b.dim)};
  y.dim = kDims[op];
  for (size_t i = 0; i < y.values.size(); ++i) {
    const int64_t x = a.values[i], z = b.values[i];
    const int64_t kValues[] = {x + z,
                               x - z,
                               x * (k - 4),
                               floor_of(x, k),
                               x - floor_of(x, k) * k,
                               -floor_of(-x, k) * k,
                               std::min(x, z),
                               std::max(x, z)};
    y.values[i] = kValues[op];
  }
  return y;
}

TEST(Dim, SimplificationsKeepValuesAndBounds) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const Sized size = random_size(random, 4);
    for (size_t i = 0; i < size.values.size(); ++i) {
      Bindings bindings;
      for (const auto& [symbol, step] : {std::pair{"n", 5}, {"h", 11}, {"w", 17}})
        ASSERT_TRUE(bindings.bind(symbol, static_cast<int64_t>(i) * step % 37).ok());
      EXPECT_EQ(*size.dim.evaluate(bindings), size.values[i])
          << text(size.dim) << ", trial " << trial;
      EXPECT_LE(size.dim.lower_bound(), size.values[i]) << text(size.dim) << ", trial " << trial;
      EXPECT_GE(size.dim.upper_bound(), size.values[i]) << text(size.dim) << ", trial " << trial;
    }
  }
}

TEST(Dim, PrintsWhatItParses) {
  for (const char* expression :
       {"n", "-n + 3", "floordiv(h - 1, 2) + 1", "2*h*w + 7", "max(n, mod(m, 5))"}) {
    const Result<Dim> dim = Dim::parse(expression);
    ASSERT_TRUE(dim.ok());
    const Result<Dim> again = Dim::parse(text(*dim));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*dim, *again) << expression;
  }
}

TEST(Dim, EvaluatesLikeTheExpressionItCameFrom) {
  for (int64_t n = 0; n < 9; ++n) {
    for (int64_t h = 1; h < 9; ++h) {
      Bindings bindings;
      ASSERT_TRUE(bindings.bind("n", n).ok());
      ASSERT_TRUE(bindings.bind("h", h).ok());
      const Dim a = floordiv(Dim("n") * 3 - Dim("h"), 4) + mod(Dim("n") * 5 + 2, 3);
      const int64_t x = 3 * n - h;
      const int64_t expected = (x >= 0 ? x / 4 : -((-x + 3) / 4)) + (5 * n + 2) % 3;
      EXPECT_EQ(*a.evaluate(bindings), expected);
      EXPECT_EQ(a.substitute(bindings), Dim(expected));
      EXPECT_EQ(*max(Dim("n"), Dim("h") * 2).evaluate(bindings), std::max(n, 2 * h));
    }
  }
}

TEST(Dim, RefusesWhatIsNotASize) {
  EXPECT_FALSE(Dim::parse("n +").ok());
  EXPECT_FALSE(Dim::parse("sqrt(n, 2)").ok());
  EXPECT_FALSE(Dim::parse("99999999999999999999").ok());
  EXPECT_FALSE(Dim::parse(std::string(1000, '(')).ok());
  EXPECT_FALSE(floordiv(Dim("n"), Dim("m") - 1)
                   .evaluate([] {
                     Bindings b;
                     (void)b.bind("n", 1);
                     (void)b.bind("m", 1);
                     return b;
                   }())
                   .ok());
}

// Twenty sums of five symbols have 10626 products.
TEST(Dim, LongProductsAreNotMultipliedOut) {
  Dim product = 1, again = 1;
  for (int i = 0; i < 20; ++i) {
    product = product * (Dim("a") + Dim("b") + Dim("c") + Dim("d") + Dim("e"));
    again = again * (Dim("e") + Dim("d") + Dim("c") + Dim("b") + Dim("a"));
  }
  EXPECT_EQ(product, again);
  Bindings bindings;
  for (const char* symbol : {"a", "b", "c", "d"}) ASSERT_TRUE(bindings.bind(symbol, 0).ok());
  EXPECT_EQ(product.substitute(bindings).evaluate(bindings).ok(), false);
  ASSERT_TRUE(bindings.bind("e", 2).ok());
  EXPECT_EQ(*product.evaluate(bindings), 1 << 20);
  EXPECT_EQ(product.substitute(bindings), Dim(1 << 20));
  const Result<Dim> parsed = Dim::parse(text(product));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(*parsed, product);
  EXPECT_LE(text(product).size(), 4096u);
}

TEST(Broadcast, FollowsTorch) {
  EXPECT_EQ(*broadcast({2, 1, 4}, {3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(*broadcast({"n", 1}, {"n", 5}), (Shape{"n", 5}));
  EXPECT_EQ(*broadcast({"n"}, {7}), Shape{7});
  EXPECT_EQ(*broadcast({0}, {1}), Shape{0});
  EXPECT_FALSE(broadcast({2}, {3}).ok());
}

TEST(Promote, FollowsTorch) {
  EXPECT_EQ(promote(u8, i8), i16);
  EXPECT_EQ(promote(u8, i64), i64);
  EXPECT_EQ(promote(f16, bf16), f32);
  EXPECT_EQ(promote(i64, f16), f16);
  EXPECT_EQ(promote(boolean, u8), u8);
}

TEST(Graph, KeepsTheFirstErrorAndNamesIt) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 3});
  const Value bad = g.call("relo", {x});
  EXPECT_FALSE(bad);
  (void)g.call("relu", {bad});
  EXPECT_EQ(g.status().code(), Code::unsupported);
  EXPECT_EQ(g.status().message(), "the op 'relo' is not registered; did you mean 'relu'?");
  EXPECT_FALSE(g.take_status().ok());
  EXPECT_TRUE(g.status().ok());
}

TEST(Graph, ChecksAttributesAndInputs) {
  const auto message = [](auto build) {
    Graph g;
    const Value x = g.input("x", f32, {2, 3});
    build(g, x);
    return std::string(g.status().message());
  };
  EXPECT_NE(message([](Graph& g, Value x) {
              (void)g.call("softmax", {x}, {{"axis", 1}});
            }).find("there is no attribute 'axis'"),
            std::string::npos);
  EXPECT_NE(message([](Graph& g, Value x) {
              (void)g.call("softmax", {x}, {{"dim", "last"}});
            }).find("not of type int"),
            std::string::npos);
  EXPECT_NE(message([](Graph& g, Value x) {
              (void)g.call("softmax", {x}, {{"dim", 2}});
            }).find("dim 2 is not in [-2, 1]"),
            std::string::npos);
  EXPECT_NE(message([](Graph& g, Value x) { (void)g.call("add", {x}); }).find("is missing"),
            std::string::npos);
  EXPECT_NE(message([](Graph& g, Value) { (void)g.input("x", f32, {}); }).find("two values"),
            std::string::npos);
}

TEST(Graph, AsText) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 3});
  const Value w = g.parameter("w", f32, {4, 3}, init::kaiming_uniform(1));
  g.set_origin({"head.fc", "net.py:3"});
  g.output("y", g.call("relu", {g.call("linear", {x, w})}));
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(g.text(),
            "graph(x: f32[n, 3])\n"
            "  parameter w: f32[4, 3]\n"
            "  linear_1 = linear(x, w, none, none) : f32[n, 4]  # head.fc\n"
            "  relu_1 = relu(linear_1) : f32[n, 4]  # head.fc\n"
            "  return y = relu_1\n");
  EXPECT_TRUE(g.verify().ok()) << g.verify().message();
}

TEST(Graph, VerifyFindsWhatIsBroken) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 3});
  g.output("y", g.call("relu", {g.call("neg", {x})}));
  ASSERT_TRUE(g.verify().ok());
  {
    Graph broken(g);
    std::swap(GraphAccess::body(broken).nodes[0], GraphAccess::body(broken).nodes[1]);
    EXPECT_NE(broken.verify().message().find("before it is defined"), std::string::npos);
  }
  {
    Graph broken(g);
    GraphAccess::body(broken).values[1].type.shape[1] = 4;
    EXPECT_NE(broken.verify().message().find("its shape rule gives"), std::string::npos);
  }
  {
    Graph broken(g);
    GraphAccess::body(broken).nodes[0].inputs[0] = 99;
    EXPECT_NE(broken.verify().message().find("refers to value 99"), std::string::npos);
  }
}

TEST(Graph, InitialisationIsDeterministic) {
  const auto first = [](uint64_t seed) {
    Graph g;
    (void)g.parameter("w", f32, {16, 9}, init::kaiming_uniform(seed));
    const float* w = g.states()[0].data.tensor.as<float>();
    return std::vector<float>(w, w + 16 * 9);
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
  for (const float value : first(1)) EXPECT_LE(std::abs(value), std::sqrt(6.0f / 9));
}

TEST(Tensor, SixteenBitFloatsRoundToNearestEven) {
  EXPECT_EQ(Half(1.0f).bits, 0x3c00);
  EXPECT_EQ(Half(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half(5.9604645e-8f).bits, 1);
  EXPECT_EQ(BFloat16(1.00390625f).bits, 0x3f80);  // a tie goes to the even neighbour
  EXPECT_EQ(BFloat16(1.01171875f).bits, 0x3f82);
  for (int bits = 0; bits < 0x7c00; ++bits) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    ASSERT_EQ(Half(static_cast<float>(half)).bits, bits);
  }
}

}  // namespace
}  // namespace hg
