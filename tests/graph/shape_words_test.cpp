// SPDX-License-Identifier: Apache-2.0
// torch's shape functions against plain loops over indices, on random shapes, with numeric and
// symbolic sizes; and control flow bodies built by functions.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using Index = std::vector<int64_t>;
using Values = std::vector<Value>;

struct Array {
  Index shape;
  std::vector<float> values;
};

int64_t count_of(const Index& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Sizes sizes_of(const Index& shape) { return Sizes(std::span<const int64_t>(shape)); }

// y[i] = x[where(i)], row-major.
Array picked(const Array& x, const Index& shape, const std::function<Index(const Index&)>& where) {
  Array y{shape, std::vector<float>(count_of(shape))};
  Index at(shape.size(), 0);
  for (float& value : y.values) {
    const Index from = where(at);
    int64_t offset = 0;
    for (size_t d = 0; d < x.shape.size(); ++d) offset = offset * x.shape[d] + from[d];
    value = x.values[offset];
    for (size_t d = shape.size(); d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
  return y;
}

class ShapeWords : public testing::Test {
 protected:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  Array array(int lowest_rank) {
    Array x;
    for (int64_t rank = pick(lowest_rank, 4); rank > 0; --rank)
      x.shape.push_back(pick(0, 9) == 0 ? 0 : pick(1, 4));
    for (int64_t i = 0; i < count_of(x.shape); ++i) x.values.push_back(static_cast<float>(i + 1));
    return x;
  }
  // The same dim, perhaps counted from the end.
  int either(int64_t dim, size_t rank) {
    return static_cast<int>(pick(0, 1) == 0 ? dim : dim - static_cast<int64_t>(rank));
  }

  // Calls `build` for x twice: with numbers as sizes, and with symbols except in `known`.
  void expect(const Array& x, const std::vector<Array>& expected, std::vector<int> known,
              const std::function<Values(const Value&)>& build) {
    for (const bool symbols : {false, true}) {
      Graph g;
      Shape shape;
      for (size_t d = 0; d < x.shape.size(); ++d) {
        const bool number = !symbols || std::find(known.begin(), known.end(), d) != known.end();
        shape.push_back(number ? Dim(x.shape[d]) : Dim(std::string_view(str_cat("s", int64_t(d)))));
      }
      const Values ys = build(g.input("x", f32, shape));
      ASSERT_TRUE(g.status().ok()) << g.status().message();
      ASSERT_EQ(ys.size(), expected.size());
      for (const Value& y : ys) g.output("", y);
      Session session = *Session::create(*Model::from_graph(std::move(g)), {.threads = 1});
      must(session.set_input(0, view(x.values, sizes_of(x.shape))));
      must(session.run());
      for (size_t i = 0; i < ys.size(); ++i) {
        const Tensor y = *session.output(static_cast<int>(i));
        ASSERT_EQ(y.shape, sizes_of(expected[i].shape));
        std::vector<float> values(expected[i].values.size());
        copy_elements(y, view(values, y.shape));
        EXPECT_EQ(values, expected[i].values);
      }
    }
  }

  std::mt19937_64 random_{20261122};
};

TEST_F(ShapeWords, MoveElementsAsLoopsDo) {
  for (int round = 0; round < 150; ++round) {
    const Array x = array(1);
    const size_t rank = x.shape.size();
    const int64_t a = pick(0, static_cast<int64_t>(rank) - 1);
    const int64_t b = pick(0, static_cast<int64_t>(rank) - 1);
    const auto ua = static_cast<size_t>(a), ub = static_cast<size_t>(b);
    const int da = either(a, rank), db = either(b, rank);
    const int known = static_cast<int>(a);

    Index shape = x.shape;
    std::swap(shape[ua], shape[ub]);
    const auto swapped = [&](Index at) {
      std::swap(at[ua], at[ub]);
      return at;
    };
    expect(x, {picked(x, shape, swapped)}, {},
           [&](const Value& v) { return Values{transpose(v, da, db)}; });

    const int64_t place = pick(0, static_cast<int64_t>(rank));
    shape = x.shape;
    shape.insert(shape.begin() + place, 1);
    expect(x, {{shape, x.values}}, {},
           [&](const Value& v) { return Values{unsqueeze(v, either(place, rank + 1))}; });
    expect(x, {x}, {}, [&](const Value& v) {
      return Values{squeeze(unsqueeze(v, static_cast<int>(place)), either(place, rank + 1))};
    });

    const int64_t first = std::min(a, b), last = std::max(a, b);
    shape.assign(x.shape.begin(), x.shape.begin() + first);
    shape.push_back(count_of({x.shape.begin() + first, x.shape.begin() + last + 1}));
    shape.insert(shape.end(), x.shape.begin() + last + 1, x.shape.end());
    expect(x, {{shape, x.values}}, {}, [&](const Value& v) {
      return Values{flatten(v, either(first, rank), either(last, rank))};
    });

    if (x.shape[ua] > 0) {
      const int64_t index = pick(0, x.shape[ua] - 1);
      shape = x.shape;
      shape.erase(shape.begin() + a);
      const auto selected = [&](Index at) {
        at.insert(at.begin() + a, index);
        return at;
      };
      const int64_t said = pick(0, 1) == 0 ? index : index - x.shape[ua];
      expect(x, {picked(x, shape, selected)}, {known},
             [&](const Value& v) { return Values{select(v, da, said)}; });
    }

    Index sizes;  // sizes of the pieces
    for (int64_t rest = x.shape[ua]; rest > 0 || sizes.empty(); rest -= sizes.back())
      sizes.push_back(pick(0, rest));
    std::vector<Array> pieces;
    int64_t start = 0;
    for (const int64_t size : sizes) {
      shape = x.shape;
      shape[ua] = size;
      pieces.push_back(picked(x, shape, [&](Index at) {
        at[ua] += start;
        return at;
      }));
      start += size;
    }
    if (start == x.shape[ua])
      expect(x, pieces, {known}, [&](const Value& v) {
        return split(v, std::vector<Dim>(sizes.begin(), sizes.end()), da);
      });
    expect(x, {pieces.back()}, {known}, [&](const Value& v) {
      return Values{narrow(v, da, start - sizes.back(), sizes.back())};
    });

    const int64_t chunks = pick(1, 5), each = (x.shape[ua] + chunks - 1) / chunks;
    std::vector<Array> parts;
    for (int64_t from = 0; from < x.shape[ua]; from += each) {
      shape = x.shape;
      shape[ua] = std::min(each, x.shape[ua] - from);
      parts.push_back(picked(x, shape, [&](Index at) {
        at[ua] += from;
        return at;
      }));
    }
    if (each > 0) expect(x, parts, {known}, [&](const Value& v) { return chunk(v, chunks, da); });

    shape = x.shape;
    shape.insert(shape.begin() + place, 2);
    const auto unstacked = [&](Index at) {
      at.erase(at.begin() + place);
      return at;
    };
    expect(x, {picked(x, shape, unstacked)}, {}, [&](const Value& v) {
      return Values{stack({v, v}, either(place, rank + 1))};
    });
    if (testing::Test::HasFailure()) FAIL() << "in round " << round;
  }
}

TEST_F(ShapeWords, OfOneNumber) {
  const Array x{{}, {3}};
  expect(x, {x, {{1}, {3}}, {{1}, {3}}, {{2}, {3, 3}}, {{}, {-1}}}, {}, [](const Value& v) {
    Graph& g = *v.graph();
    const Value yes = g.constant(*TensorData::allocate(boolean, {}));
    *g.constant_of(yes.id())->tensor.as<bool>() = true;
    return Values{transpose(v, 0, -1), unsqueeze(v, 0), flatten(v), stack({v, v}),
                  masked_fill(v, yes, -1)};
  });
}

TEST(ShapeWordsRefuse, WhatDoesNotFit) {
  const auto message = [](const std::function<void(const Value&)>& build) {
    Graph g;
    build(g.input("x", f32, {2, 3, "n"}));
    return std::string(g.status().message());
  };
  using V = const Value&;
  EXPECT_EQ(message([](V x) { transpose(x, 0, 3); }),
            "transpose: dim 3 is not in [-3, 2] of rank 3");
  EXPECT_EQ(message([](V x) { unsqueeze(x, 4); }), "unsqueeze: dim 4 is not in [-4, 3] of rank 4");
  EXPECT_EQ(message([](V x) { squeeze(x, 1); }), "squeeze: dim 1 of [2, 3, n] is 3, not 1");
  EXPECT_EQ(message([](V x) { flatten(x, 2, 1); }), "flatten: start_dim 2 comes after end_dim 1");
  EXPECT_EQ(message([](V x) {
              split(x, {1, 1}, 1);
            }),
            "split: the sizes have the sum 2, x is [2, 3, n], dim is 1");
  EXPECT_EQ(message([](V x) { chunk(x, 2, 2); }),
            "chunk: cannot make 2 chunks of dim 2 of [2, 3, n]; its size must be a number, and "
            "chunks positive");
  EXPECT_NE(message([](V x) { select(x, 1, 3); }).find("slice"), std::string::npos);
  EXPECT_EQ(message([](V x) {
              stack({x, select(x, 0, 0)});
            }),
            "stack: the tensors have shapes [2, 3, n] and [3, n]");
  EXPECT_TRUE(stack({}).graph() == Value().graph());
  const Value none;
  EXPECT_FALSE(transpose(none, 0, 1));
  EXPECT_FALSE(squeeze(none, 0));
  EXPECT_FALSE(stack({none, none}));
  EXPECT_TRUE(split(none, {1}).empty() || !split(none, {1})[0]);
}

// Splitting a symbol requires that it equals the sum of the sizes.
TEST(ShapeWordsRefuse, ASumThatIsAnother) {
  Graph g;
  for (const Value& piece : split(g.input("x", f32, {"n"}), {2, 3})) g.output("", piece);
  Session session = *Session::create(*Model::from_graph(std::move(g)), {.threads = 1});
  const std::vector<float> x(6);
  ASSERT_TRUE(session.set_input(0, view(x, {6})).ok());
  EXPECT_EQ(session.run().code(), Code::invalid_argument);
  ASSERT_TRUE(session.set_input(0, view(x.data(), f32, {5})).ok());
  EXPECT_TRUE(session.run().ok());
}

// -- Control flow ---------------------------------------------------------------------------------

std::vector<float> run(Session& session, const std::vector<float>& x, int64_t steps) {
  EXPECT_TRUE(session.set_input(0, view(x, {static_cast<int64_t>(x.size())})).ok());
  if (session.input_count() > 1) {
    EXPECT_TRUE(session.set_input(1, view(&steps, i64, {})).ok());
  }
  const Status status = session.run();
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok()) return {};
  const Tensor y = *session.output(0);
  return {y.as<float>(), y.as<float>() + y.count()};
}

TEST(ControlBuilders, ChooseAndRepeat) {
  Graph g;
  const Value x = g.input("x", f32, {"n"}), steps = g.input("steps", i64, {});
  // Repeats x = tanh(x + x[0]) `steps` times, with the original x at hand; then doubles or halves
  // it.
  const Values looped = while_loop(
      {x, g.scalar(int64_t{0}, i64)}, {steps, x},
      [](Graph&, std::span<const Value> v) { return Values{lt(v[1], v[2])}; },
      [](Graph&, std::span<const Value> v) {
        return Values{tanh(v[0] + narrow(v[3], 0, 0, 1)), v[1] + 1};
      });
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  ASSERT_EQ(looped.size(), 2u);
  const Values chosen = cond(
      gt(steps, number_like(steps, 2)), {looped[0]},
      [](Graph&, std::span<const Value> v) { return Values{v[0] * 2}; },
      [](Graph& body, std::span<const Value> v) { return Values{v[0] * body.scalar(0.5)}; });
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  g.output("y", chosen.at(0));
  Session session = *Session::create(*Model::from_graph(std::move(g)), {.threads = 1});
  for (int64_t n = 0; n < 6; ++n) {
    const std::vector<float> start = {0.5f, -1, 2};
    std::vector<float> expected = start;
    for (int64_t i = 0; i < n; ++i)
      for (float& value : expected) value = std::tanh(value + start[0]);
    for (float& value : expected) value *= n > 2 ? 2.0f : 0.5f;
    const std::vector<float> got = run(session, start, n);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << n;
  }
}

TEST(ControlBuilders, RefuseWithTheBodysSentence) {
  const auto same = [](Graph&, std::span<const Value> v) { return Values(v.begin(), v.end()); };
  {
    Graph g;
    const Value x = g.input("x", f32, {2}), p = g.input("p", boolean, {});
    cond(p, {x}, same, [](Graph&, std::span<const Value> v) { return Values{matmul(v[0], {})}; });
    EXPECT_EQ(g.status().message().substr(0, 14), "in a body of i") << g.status().message();
  }
  {
    Graph g;  // a body may use only values that are passed to it
    const Value x = g.input("x", f32, {2}), p = g.input("p", boolean, {});
    cond(p, {x}, same, [&](Graph&, std::span<const Value> v) { return Values{v[0] + x}; });
    EXPECT_NE(g.status().message().find("belongs to another graph"), std::string::npos)
        << g.status().message();
  }
  {
    Graph g;
    const Value x = g.input("x", f32, {2});
    while_loop({x}, {}, same, [](Graph&, std::span<const Value>) { return Values{}; });
    EXPECT_EQ(g.status().message(), "while: a round takes 1 values and gives 0");
  }
  {
    Graph g;
    const Value x = g.input("x", f32, {2});
    while_loop(
        {x}, {}, [](Graph&, std::span<const Value>) { return Values{}; }, same);
    EXPECT_EQ(g.status().message(), "while: the condition gives 0 values, not 1");
  }
  EXPECT_TRUE(while_loop({}, {}, same, same).empty());
}

}  // namespace
}  // namespace hg
