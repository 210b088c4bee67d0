// SPDX-License-Identifier: Apache-2.0
// Passes on random graphs: the answers are those without the pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/graph/element.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

// The maximum or minimum over a random dim of one to nine tensors, which are mostly stacked along
// it.
struct StackOfRandom {
  explicit StackOfRandom(test::Chance& r) {
    constexpr DType kDTypes[] = {f32, f64, f16, bf16, i64, i32, i16, i8, u8};
    dtype = kDTypes[r.below(std::size(kDTypes))];
    const auto rank = static_cast<int>(1 + r.below(4));
    for (int d = 0; d < rank; ++d) sizes.push_back(r.chance(15) ? r.below(2) : 1 + r.below(4));
    dim = static_cast<int>(r.below(rank));
    for (int64_t i = 0, parts = 1 + r.below(9); i < parts; ++i) {
      sizes[dim] = r.chance(90) ? 1 : r.below(3) + 1;
      TensorData part = *TensorData::allocate(dtype, sizes);
      for (int64_t k = 0; k < part.tensor.count(); ++k)
        set_element(
            part.tensor, k,
            is_float(dtype) && r.chance(5) ? std::nan("") : static_cast<double>(r.below(9)));
      data.push_back(std::move(part));
    }
    largest = r.chance(50), keepdim = r.chance(50), is_read_twice = r.chance(20);
    from_end = r.chance(50) ? rank : 0;
  }
  Graph graph() const {
    Graph g;
    std::vector<Value> parts;
    for (size_t i = 0; i < data.size(); ++i) {
      const Sizes& own = data[i].tensor.shape;
      parts.push_back(g.input("", dtype, {own.begin(), own.end()}));
    }
    const Value all = g.call("concat", parts, {{"dim", dim - from_end}});
    g.output("y", g.call(largest ? "amax" : "amin", {all},
                         {{"dim", {dim - from_end}}, {"keepdim", keepdim}}));
    if (is_read_twice) g.output("z", g.call("neg", {all}));
    return g;
  }
  DType dtype = f32;
  Sizes sizes;
  int dim = 0, from_end = 0;
  bool largest = false, keepdim = false, is_read_twice = false;
  std::vector<TensorData> data;
};

TEST(PassesRandom, ExtremesOfStacksAreThoseOfTheirParts) {
  int64_t replaced = 0;
  test::for_cases(300, [&](uint64_t seed) {
    test::Chance r(seed);
    const StackOfRandom made(r);
    const Model model = *Model::from_graph(made.graph());
    TensorData answers[2];
    for (const bool plain : {false, true}) {
      SessionOptions options;
      if (plain) options.disabled_passes = {"views"};
      Session session = *Session::create(model, options);
      replaced += session.compiled_graph().text().find("concat") == std::string::npos;
      for (size_t i = 0; i < made.data.size(); ++i)
        ASSERT_TRUE(session.set_input(static_cast<int>(i), made.data[i].tensor).ok());
      ASSERT_TRUE(session.run().ok());
      answers[plain] = *TensorData::copy_of(*session.output("y"));
    }
    ASSERT_EQ(answers[0].tensor.shape, answers[1].tensor.shape);
    for (int64_t k = 0; k < answers[0].tensor.count(); ++k) {
      const double got = element(answers[0].tensor, k), want = element(answers[1].tensor, k);
      ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << got << " " << want;
    }
  });
  EXPECT_GT(replaced, 0);
}

