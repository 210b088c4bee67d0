// SPDX-License-Identifier: Apache-2.0
// The first elements of lines, few or all, against a stable sort: equal elements keep their order,
// NaN is the largest. Also the largest and smallest elements alone, which are NaN if there is one,
// and ops built on the order: unique elements and set membership.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "hg/hg.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg::test {
namespace {

class Case : private Chance {
 public:
  using Chance::Chance;
  void run();
  void run_set();

 private:
  // Fills lines: few or many different numbers, rising, falling, of all sizes, and with NaN.
  void fill(const Tensor& x, int64_t outer, int64_t n, int64_t inner);
};

void Case::fill(const Tensor& x, int64_t outer, int64_t n, int64_t inner) {
  const int64_t most = x.dtype == boolean ? 2 : chance(40) ? 5 : 120;
  const int way = static_cast<int>(below(6)), nan = chance(30) ? (chance(20) ? 100 : 5) : 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < inner; ++k) {
        double value = static_cast<double>(below(most));
        if (way == 1) value = static_cast<double>(i * most / n);
        if (way == 2) value = static_cast<double>((n - 1 - i) * most / n);
        // Numbers of more than 32 bits, infinities, and zeros of both signs.
        if (way == 4 && size_of(x.dtype) >= 8)
          value = std::ldexp(value - static_cast<double>(most / 2), chance(9) ? 45 : 3);
        if (way == 5 && is_float(x.dtype))
          value = chance(50) ? std::copysign(0.0, static_cast<double>(below(2)) - 0.5)
                             : std::ldexp(value - 60, static_cast<int>(below(400)) - 200);
        if (is_float(x.dtype) && chance(nan)) value = std::numeric_limits<double>::quiet_NaN();
        write_element(x, (o * n + i) * inner + k, value);
      }
}

void Case::run() {
  constexpr DType kTypes[] = {f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean};
  const DType dtype = kTypes[below(std::size(kTypes))];
  const int64_t outer = below(4), inner = chance(60) ? 1 : below(4);
  const int64_t n = chance(10) ? below(3) : 1 + below(chance(70) ? 1500 : 60);
  const int64_t k = chance(10)   ? n
                    : chance(70) ? below(std::min<int64_t>(n, 40) + 1)
                                 : below(n + 1);
  const bool largest = chance(50);
  const TensorData x = *TensorData::allocate(dtype, {outer, n, inner});
  fill(x.tensor, outer, n, inner);

  Graph g;
  const Value in = g.input("x", dtype, {outer, n, inner});
  const std::vector<Value> found = topk(in, k, 1, largest);
  g.output("values", found[0]);
  g.output("indices", found[1]);
  if (n > 0) {
    g.output("largest", amax(in, {1}));
    g.output("smallest", amin(in, {1}));
  }
  Session session = must(Session::create(must(Model::from_graph(std::move(g))),
                                         {.threads = static_cast<int>(1 + below(3))}));
  ASSERT_TRUE(session.set_input("x", x.tensor).ok());
  ASSERT_TRUE(session.run().ok());
  const Tensor values = must(session.output("values")), indices = must(session.output("indices"));

  const std::vector<double> from = read_all(x.tensor), got = read_all(values),
                            places = read_all(indices);
  std::vector<double> most, smallest;
  if (n > 0) {
    most = read_all(must(session.output("largest")));
    smallest = read_all(must(session.output("smallest")));
  }
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t b = 0; b < inner; ++b) {
      const auto at = [&](int64_t i) { return from[size_t((o * n + i) * inner + b)]; };
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        const double first = largest ? at(j) : at(i), second = largest ? at(i) : at(j);
        return first < second || (!std::isnan(first) && std::isnan(second));
      });
      if (n > 0) {
        std::vector<double> line;
        for (int64_t i = 0; i < n; ++i) line.push_back(at(i));
        const auto ends = std::minmax_element(line.begin(), line.end());
        const bool has_nan =
            std::any_of(line.begin(), line.end(), [](double x) { return std::isnan(x); });
        for (const bool first : {false, true}) {
          const double value = (first ? smallest : most)[size_t(o * inner + b)];
          ASSERT_TRUE(has_nan ? std::isnan(value) : value == *(first ? ends.first : ends.second))
              << value << " of " << n << ", " << to_string(dtype);
        }
      }
      for (int64_t i = 0; i < k; ++i) {
        const auto place = static_cast<size_t>((o * k + i) * inner + b);
        ASSERT_EQ(static_cast<int64_t>(places[place]), order[size_t(i)])
            << "place " << i << " of " << k << " of " << n << ", " << to_string(dtype);
        ASSERT_TRUE(got[place] == at(order[size_t(i)]) ||
                    (std::isnan(got[place]) && std::isnan(at(order[size_t(i)]))));
      }
    }
}

