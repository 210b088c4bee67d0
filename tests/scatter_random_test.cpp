// SPDX-License-Identifier: Apache-2.0
// scatter with every reduction, with expanded and plain indices, against a plain loop.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "hg/hg.h"
#include "tests/elements.h"
#include "tests/must.h"
#include "tests/random_case.h"

namespace hg::test {
namespace {

constexpr ScatterReduce kReduces[] = {ScatterReduce::none, ScatterReduce::add,
                                      ScatterReduce::prod, ScatterReduce::amax,
                                      ScatterReduce::amin, ScatterReduce::mean};

class Case : private Chance {
 public:
  using Chance::Chance;
  void run();

 private:
  TensorData random(DType dtype, const Sizes& shape, int64_t most) {
    TensorData data = must(TensorData::allocate(dtype, shape));
    for (int64_t i = 0; i < shape.count(); ++i)
      write_element(data.tensor, i, static_cast<double>(below(most)));
    return data;
  }
};

double combined(double a, double b, ScatterReduce reduce) {
  switch (reduce) {
    case ScatterReduce::none:
      return b;
    case ScatterReduce::prod:
      return a * b;
    case ScatterReduce::amax:
      return std::max(a, b);
    case ScatterReduce::amin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

void Case::run() {
  const auto rank = static_cast<int>(1 + below(3));
  const auto dim = static_cast<int>(below(rank));
  constexpr DType kAll[] = {f32, f64, f16, bf16, i64, i32, DType::u8};
  const DType dtype = kAll[below(7)];
  const ScatterReduce reduce = kReduces[below(6)];
  const bool include_self = reduce == ScatterReduce::none || below(2) == 0;
  const bool expanded = below(2) == 0;  // the index along all dims after `dim`
  Sizes x_shape, index_shape, src_shape, given_shape;
  for (int d = 0; d < rank; ++d) {
    const int64_t size = below(30) == 0 ? 0 : 1 + below(below(3) == 0 ? 150 : 6);
    // Few elements are multiplied at one place, so the product is exact.
    x_shape.push_back(d == dim ? 1 + below(reduce == ScatterReduce::prod ? 40 : 6)
                               : size + below(2));
    index_shape.push_back(d == dim && reduce == ScatterReduce::prod ? std::min<int64_t>(size, 3)
                                                                    : size);
    src_shape.push_back(index_shape[d] + below(2));
    given_shape.push_back(expanded && d > dim ? 1 : index_shape[d]);
  }
  const TensorData x = random(dtype, x_shape, 5), src = random(dtype, src_shape, 4);
  const TensorData index = random(i64, given_shape, x_shape[dim]);

  Graph g;
  const auto input = [&](const char* name, const Tensor& t) {
    return g.input(name, t.dtype, {t.shape.begin(), t.shape.end()});
  };
  const Value wide = expand(input("index", index.tensor), {index_shape.begin(), index_shape.end()});
  g.output("y", scatter(input("x", x.tensor), wide, input("src", src.tensor), dim, reduce,
                        include_self));
  Session session = must(Session::create(must(Model::from_graph(std::move(g))),
                                         {.threads = static_cast<int>(1 + below(3))}));
  ASSERT_TRUE(session.set_input("x", x.tensor).ok());
  ASSERT_TRUE(session.set_input("index", index.tensor).ok());
  ASSERT_TRUE(session.set_input("src", src.tensor).ok());
  ASSERT_TRUE(session.run().ok());

  std::vector<double> expected = read_all(x.tensor);
  const std::vector<double> from = read_all(src.tensor), at = read_all(index.tensor);
  std::vector<int64_t> counts(expected.size());
  const auto offset = [&](const std::vector<int64_t>& place, const Sizes& shape) {
    int64_t result = 0;
    for (int d = 0; d < rank; ++d)
      result = result * shape[d] + (shape[d] == 1 && place[size_t(d)] > 0 ? 0 : place[size_t(d)]);
    return static_cast<size_t>(result);
  };
  for (int64_t i = 0; i < index_shape.count(); ++i) {
    std::vector<int64_t> place(static_cast<size_t>(rank));
    for (int64_t d = rank - 1, rest = i; d >= 0; --d) {
      place[size_t(d)] = rest % index_shape[static_cast<int>(d)];
      rest /= index_shape[static_cast<int>(d)];
    }
    const double value = from[offset(place, src_shape)];
    std::vector<int64_t> to = place;
    to[size_t(dim)] = static_cast<int64_t>(at[offset(place, given_shape)]);
    const size_t cell = offset(to, x_shape);
    const bool fresh = !include_self && counts[cell] == 0;
    ++counts[cell];
    expected[cell] = fresh ? value : combined(expected[cell], value, reduce);
  }
  for (size_t i = 0; reduce == ScatterReduce::mean && i < expected.size(); ++i) {
    if (counts[i] == 0) continue;
    expected[i] /= static_cast<double>(counts[i] + (include_self ? 1 : 0));
    if (!is_float(dtype)) expected[i] = std::floor(expected[i]);
  }
  const std::vector<double> y = read_all(*session.output("y"));
  for (size_t i = 0; i < expected.size(); ++i) {
    double right = expected[i];
    if (dtype == DType::u8) right = std::fmod(right, 256);
    if (dtype == f16 && std::abs(right) > 65519) right = std::copysign(HUGE_VAL, right);
    // 16-bit floats are rounded once, after the last element.
    const double rounding = dtype == bf16 ? 0x1p-8 : dtype == f16 ? 0x1p-11 : 0;
    const double room = is_float(dtype) ? (1e-6 + rounding) * std::abs(right) : 0;
    if (y[i] != right) {
      ASSERT_NEAR(y[i], right, room) << to_string(dtype) << " element " << i;
    }
  }
}

TEST(ScatterRandom, ElementsAreThoseOfAPlainLoop) {
  for_cases(1000, [](uint64_t i) { Case(i + 3000).run(); });
}

}  // namespace
}  // namespace hg::test