// Elementwise nodes over one or two products of small integers, and one row of them, or several.
struct RowOfRandomProducts {
  explicit RowOfRandomProducts(test::Chance& r) {
    const auto rank = static_cast<int>(2 + r.below(3));
    for (int d = 0; d < rank; ++d) sizes.push_back(r.chance(10) ? r.below(2) : 1 + r.below(4));
    const auto dim = static_cast<int>(r.below(rank));
    Shape shape(sizes.begin(), sizes.end());
    if (r.chance(50)) shape[static_cast<size_t>(dim)] = "t";
    const Value x = g.input("x", f32, shape);
    const auto width = static_cast<int64_t>(1 + r.below(4));
    const auto product = [&] {
      const Value w = g.constant(integers({width, sizes.back()}, r));
      if (!(x.dim(-1) == Dim(sizes.back()))) return x;
      return r.chance(50) ? g.call("linear", {x, w})
                          : g.call("linear", {x, w, g.constant(integers({width}, r))});
    };
    Value y = product();
    for (uint64_t steps = r.below(4); steps > 0; --steps) {
      switch (r.below(5)) {
        case 0:
          y = g.call("neg", {y});
          break;
        case 1:
          y = g.call("mul", {y, g.scalar(2.0)});
          break;
        case 2:
          y = g.call("maximum", {g.call("relu", {y}), product()});
          break;
        case 3:
          if (y.dim(-1).is_constant())
            y = g.call("add", {g.constant(integers({y.dim(-1).constant()}, r)), y});
          break;
        default:
          y = g.call("add", {y, r.chance(30) ? y : product()});
          break;
      }
    }
    const Dim size = y.dim(dim);
    const int64_t number = dim == rank - 1 && size.is_constant() ? size.constant() : sizes[dim];
    const auto start = static_cast<int64_t>(r.below(static_cast<uint64_t>(number) + 1));
    const int64_t count = r.chance(80) ? 1 : static_cast<int64_t>(r.below(4));
    const int64_t end = std::min(number, start + count);
    const bool is_last = !size.is_constant() && number > 0 && r.chance(50);
    g.output("y", g.call("slice", {y},
                         {{"dim", r.chance(50) ? dim : dim - rank},
                          {"start", is_last ? size - 1 : Dim(start)},
                          {"end", is_last ? size : Dim(end)},
                          {"step", static_cast<int64_t>(1 + r.below(2))}}));
    if (r.chance(15)) g.output("z", y);
    data = integers(sizes, r);
  }
  static TensorData integers(const Sizes& shape, test::Chance& r) {
    TensorData made = *TensorData::allocate(f32, shape);
    for (int64_t i = 0; i < made.tensor.count(); ++i)
      made.tensor.as<float>()[i] = static_cast<float>(r.below(7)) - 3;
    return made;
  }
  Graph g;
  Sizes sizes;
  TensorData data;
};

TEST(PassesRandom, RowsOfProductsAreThoseOfTheWhole) {
  int64_t differ = 0;
  test::for_cases(500, [&](uint64_t seed) {
    test::Chance r(seed);
    RowOfRandomProducts made(r);
    ASSERT_TRUE(made.g.status().ok()) << made.g.status().message();
    const Model model = *Model::from_graph(std::move(made.g));
    std::string texts[2];
    std::vector<TensorData> answers[2];
    for (const bool plain : {false, true}) {
      SessionOptions options;
      if (plain) options.disabled_passes = {"rows"};
      Session session = *Session::create(model, options);
      texts[plain] = session.compiled_graph().text();
      ASSERT_TRUE(session.set_input(0, made.data.tensor).ok());
      ASSERT_TRUE(session.run().ok());
      for (int k = 0; k < session.output_count(); ++k)
        answers[plain].push_back(*TensorData::copy_of(*session.output(k)));
    }
    differ += texts[0] != texts[1];
    for (size_t k = 0; k < answers[0].size(); ++k) {
      ASSERT_EQ(answers[0][k].tensor.shape, answers[1][k].tensor.shape);
      for (int64_t i = 0; i < answers[0][k].tensor.count(); ++i)
        ASSERT_EQ(element(answers[0][k].tensor, i), element(answers[1][k].tensor, i));
    }
  });
  EXPECT_GT(differ, 0);
}

}  // namespace
}  // namespace hg