void Case::run_set() {
  constexpr DType kTypes[] = {f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean};
  const DType dtype = kTypes[below(std::size(kTypes))];
  const int64_t n = chance(10) ? below(3) : below(chance(70) ? 1500 : 60);
  const int64_t tested = chance(10) ? below(3) : below(chance(30) ? 1500 : 60);
  const bool consecutive = chance(20);
  const TensorData x = *TensorData::allocate(dtype, {n}),
                   set = *TensorData::allocate(dtype, {tested});
  fill(x.tensor, 1, n, 1);
  fill(set.tensor, 1, tested, 1);

  Graph g;
  const Value in = g.input("x", dtype, {n}), other = g.input("set", dtype, {tested});
  const std::vector<Value> found = unique(in, {}, consecutive);
  const char* const names[] = {"values", "inverse", "counts"};
  for (size_t i = 0; i < std::size(names); ++i) g.output(names[i], found[i]);
  g.output("is_in", isin(in, other));
  Session session = must(Session::create(must(Model::from_graph(std::move(g))),
                                         {.threads = static_cast<int>(1 + below(3))}));
  ASSERT_TRUE(session.set_input("x", x.tensor).ok());
  ASSERT_TRUE(session.set_input("set", set.tensor).ok());
  ASSERT_TRUE(session.run().ok());

  const auto output = [&](const char* name) { return read_all(must(session.output(name))); };
  const std::vector<double> from = read_all(x.tensor), in_set = read_all(set.tensor);
  const std::vector<double> values = output("values"), inverse = output("inverse"),
                            counts = output("counts"), is_in = output("is_in");
  std::vector<double> sorted = from;
  if (!consecutive)
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](double a, double b) { return a < b || (!std::isnan(a) && std::isnan(b)); });
  size_t groups = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i] == sorted[i - 1]) continue;
    ASSERT_LT(groups, values.size());
    const bool is_same =
        std::bit_cast<int64_t>(values[groups]) == std::bit_cast<int64_t>(sorted[i]);
    ASSERT_TRUE(is_same || (std::isnan(sorted[i]) && std::isnan(values[groups])))
        << values[groups] << " for " << sorted[i] << ", " << to_string(dtype);
    ++groups;
  }
  ASSERT_EQ(values.size(), groups);
  std::vector<double> counted(values.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const double value = values.at(static_cast<size_t>(inverse[i]));
    ASSERT_TRUE(value == from[i] || (std::isnan(value) && std::isnan(from[i])));
    ++counted[static_cast<size_t>(inverse[i])];
    ASSERT_EQ(is_in[i] != 0, std::count(in_set.begin(), in_set.end(), from[i]) > 0)
        << from[i] << ", " << to_string(dtype);
  }
  ASSERT_EQ(counts, counted);
}

TEST(SortRandom, SetsAreThoseOfPlainLoops) {
  for_cases(1500, [](uint64_t i) { Case(i + 19000).run_set(); });
}
TEST(SortRandom, FirstElementsAreThoseOfAStableSort) {
  for_cases(1500, [](uint64_t i) { Case(i + 9000).run(); });
}

}  // namespace
}  // namespace hg::test
