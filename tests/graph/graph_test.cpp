// SPDX-License-Identifier: Apache-2.0
// The builder and its errors, verification, and graphs as text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hg/hg.h"
#include "hg/train.h"
#include "lib/graph/access.h"

namespace hg {
namespace {

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

// A file could not be read with such a size.
TEST(Graph, InputsNeedValidSizes) {
  const std::pair<Dim, const char*> cases[] = {{-2, "'-2'"},
                                               {"bad name", "'bad name'"},
                                               {"", "''"},
                                               {"2n", "'2n'"},
                                               {Dim("n") + Dim("a.b"), "'a.b + n'"}};
  for (const auto& [size, text] : cases) {
    Graph g;
    EXPECT_FALSE(g.input("x", f32, {size, 3}));
    EXPECT_EQ(g.status().code(), Code::invalid_argument);
    EXPECT_EQ(g.status().message(), str_cat("input 'x' has the size ", text,
                                            "; expected 0 or more, or a name such as 'n'"));
  }
  Graph g;
  (void)g.input("x", f32, {0, "n_2", Dim("Batch") * 2 - 1});
  EXPECT_TRUE(g.status().ok()) << g.status().message();
}

TEST(Graph, ValuesStayValidWhenTheirGraphMoves) {
  auto first = std::make_unique<Graph>();
  const Value x = first->input("x", f32, {"n", 2});
  Graph moved = std::move(*first);
  first.reset();
  EXPECT_EQ(x.graph(), &moved);
  EXPECT_EQ(x.name(), "x");
  moved.output("y", relu(x) + 1.0);
  Graph assigned;
  assigned = std::move(moved);
  assigned.output("z", -x);
  Model model = *Model::from_graph(std::move(assigned));
  model.graph().output("again", exp(x));
  EXPECT_EQ(x.graph(), &model.graph());
  EXPECT_TRUE(model.graph().verify().ok());
  EXPECT_EQ(model.graph().outputs().size(), 3u);
  // Values of a copy do not belong to the graph.
  Graph copy = model.graph();
  copy.output("foreign", x);
  EXPECT_EQ(copy.status().code(), Code::invalid_argument);
  EXPECT_TRUE(model.graph().status().ok());
}

TEST(Graph, MovedFromItIsEmptyAndTakesNothing) {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Graph moved = std::move(g);
  EXPECT_EQ(g.status().code(), Code::invalid_argument);
  EXPECT_FALSE(g.input("y", f32, {2}));
  EXPECT_FALSE(g.parameter("w", f32, {2}));
  EXPECT_FALSE(g.scalar(1.0));
  EXPECT_FALSE(g.call("relu", {x}));
  EXPECT_FALSE(g.fail(invalid_argument("other")));
  g.output("y", x);
  g.assign(x, x);
  g.add_alias(x, "z");
  g.set_origin({"module", "source"});
  g.guard("n", Relation::ne, 1, "");
  EXPECT_TRUE(g.guards().empty());
  EXPECT_TRUE(g.nodes().empty());
  EXPECT_TRUE(g.inputs().empty());
  EXPECT_TRUE(g.states().empty());
  EXPECT_EQ(g.verify().code(), Code::invalid_argument);
  EXPECT_EQ(g.take_status().code(), Code::invalid_argument);
  EXPECT_EQ(Model::from_graph(g).status().code(), Code::invalid_argument);
  EXPECT_EQ(g.text(), Graph().text());
  g = Graph();
  EXPECT_TRUE(g.status().ok());
  EXPECT_TRUE(g.input("x", f32, {2}));
}

TEST(Graph, BuildersOnAnEmptyValueFail) {
  Graph g;
  const Value x = g.input("x", f32, {2}), none;
  EXPECT_FALSE(relu(none));
  EXPECT_FALSE(none + x);
  EXPECT_FALSE(none * 2.0);
  EXPECT_FALSE(2.0 - none);
  EXPECT_FALSE(linear(none, x, x));
  EXPECT_FALSE(sum(none, {0}));
  EXPECT_TRUE(grad(none, {x}).empty());
  EXPECT_FALSE(jacobian(none, x));
  EXPECT_TRUE(g.status().ok());
  g.output("y", relu(none));
  EXPECT_EQ(g.status().code(), Code::invalid_argument);
}

TEST(Status, OkIsNoFailedResult) {
  const Result<int> none = Status();
  EXPECT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::internal);
  const auto forwards = []() -> Status {
    HG_TRY_ASSIGN(const int value, Result<int>(Status()));
    return invalid_argument(value);
  };
  EXPECT_EQ(forwards().code(), Code::internal);
  const Result<int> failed = not_found("it");
  EXPECT_EQ(failed.status().code(), Code::not_found);
  EXPECT_EQ(failed.status().message(), "it");
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

// An older version may have written the same size in another form.
TEST(Graph, VerifyComparesWhatSizesAre) {
  Graph g;
  const Value x = g.input("x", f32, {"n", "h"});
  g.output("y", g.call("relu", {x}));
  Graph same(g), other(g);
  const Dim n = "n";
  GraphAccess::body(same).values[1].type.shape[0] = min(n * n, 9) + max(n * n, 9) - n * n + n - 9;
  GraphAccess::body(other).values[1].type.shape[0] = min(n * n, 9) + n - 9;
  EXPECT_TRUE(same.verify().ok()) << same.verify().message();
  EXPECT_FALSE(other.verify().ok());
}

TEST(Graph, GuardsSayWhatTheSizesMustBe) {
  Graph g;
  const Value x = g.input("x", f32, {"n", "m"});
  g.set_origin({"head", "model.py:12"});
  g.guard("n", Relation::ne, 1, "squeeze");
  g.guard("n", Relation::ne, 1, "squeeze");  // already known
  g.guard(0, Relation::le, "n", "select");   // true for every size
  g.guard(2, Relation::le, Dim("m") - 1, "index 2");
  g.guard(floordiv("m", 2), Relation::eq, "n", "");
  g.output("y", g.call("relu", {x}));
  ASSERT_TRUE(g.verify().ok()) << g.verify().message();
  EXPECT_EQ(g.text(),
            "graph(x: f32[n, m])\n"
            "  guard n != 1, because of squeeze at model.py:12\n"
            "  guard 2 <= m - 1, because of index 2 at model.py:12\n"
            "  guard floordiv(m, 2) == n at model.py:12\n"
            "  relu_1 = relu(x) : f32[n, m]  # head\n"
            "  return y = relu_1\n");
  Bindings sizes;
  EXPECT_TRUE(check(g.guards()[0], sizes).ok());  // the sizes are not known yet
  ASSERT_TRUE(sizes.bind("n", 1).ok() && sizes.bind("m", 2).ok());
  EXPECT_EQ(check(g.guards()[0], sizes).message(),
            "n is 1, but the model was converted for n other than 1, because of squeeze at "
            "model.py:12");
  EXPECT_EQ(check(g.guards()[1], sizes).message(),
            "with m=2: m - 1 is 1, but the model was converted for m - 1 at least 2, because of "
            "index 2 at model.py:12");
  EXPECT_TRUE(check(g.guards()[2], sizes).ok());

  Graph lengthy(g.registry());
  const Dim term = floordiv("height", 4) * floordiv("width", 4) * floordiv("depth", 4);
  lengthy.guard(term, Relation::lt, term * "batch", "a check");
  ASSERT_TRUE(lengthy.status().ok()) << lengthy.status().message();
  for (const auto& [name, size] :
       {std::pair("height", 8), {"width", 8}, {"depth", 8}, {"batch", 1}})
    ASSERT_TRUE(sizes.bind(name, size).ok());
  EXPECT_EQ(check(lengthy.guards()[0], sizes).message(),
            "the model was converted for other sizes than depth=8, height=8, width=8, batch=1: "
            "8 is not below 8, because of a check");
  lengthy.guard(term, Relation::ne, term * "batch", "a check");
  EXPECT_EQ(check(lengthy.guards()[1], sizes).message(),
            "the model was converted for other sizes than depth=8, height=8, width=8, batch=1: "
            "two sizes that must differ are both 8, because of a check");

  Graph impossible(g);
  impossible.guard(Dim("n") + 1, Relation::lt, 1, "a test");
  EXPECT_EQ(impossible.status().message(),
            "no size is such that n + 1 < 1, because of a test at model.py:12");
  Graph unknown(g);
  unknown.guard("u7", Relation::eq, 1, "a test");
  EXPECT_NE(unknown.verify().message().find("'u7'"), std::string::npos);
}

// Numbers at and beyond the limits of every integer dtype, for every op that takes a number.
TEST(Graph, NumbersBesideIntegersHaveToFit) {
  struct Range {
    DType dtype;
    double low, high;
  };
  constexpr Range kRanges[] = {{i64, -0x1p63, 0x1p62},
                               {i32, -2147483648.0, 2147483647},
                               {i16, -32768, 32767},
                               {i8, -128, 127},
                               {u8, -255, 255}};
  const auto status_of = [](DType dtype, double number, int how) {
    Graph g;
    const Value x = g.input("x", dtype, {3});
    if (how == 0) g.output("y", x + number);
    if (how == 1) g.output("y", g.scalar(number, dtype));
    if (how == 2) g.output("y", full(g, {3}, number, dtype));
    if (how == 3)
      g.output("y", g.call("linspace", {},
                           {{"start", number}, {"end", 0.0}, {"steps", 3}, {"dtype", dtype}}));
    if (how == 4)
      g.output("y", g.call("pad", {x}, {{"pads", std::vector<Dim>{1, 1}}, {"value", number}}));
    return g.status();
  };
  for (const Range& range : kRanges)
    for (int how = 0; how < 5; ++how) {
      SCOPED_TRACE(str_cat(range.dtype, ", ", int64_t{how}));
      for (const double number : {range.low, range.high, 0.0})
        EXPECT_TRUE(status_of(range.dtype, number, how).ok()) << number;
      const double below = range.dtype == i64 ? -0x1.1p63 : range.low - 1;
      const double above = range.dtype == i64 ? 0x1p63 : range.high + 1;
      for (const double number : {below, above, 1e261, -HUGE_VAL, HUGE_VAL, std::nan("")})
        EXPECT_FALSE(status_of(range.dtype, number, how).ok()) << number;
    }
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const double number : {1e261, 0.5, std::nan("")})
      for (int how = 0; how < 5; ++how) EXPECT_TRUE(status_of(dtype, number, how).ok());
  EXPECT_FALSE(status_of(i64, 0.5, 0).ok());
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
  EXPECT_EQ(BFloat16(1.00390625f).bits, 0x3f80);  // a tie goes to the even neighbor
  EXPECT_EQ(BFloat16(1.01171875f).bits, 0x3f82);
  for (int bits = 0; bits < 0x7c00; ++bits) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    ASSERT_EQ(Half(static_cast<float>(half)).bits, bits);
  }
}

}  // namespace
}  // namespace hg
