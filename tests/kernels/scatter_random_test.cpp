// SPDX-License-Identifier: Apache-2.0
// scatter with every reduction, with expanded and plain indices, and reduced rows of a table,
// against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "hg/hg.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg::test {
namespace {

constexpr ScatterReduce kReduces[] = {ScatterReduce::none, ScatterReduce::add,
                                      ScatterReduce::prod, ScatterReduce::amax,
                                      ScatterReduce::amin, ScatterReduce::mean};

// Random tensors of small whole numbers.
class Tensors : protected Chance {
 protected:
  using Chance::Chance;
  TensorData random(DType dtype, const Sizes& shape, int64_t most) {
    TensorData data = must(TensorData::allocate(dtype, shape));
    for (int64_t i = 0; i < shape.count(); ++i)
      write_element(data.tensor, i, static_cast<double>(below(most)));
    return data;
  }
};

class Case : private Tensors {
 public:
  using Tensors::Tensors;
  void run();
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

// Bags of rows of a table: picked by index, scaled, some left out, and reduced into x.
class Bags : private Tensors {
 public:
  using Tensors::Tensors;
  void run();
};

void Bags::run() {
  constexpr DType kFloats[] = {f32, f64, f16, bf16};
  constexpr const char* kReduce[] = {"add", "amax", "amin", "mean"};
  const DType dtype = kFloats[below(4)];
  const std::string reduce = kReduce[below(4)];
  const bool include_self = chance(50), scales = chance(50), embeds = chance(30);
  const bool masks = reduce != "mean" && chance(50), wrong = chance(10);
  // Sums of at most 20 products up to 8 are exact in bf16.
  const int64_t n = below(21), bags = 1 + below(chance(20) ? 40 : 6), size = 1 + below(9);
  const int64_t width = chance(10) ? 250 + below(20) : 1 + below(20);
  const TensorData x = random(dtype, {bags, width}, 5), table = random(dtype, {size, width}, 5);
  const TensorData index = random(i64, {n}, bags), rows = random(i64, {n}, size);
  const TensorData scale = random(dtype, {n, 1}, 3), kept = random(boolean, {n, 1}, 2);
  int64_t* const at = index.tensor.as<int64_t>();
  if (chance(70)) std::sort(at, at + n);
  if (wrong && n > 0)
    (chance(50) ? rows : index).tensor.as<int64_t>()[below(n)] = chance(50) ? -1 : 60;

  const TensorData steps = random(i64, {n}, 1);  // The pass expects sums to be sorted.
  for (int64_t i = 0; i < n; ++i) steps.tensor.as<int64_t>()[i] = at[i] - (i > 0 ? at[i - 1] : 0);

  Graph g;
  const auto input = [&](const char* name, const Tensor& t) {
    return g.input(name, t.dtype, {t.shape.begin(), t.shape.end()});
  };
  const Value picked = input("rows", rows.tensor), all = input("table", table.tensor);
  Value src = embeds ? g.call("embedding", {all, picked})
                     : g.call("index_select", {all, picked}, {{"dim", 0}});
  if (scales) src = src * input("scale", scale.tensor);
  const double left_out = reduce == "amax" ? -HUGE_VAL : reduce == "amin" ? HUGE_VAL : 0;
  if (masks) src = g.call("where", {input("kept", kept.tensor), src, g.scalar(left_out, dtype)});
  g.output("y", g.call("index_reduce",
                       {input("x", x.tensor),
                        g.call("cumsum", {input("steps", steps.tensor)}, {{"dim", 0}}), src},
                       {{"dim", 0}, {"reduce", reduce}, {"include_self", include_self}}));
  const Model model = must(Model::from_graph(std::move(g)));
  std::vector<double> answers[3];
  for (int i = 0; i < 3; ++i) {
    SessionOptions options{.threads = 1 + i};
    if (i == 2) options.disabled_passes = {"gathers"};
    Session session = must(Session::create(model, options));
    const bool found =
        session.compiled_graph().text().find("index_select_reduce(") != std::string::npos;
    ASSERT_EQ(found, i != 2);
    ASSERT_TRUE(session.set_input("x", x.tensor).ok());
    ASSERT_TRUE(session.set_input("steps", steps.tensor).ok());
    ASSERT_TRUE(session.set_input("table", table.tensor).ok());
    ASSERT_TRUE(session.set_input("rows", rows.tensor).ok());
    if (scales) {
      ASSERT_TRUE(session.set_input("scale", scale.tensor).ok());
    }
    if (masks) {
      ASSERT_TRUE(session.set_input("kept", kept.tensor).ok());
    }
    const Status status = session.run();
    ASSERT_EQ(status.ok(), !(wrong && n > 0)) << status.message();
    if (!status.ok()) continue;
    answers[i] = read_all(*session.output("y"));
  }
  if (wrong && n > 0) return;
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);

  std::vector<double> expected = read_all(x.tensor), counts(static_cast<size_t>(bags));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t bag = at[i], row = rows.tensor.as<int64_t>()[i];
    const double factor = scales ? read_element(scale.tensor, i) : 1;
    const bool is_first = !include_self && counts[size_t(bag)]++ == 0;
    if (include_self) ++counts[size_t(bag)];
    for (int64_t j = 0; j < width; ++j) {
      double& y = expected[size_t(bag * width + j)];
      const bool counted = !masks || read_element(kept.tensor, i) != 0;
      const double value =
          counted ? read_element(table.tensor, row * width + j) * factor : left_out;
      if (is_first)
        y = value;
      else
        y = reduce == "amax"   ? std::max(y, value)
            : reduce == "amin" ? std::min(y, value)
                               : y + value;
    }
  }
  for (int64_t i = 0; reduce == "mean" && i < bags * width; ++i)
    if (const double count = counts[size_t(i / width)]; count > 0)
      expected[size_t(i)] /= count + (include_self ? 1 : 0);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double right = expected[i];
    const double rounding = dtype == bf16 ? 0x1p-8 : dtype == f16 ? 0x1p-11 : 1e-6;
    if (answers[0][i] != right) {
      ASSERT_NEAR(answers[0][i], right, reduce == "mean" ? rounding * right : 0) << "element " << i;
    }
  }
}

TEST(ScatterRandom, BagsAreThoseOfAPlainLoop) {
  for_cases(1000, [](uint64_t i) { Bags(i + 7000).run(); });
}

}  // namespace
}  // namespace hg::test
