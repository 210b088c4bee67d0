// SPDX-License-Identifier: Apache-2.0
// fft against its defining sum, for lengths of all kinds, with complex and real numbers. Lines that
// are transformed together have the same bits as alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "hg/hg.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

// The result of a graph that `make` builds from x.
template <class T, class Make>
std::vector<T> result_of(const std::vector<T>& x, const Sizes& shape, int threads,
                         const Make& make) {
  Graph g;
  const Value input = g.input("x", sizeof(T) == 8 ? f64 : f32, {shape.begin(), shape.end()});
  g.output("y", make(g, input));
  Session session =
      must(Session::create(must(Model::from_graph(std::move(g))), {.threads = threads}));
  EXPECT_TRUE(session.set_input("x", view(x, shape)).ok());
  EXPECT_TRUE(session.run().ok());
  const Tensor y = must(session.output("y"));
  return {y.as<const T>(), y.as<const T>() + y.count()};
}

// [lines, n, stride, parts] -> [lines, n, stride, 2], along n
template <class T>
std::vector<T> transformed(const std::vector<T>& x, const Sizes& shape, bool inverse, int threads) {
  return result_of(x, shape, threads, [&](Graph& g, const Value& input) {
    return g.call(shape.back() == 2 ? "fft" : "fft_of_real", {input},
                  {{"dim", 1}, {"inverse", inverse}});
  });
}

template <class T>
std::vector<T> drawn(test::Chance& random, const Sizes& shape) {
  std::vector<T> x(static_cast<size_t>(shape.count()));
  for (T& value : x) value = static_cast<T>(random.below(2001) - 1000) / 1000;
  return x;
}

// Largest error of a number of a transform of n numbers up to 1.
template <class T>
double tolerance(int64_t n) {
  const auto size = static_cast<double>(n);
  return std::numeric_limits<T>::epsilon() * std::sqrt(size) * std::log2(2 * size) * 2;
}

// Of the factor of number i in number k of the result.
double angle_of(int64_t i, int64_t k, int64_t n, bool inverse) {
  return (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(i * k % n) /
         static_cast<double>(n);
}

template <class T>
void run_case(uint64_t seed) {
  test::Chance random(seed);
  const auto below = [&](int64_t n) { return random.below(n); };
  const int64_t lines = 1 + below(20), stride = below(3) == 0 ? 1 + below(5) : 1;
  const int64_t n = below(2) == 0 ? 1 + below(200) : int64_t{1} << below(10);
  const bool inverse = below(2) == 0;
  const int64_t parts = 1 + below(2);
  const Sizes shape = {lines, n, stride, parts};
  const std::vector<T> x = drawn<T>(random, shape);
  const std::vector<T> y = transformed(x, shape, inverse, static_cast<int>(1 + below(4)));
  const auto at = [&](int64_t line, int64_t i, int64_t s) {
    return static_cast<size_t>(((line * n + i) * stride + s) * 2);
  };
  const double error = tolerance<T>(n);
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t s = 0; s < stride; ++s) {
      std::vector<T> alone;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t part = 0; part < parts; ++part)
          alone.push_back(x[at(line, i, s) / 2 * size_t(parts) + size_t(part)]);
      alone = transformed(alone, {1, n, 1, parts}, inverse, 1);
      for (int64_t k = 0; k < n; ++k)
        ASSERT_EQ(
            std::memcmp(&alone[static_cast<size_t>(2 * k)], &y[at(line, k, s)], 2 * sizeof(T)), 0)
            << "line " << line << ", " << s << " at " << k << " of " << n;
      const int64_t k = below(n);
      double re = 0, im = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double angle = angle_of(i, k, n, inverse);
        const size_t from = at(line, i, s) / 2 * size_t(parts);
        const double a = x[from], b = parts == 2 ? x[from + 1] : 0;
        re += a * std::cos(angle) - b * std::sin(angle);
        im += a * std::sin(angle) + b * std::cos(angle);
      }
      ASSERT_NEAR(y[at(line, k, s)], re, error) << k << " of " << n;
      ASSERT_NEAR(y[at(line, k, s) + 1], im, error) << k << " of " << n;
    }
}

// [lines, n/2 + 1, stride, 2] -> [lines, n, stride], along n
template <class T>
std::vector<T> real_lines(const std::vector<T>& x, const Sizes& shape, int64_t n, bool inverse,
                          int threads) {
  return result_of(x, shape, threads, [&](Graph& g, const Value& input) {
    return g.call("fft_to_real", {input}, {{"n", n}, {"dim", 1}, {"inverse", inverse}});
  });
}

template <class T>
void run_real_case(uint64_t seed) {
  test::Chance random(seed);
  const auto below = [&](int64_t n) { return random.below(n); };
  const int64_t lines = 1 + below(20), stride = below(3) == 0 ? 1 + below(5) : 1;
  const int64_t n = below(2) == 0 ? 1 + below(300) : int64_t{1} << below(11);
  const int64_t known = n / 2 + 1;
  const bool inverse = below(2) == 0;
  const Sizes shape = {lines, known, stride, 2};
  std::vector<T> x = drawn<T>(random, shape);
  const auto at = [&](int64_t line, int64_t k, int64_t s) {
    return static_cast<size_t>(((line * known + k) * stride + s) * 2);
  };
  for (int64_t line = 0; line < lines; ++line)  // what is ignored may be anything
    for (const int64_t k : {int64_t{0}, n / 2})
      if (2 * k % n == 0) x[at(line, k, 0) + 1] = std::numeric_limits<T>::quiet_NaN();
  const std::vector<T> y = real_lines(x, shape, n, inverse, static_cast<int>(1 + below(4)));
  const double error = tolerance<T>(n);
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t s = 0; s < stride; ++s) {
      std::vector<T> alone;
      for (int64_t k = 0; k < known; ++k)
        for (size_t part = 0; part < 2; ++part) alone.push_back(x[at(line, k, s) + part]);
      alone = real_lines(alone, {1, known, 1, 2}, n, inverse, 1);
      for (int64_t j = 0; j < n; ++j)
        ASSERT_EQ(std::memcmp(&alone[static_cast<size_t>(j)],
                              &y[static_cast<size_t>((line * n + j) * stride + s)], sizeof(T)),
                  0)
            << "line " << line << ", " << s << " at " << j << " of " << n;
      const int64_t j = below(n);
      double sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        const size_t from = at(line, std::min(k, n - k), s);
        const double im = 2 * k % n == 0 ? 0 : 2 * k < n ? x[from + 1] : -x[from + 1];
        const double angle = angle_of(j, k, n, inverse);
        sum += x[from] * std::cos(angle) - im * std::sin(angle);
      }
      ASSERT_NEAR(alone[static_cast<size_t>(j)], sum, error) << j << " of " << n;
    }
}

TEST(FftRandom, RealLinesAreTheSameAloneAndAsTheSum) {
  for (const Isa isa : kIsas) {
    if (!supports(isa)) continue;
    limit_isa(isa);
    test::for_cases(40, [](uint64_t i) {
      run_real_case<double>(i + 500);
      run_real_case<float>(i + 500);
    });
  }
}

TEST(FftRandom, LinesAreTheSameAloneAndAsTheSum) {
  for (const Isa isa : kIsas) {
    if (!supports(isa)) continue;
    limit_isa(isa);
    test::for_cases(40, [](uint64_t i) {
      run_case<double>(i + 500);
      run_case<float>(i + 500);
    });
  }
}

}  // namespace
}  // namespace hg
