// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes: one normal form that keeps values and does not grow.
#include "hg/dim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/support/must.h"

namespace hg {
namespace {

std::string normal(const char* expression) {
  const Result<Dim> dim = Dim::parse(expression);
  return dim.ok() ? str_cat(*dim) : std::string(dim.status().message());
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
  EXPECT_EQ(normal("mod(3*mod(n, 8), 4)"), normal("mod(3*n, 4)"));
  EXPECT_EQ(normal("n + mod(8 - mod(n, 8), 8)"), "8*floordiv(n + 7, 8)");
  EXPECT_EQ(normal("n - mod(n, 8)"), "8*floordiv(n, 8)");
  EXPECT_EQ(normal("n + 1 + mod(n, 8)"), "-8*floordiv(n, 8) + 2*n + 1");
  EXPECT_EQ(normal("floordiv(n + mod(7 * n, 8), 8) * 8 + mod(h, 2)"),
            "-2*floordiv(h, 2) + 8*floordiv(n + 7, 8) + h");
  EXPECT_EQ(normal("w*h - h*w"), "0");
}

// Strides of strided nets, and lengths rounded up to a multiple of something.
TEST(Dim, QuotientsOfQuotientsAreOneQuotient) {
  EXPECT_EQ(normal("floordiv(floordiv(n + 1, 2) + 1, 2)"), "floordiv(n + 3, 4)");
  EXPECT_EQ(normal("floordiv(floordiv(n, 4) + floordiv(h, 3) + w, 5)"),
            "floordiv(3*floordiv(n, 4) + h + 3*w, 15)");
  EXPECT_EQ(normal("floordiv(2*floordiv(n, 3) + 5, 4)"), "floordiv(n, 6) + 1");
  EXPECT_EQ(normal("floordiv(6*n + 3, 4)"), "floordiv(n + 1, 2) + n");
  EXPECT_EQ(normal("-floordiv(-n, 4)"), "floordiv(n + 3, 4)");
  EXPECT_EQ(normal("floordiv(n, -4)"), "-floordiv(n + 3, 4)");
  EXPECT_EQ(normal("floordiv(n*h + h - 1, h)"), "floordiv(-1, h) + n + 1");
  EXPECT_EQ(normal("floordiv(2*n*h, 4*n*w)"), "floordiv(h, 2*w)");
  EXPECT_EQ(normal("n - mod(n, h)"), "floordiv(n, h)*h");
  EXPECT_EQ(normal("floordiv(mod(n, 8), 8)"), "0");
  EXPECT_EQ(normal("min(floordiv(n, 2), n)"), "floordiv(n, 2)");
  EXPECT_EQ(normal("min(min(n, 10), min(h, 5))"), "min(min(5, h), n)");
  EXPECT_EQ(normal("max(n - min(n, h), 0)"), "-min(h, n) + n");
  EXPECT_EQ(normal("min(max(8*floordiv(n + 7, 8) - n, 0), 7)"), "8*floordiv(n + 7, 8) - n");
  EXPECT_EQ(normal("max(n - floordiv(n, h)*h, 0)"), "-floordiv(n, h)*h + n");
}

// Values of the symbols n, h and w: all small ones, and some of every magnitude.
std::vector<Bindings> some_bindings() {
  std::vector<Bindings> all;
  std::mt19937_64 random(7);
  for (int i = 0; i < 40; ++i) {
    Bindings& bindings = all.emplace_back();
    int digit = i;
    for (const char* symbol : {"n", "h", "w"}) {
      const auto value = static_cast<int64_t>(i < 27 ? digit % 3 : random() >> (24 + i % 40));
      EXPECT_TRUE(bindings.bind(symbol, value).ok());
      digit /= 3;
    }
  }
  return all;
}

__extension__ using Wide = __int128;

Wide floor_of(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// A size, and its expected value under each of some_bindings(); no value if a script would fail.
struct Sized {
  Dim dim;
  std::vector<std::optional<int64_t>> values;
};

// Random sizes, each computed from earlier ones, as in neural networks.
std::vector<Sized> random_sizes(std::mt19937& random, const std::vector<Bindings>& bindings,
                                size_t count) {
  const auto draw = [&](int64_t below) { return static_cast<int64_t>(random() % below); };
  std::vector<Sized> sizes;
  const auto give = [&](const Dim& dim, const auto& value) {
    Sized& size = sizes.emplace_back();
    size.dim = dim;
    for (size_t i = 0; i < bindings.size(); ++i) {
      const std::optional<Wide> exact = value(i);
      const auto number = static_cast<int64_t>(exact.value_or(0));
      size.values.push_back(exact && *exact == number ? std::optional(number) : std::nullopt);
    }
  };
  for (const char* symbol : {"n", "h", "w"})
    give(symbol, [&](size_t i) { return bindings[i].find(symbol); });
  const int64_t number = draw(12) - 3;
  give(number, [&](size_t) { return number; });
  while (sizes.size() < count) {
    const Sized a = sizes[draw(static_cast<int64_t>(sizes.size()))];
    const Sized b = sizes[draw(static_cast<int64_t>(sizes.size()))];
    const int64_t k = 1 + draw(8), c = draw(9) - 4, op = draw(16);
    const auto binary = [&](const Dim& dim, auto compute) {
      give(dim, [&](size_t i) -> std::optional<Wide> {
        if (!a.values[i] || !b.values[i]) return std::nullopt;
        return compute(Wide{*a.values[i]}, Wide{*b.values[i]});
      });
    };
    using Number = std::optional<Wide>;
    const auto divided = [](Wide x, Wide y) { return y == 0 ? Number() : Number(floor_of(x, y)); };
    const auto rest = [](Wide x, Wide y) {
      return y == 0 ? Number() : Number(x - floor_of(x, y) * y);
    };
    const Dim &x = a.dim, &y = b.dim;
    if (op == 0) binary(x + y, [](Wide p, Wide q) { return Number(p + q); });
    if (op == 1) binary(x - y, [](Wide p, Wide q) { return Number(p - q); });
    if (op == 2) binary(x * y, [](Wide p, Wide q) { return Number(p * q); });
    if (op == 3) binary(x * c, [&](Wide p, Wide) { return Number(p * c); });
    if (op == 4) binary(x + c, [&](Wide p, Wide) { return Number(p + c); });
    if (op == 5 || op == 6) binary(floordiv(x, k), [&](Wide p, Wide) { return divided(p, k); });
    if (op == 7)
      binary(floordiv(x + c, k) + 1, [&](Wide p, Wide) { return *divided(p + c, k) + 1; });
    if (op == 8) binary(ceildiv(x, k), [&](Wide p, Wide) { return -*divided(-p, k); });
    if (op == 9) binary(mod(x, k), [&](Wide p, Wide) { return rest(p, k); });
    if (op == 10) binary(x + mod(-x, k), [&](Wide p, Wide) { return -*divided(-p, k) * k; });
    if (op == 11) binary(min(x, y), [](Wide p, Wide q) { return Number(std::min(p, q)); });
    if (op == 12) binary(max(x, y), [](Wide p, Wide q) { return Number(std::max(p, q)); });
    if (op == 13) binary(floordiv(x, y), [&](Wide p, Wide q) { return divided(p, q); });
    if (op == 14) binary(mod(x, y), [&](Wide p, Wide q) { return rest(p, q); });
    if (op == 15) binary(floordiv(x, -k), [&](Wide p, Wide) { return divided(p, -k); });
  }
  return sizes;
}

// The number of trials: HG_TRIALS from the environment, or else `usual`.
int trials(int usual) {
  const char* given = std::getenv("HG_TRIALS");
  return given == nullptr ? usual : std::atoi(given);
}

TEST(Dim, SimplificationsKeepValuesAndBounds) {
  const std::vector<Bindings> bindings = some_bindings();
  const int count = trials(300);
  for (int trial = 0; trial < count && !::testing::Test::HasFailure(); ++trial) {
    std::mt19937 random(static_cast<unsigned>(trial));
    const std::vector<Sized> sizes = random_sizes(random, bindings, 20);
    for (const Sized& size : sizes) {
      const Result<Dim> parsed = Dim::parse(str_cat(size.dim));
      ASSERT_TRUE(parsed.ok()) << parsed.status().message() << ", trial " << trial;
      EXPECT_EQ(*parsed, size.dim)
          << str_cat(*parsed) << " of " << str_cat(size.dim) << ", trial " << trial;
      const int64_t low = size.dim.lower_bound(), high = size.dim.upper_bound();
      for (size_t i = 0; i < bindings.size(); ++i) {
        if (!size.values[i]) continue;
        const Result<int64_t> value = size.dim.evaluate(bindings[i]);
        ASSERT_TRUE(value.ok()) << value.status().message() << ", trial " << trial;
        EXPECT_EQ(*value, *size.values[i]) << str_cat(size.dim) << ", trial " << trial << ", " << i;
        EXPECT_LE(low, *value) << str_cat(size.dim) << ", trial " << trial;
        EXPECT_GE(high, *value) << str_cat(size.dim) << ", trial " << trial;
        EXPECT_EQ(size.dim.substitute(bindings[i]), Dim(*value)) << str_cat(size.dim);
        // Substitutes one symbol after another.
        Dim left = size.dim;
        for (const auto& [symbol, number] : bindings[i].all()) {
          Bindings one;
          ASSERT_TRUE(one.bind(symbol, number).ok());
          if (number < 1 << 20) left = left.substitute(one);
        }
        if (const Result<int64_t> rest = left.evaluate(bindings[i]); rest.ok()) {
          EXPECT_EQ(*rest, *value)
              << str_cat(left) << " of " << str_cat(size.dim) << ", trial " << trial;
        }
      }
      for (const Sized& other : sizes) {
        if (!(size.dim == other.dim)) continue;
        for (size_t i = 0; i < bindings.size(); ++i) {
          if (!size.values[i] || !other.values[i]) continue;
          EXPECT_EQ(*size.values[i], *other.values[i]) << str_cat(size.dim) << ", trial " << trial;
        }
      }
    }
  }
}

TEST(Dim, PrintsWhatItParses) {
  for (const char* expression :
       {"n", "-n + 3", "floordiv(h - 1, 2) + 1", "2*h*w + 7", "max(n, mod(m, 5))"}) {
    const Dim dim = must(Dim::parse(expression));
    const Dim again = must(Dim::parse(str_cat(dim)));
    EXPECT_EQ(dim, again) << expression;
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

// The twentieth power of a sum of five symbols has 10626 terms.
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
  const Dim parsed = must(Dim::parse(str_cat(product)));
  EXPECT_EQ(parsed, product);
  EXPECT_LE(str_cat(product).size(), 4096u);
}

// Each layer's size uses the size before it several times; written out, it would be 2^200 times as
// long.
Dim nested(int layers) {
  Dim length = "n";
  for (int layer = 0; layer < layers; ++layer) {
    const Dim down = floordiv(length * 3 + layer % 3, 5) + 1;
    length = min(length + mod(-length, 7) + down, floordiv(down * 4, 3) + max(length, Dim("h")));
  }
  return length;
}

TEST(Dim, IsAsLongAsWhatItWasMadeOf) {
  const Dim deep = nested(200);
  const std::string printed = str_cat(deep);
  EXPECT_LE(printed.size(), 200u * 400);
  const Dim parsed = must(Dim::parse(printed));
  EXPECT_EQ(parsed, deep);
  EXPECT_EQ(nested(200), deep);
  EXPECT_FALSE(nested(199) == deep);
  EXPECT_EQ(deep - nested(200), Dim(0));

  Bindings bindings;
  for (const char* symbol : {"n", "h"}) ASSERT_TRUE(bindings.bind(symbol, 3).ok());
  int64_t length = 3;
  for (int layer = 0; layer < 200; ++layer) {
    const int64_t down = (length * 3 + layer % 3) / 5 + 1;
    length = std::min((length + 6) / 7 * 7 + down, down * 4 / 3 + std::max<int64_t>(length, 3));
    if (length > int64_t{1} << 40) break;
  }
  const Result<int64_t> value = deep.evaluate(bindings);
  if (length <= int64_t{1} << 40) {
    EXPECT_EQ(*value, length);
  }
  std::vector<std::string> symbols;
  deep.collect_symbols(symbols);
  EXPECT_EQ(symbols, (std::vector<std::string>{"n", "h"}));
}

TEST(Dim, LongOnesNameTheirParts) {
  const Dim deep = nested(3);
  const std::string printed = str_cat(deep);
  EXPECT_NE(printed.find(" where @0 = "), std::string::npos) << printed;
  for (const char* wrong : {"@0", "n + @0 where @1 = min(n, h)", "@1 where @0 = min(n, h)",
                            "@0 where @0 = min(@0, h)", "@0 where @0 = min(n, h), ", "@", "@x"})
    EXPECT_FALSE(Dim::parse(wrong).ok()) << wrong;
}

TEST(Dim, DeepOnesAreFreedWithoutRecursion) {
  Dim deep = "n";
  for (int layer = 0; layer < 20000; ++layer) deep = floordiv(deep * 3 + Dim("h"), 4) + layer % 7;
  const Dim copy = deep;
  deep = 0;
  EXPECT_FALSE(copy.is_constant());
}

TEST(Dim, IsSharedBetweenThreads) {
  const Dim deep = nested(80);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([copy = deep, i] {
      const Dim other = max(copy + i, floordiv(copy, 2));
      EXPECT_EQ(str_cat(other - copy), str_cat(i));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hg
