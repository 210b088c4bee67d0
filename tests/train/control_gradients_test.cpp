// SPDX-License-Identifier: Apache-2.0
// Gradients through branches, loops and recurrent sequences of any length, against known results,
// the same graph without control flow, and finite differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/evaluated.h"

namespace hg {
namespace {

using test::evaluate;

// y = cond ? x x z : x + z
TEST(ControlGradients, GoThroughTheBranchThatIsTaken) {
  for (const bool choice : {true, false}) {
    Graph g;
    const Value cond = g.constant(*TensorData::copy_of(view(&choice, boolean, {})));
    const Value x = g.input("x", f64, {"n"}), z = g.input("z", f64, {"n"});
    const auto branch = [](bool first) {
      auto b = std::make_shared<Graph>();
      const Value u = b->input("u", f64, {"n"}), v = b->input("v", f64, {"n"});
      b->output("", first ? b->call("mul", {b->call("mul", {u, u}), v}) : b->call("add", {u, v}));
      return b;
    };
    const Value inputs[] = {cond, x, z};
    const Value y = g.calls("if", inputs, {}, {branch(true), branch(false)})[0];
    const std::vector<Value> first = grad(y, {x, z});
    for (const Value& d : first) g.output("", d);
    for (const Value& d : grad(first[0], {x, z})) g.output("", d);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    EXPECT_EQ(evaluate(std::move(g), {{2, 3}, {5, 7}}),
              choice ? (std::vector<double>{20, 42, 4, 9, 10, 14, 4, 6})
                     : (std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0}));
  }
}

// cond ? (x x where x > 0, z z) : (the sum of x, [z, x]): the branches give different sizes.
TEST(ControlGradients, GoThroughBranchesThatGiveOtherSizes) {
  for (const bool choice : {true, false}) {
    Graph g;
    const Value cond = g.constant(*TensorData::copy_of(view(&choice, boolean, {})));
    const Value x = g.input("x", f64, {3}), z = g.input("z", f64, {"n"});
    const auto branch = [](bool first) {
      auto b = std::make_shared<Graph>();
      const Value u = b->input("u", f64, {3}), v = b->input("v", f64, {"n"});
      const Value total = b->call("sum", {u}, {{"dim", std::vector<Dim>{0}}, {"keepdim", true}});
      const Value places = b->call(
          "nonzero", {b->call("gt", {u, b->call("cast", {b->scalar(0.0)}, {{"dtype", f64}})})});
      const Value index = b->call("reshape", {places}, {{"shape", Attr(Shape{places.dim(0)})}});
      b->output("", first ? b->call("index_select", {b->call("mul", {u, u}), index}, {{"dim", 0}})
                          : total);
      b->output("", first ? b->call("mul", {v, v}) : b->call("concat", {v, u}, {{"dim", 0}}));
      return b;
    };
    const Value inputs[] = {cond, x, z};
    const std::vector<Value> ys = g.calls("if", inputs, {}, {branch(true), branch(false)});
    const Value loss =
        g.call("add", {g.call("sum", {g.call("exp", {ys[0]})}), g.call("sum", {ys[1]})});
    for (const Value& d : grad(loss, {x, z})) g.output("", d);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    const std::vector<double> found = evaluate(std::move(g), {{1, -1, 0.5}, {5, 7}});
    const double total = std::exp(0.5) + 1;
    const std::vector<double> expected =
        choice ? std::vector<double>{2 * std::exp(1), 0, std::exp(0.25), 10, 14}
               : std::vector<double>{total, total, total, 1, 1};
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
  }
}

// while sum(v) < 100: v = v c, with n counting the rounds
TEST(ControlGradients, WalkBackOverTheRoundsOfALoop) {
  for (const double start : {3.0, 300.0}) {
    Graph g;
    const Value x = g.input("x", f64, {"n"}), c = g.input("c", f64, {});
    const auto below = [](Graph& b, Value v) {
      return b.call("lt", {b.call("sum", {v}), b.scalar(100.0, f64)});
    };
    auto body = std::make_shared<Graph>();
    const Value v = body->input("v", f64, {"n"}), n = body->input("n", i64, {});
    const Value factor = body->input("c", f64, {});
    const Value next = body->call("mul", {v, factor});
    body->output("", below(*body, next));
    body->output("", next);
    body->output("", body->call("add", {n, body->scalar(int64_t{1}, i64)}));
    const Value inputs[] = {below(g, x), x, g.scalar(int64_t{0}, i64), c};
    const Value y = g.calls("while", inputs, {}, {body})[0];
    for (const Value& d : grad(y, {x, c})) g.output("", d);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    // After four rounds: y = x c^4. After none: y = x.
    EXPECT_EQ(evaluate(std::move(g), {{start, 4}, {2}}),
              start < 100 ? (std::vector<double>{16, 16, 4 * 8 * (start + 4)})
                          : (std::vector<double>{1, 1, 0}));
  }
}

// c = tanh(a c + x[i]) over the x, and what scan keeps: c x[i] twice, behind two numbers that
// are there before.
TEST(ControlGradients, WalkBackOverWhatALoopKeepsOfEachRound) {
  const auto scan = [](bool unrolled) {
    Graph g;
    const Value x = g.input("x", f64, {unrolled ? Dim(3) : Dim("n")});
    const Value a = g.input("a", f64, {}), first = g.input("first", f64, {2});
    const auto number = [](Graph& of, int64_t i) { return of.scalar(i, i64); };
    const auto round = [](Graph& of, const Value& rows, const Value& i, const Value& factor,
                          const Value& c) {
      const Value row = of.call("reshape", {of.call("index_select", {rows, i}, {{"dim", 0}})},
                                {{"shape", Attr(Shape{})}});
      const Value next = of.call("tanh", {factor * c + row});
      const Value kept = of.call("reshape", {next * row}, {{"shape", Attr(Shape{1})}});
      return std::pair(next, of.call("concat", {kept, kept}, {{"dim", 0}}));
    };
    Value carry = a * 0.5, stack = first;
    if (unrolled) {
      for (int64_t i = 0; i < 3; ++i) {
        const Value at = g.call("reshape", {number(g, i)}, {{"shape", Attr(Shape{1})}});
        const auto [next, kept] = round(g, x, at, a, carry);
        carry = next;
        stack = g.call("concat", {stack, kept}, {{"dim", 0}});
      }
    } else {
      auto b = std::make_shared<Graph>();
      const Value i = b->input("i", i64, {}), c = b->input("c", f64, {});
      const Value grown = b->input("grown", f64, {"k"}), rows = b->input("rows", f64, {"n"});
      const Value factor = b->input("factor", f64, {});
      const auto [next, kept] =
          round(*b, rows, b->call("reshape", {i}, {{"shape", Attr(Shape{1})}}), factor, c);
      const Value after = b->call("add", {i, number(*b, 1)});
      const Value count =
          b->call("reshape", {b->call("dims", {}, {{"values", Attr(Shape{rows.dim(0)})}})},
                  {{"shape", Attr(Shape{})}});
      b->output("", b->call("lt", {after, count}));
      b->output("", after);
      b->output("", next);
      b->output("", b->call("concat", {grown, kept}, {{"dim", 0}}));
      const Value count_outside =
          g.call("reshape", {g.call("dims", {}, {{"values", Attr(Shape{x.dim(0)})}})},
                 {{"shape", Attr(Shape{})}});
      const Value inputs[] = {
          g.call("lt", {number(g, 0), count_outside}), number(g, 0), carry, first, x, a};
      const std::vector<Value> out = g.calls("while", inputs, {}, {b});
      carry = out[1];
      stack = out[2];
    }
    const Value loss =
        g.call("add", {g.call("sum", {g.call("exp", {stack})}), g.call("sum", {carry})});
    for (const Value& d : grad(loss, {x, a, first})) g.output("", d);
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    return evaluate(std::move(g), {{0.5, -0.25, 1}, {0.7}, {1, 2}});
  };
  const std::vector<double> got = scan(false), want = scan(true);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

// while sum(v) < 100: v = dropout(v^2) + sin(v) + 2 v + a normal number; then a branch with
// dropout.
// The gradient uses the numbers that the forward pass drew, in every run.
TEST(ControlGradients, WalkBackOverWhatALoopDrew) {
  Graph g;
  const Value x = g.input("x", f64, {"n"});
  const auto below = [](Graph& b, Value v) { return lt(sum(v), b.scalar(100.0, f64)); };
  const auto dropped = [](const Value& v, int64_t stream) {
    return v.graph()->call("dropout", {v}, {{"p", 0.25}, {"training", true}, {"stream", stream}});
  };
  auto body = std::make_shared<Graph>();
  const Value v = body->input("v", f64, {"n"});
  const Value noise =
      body->call("randn", {}, {{"shape", v.shape()}, {"dtype", f64}, {"stream", 2}});
  const Value next = dropped(v * v, 1) + sin(v) + v * 2 + noise * v;
  body->output("", below(*body, next));
  body->output("", next);
  const Value inputs[] = {below(g, x), x};
  const Value loop = g.calls("while", inputs, {}, {body})[0];
  std::vector<std::shared_ptr<Graph>> branches;
  for (const int64_t stream : {3, 4}) {
    branches.push_back(std::make_shared<Graph>());
    const Value u = branches.back()->input("u", f64, {"n"});
    branches.back()->output("", dropped(u * u, stream));
  }
  const Value y =
      sum(g.calls("if", std::vector{gt(sum(loop), g.scalar(150.0, f64)), loop}, {}, branches)[0]);
  g.output("y", y);
  g.output("dx", grad(y, {x})[0]);
  const Model model = *Model::from_graph(std::move(g));

  const std::vector<double> start = {0.3, 0.5, 0.7, 1.1, 0.2};
  // y and dx of a run after other runs, whose loops had other numbers of rounds.
  const auto evaluated = [&](std::vector<double> at, int before) {
    Session session = *Session::create(model, {.threads = 1, .seed = 5});
    std::vector<double> other = {3, 20, 60, 4, 5};
    EXPECT_TRUE(session.set_input(0, view(other, {5})).ok());
    for (int i = 0; i < before; ++i) EXPECT_TRUE(session.run().ok());
    EXPECT_TRUE(session.set_input(0, view(at, {5})).ok());
    EXPECT_TRUE(session.run().ok());
    std::vector<double> result = {*session.output(0)->as<double>()};
    for (int i = 0; i < 5; ++i) result.push_back(session.output(1)->as<double>()[i]);
    return result;
  };
  for (const int before : {0, 1, 4}) {
    const std::vector<double> found = evaluated(start, before);
    for (size_t i = 0; i < start.size(); ++i) {
      constexpr double kStep = 1e-6;
      std::vector<double> more = start, less = start;
      more[i] += kStep;
      less[i] -= kStep;
      const double slope = (evaluated(more, before)[0] - evaluated(less, before)[0]) / (2 * kStep);
      EXPECT_NEAR(found[i + 1], slope, 1e-4 * std::max(1.0, std::abs(slope))) << before << " " << i;
    }
  }
}

TEST(ControlGradients, OfALoopThatDrawsInABranchAreRefused) {
  Graph g;
  auto branch = std::make_shared<Graph>(), body = std::make_shared<Graph>();
  const Value u = branch->input("u", f64, {4});
  branch->output("", branch->call("dropout", {u}, {{"training", true}}));
  const Value v = body->input("v", f64, {4});
  const Value next = body->calls("if", std::vector{gt(sum(v), body->scalar(0.0, f64)), v}, {},
                                 {branch, branch})[0];
  body->output("", lt(sum(next), body->scalar(9.0, f64)));
  body->output("", next);
  const Value x = g.input("x", f64, {4});
  const Value y =
      sum(g.calls("while", std::vector{gt(sum(x), g.scalar(0.0, f64)), x}, {}, {body})[0]);
  grad(y, {x});
  const std::string message(g.take_status().message());
  EXPECT_NE(message.find("there is no gradient through a loop in which if"), std::string::npos)
      << message;
}

// h = relu(x_t + w h) over any number of steps, forwards and backwards.
TEST(ControlGradients, WalkBackOverSequencesOfAnyLength) {
  for (const DType dtype : {f32, f16})
    for (const bool reverse : {false, true}) {
      Graph g;
      const Value x = g.input("x", f64, {"t"}), w = g.input("w", f64, {1});
      const auto as = [&](const Value& v, const Shape& shape) {
        return g.call("cast", {g.call("reshape", {v}, {{"shape", shape}})}, {{"dtype", dtype}});
      };
      const Value h0 =
          g.call("full", {}, {{"shape", Shape{1, 1}}, {"value", 0.0}, {"dtype", dtype}});
      const Value h = g.calls("rnn_scan", {as(x, {x.dim(0), 1, 1}), h0, as(w, {1, 1})},
                              {{"nonlinearity", "relu"}, {"reverse", reverse}})[1];
      for (const Value& d : grad(h, {x, w})) g.output("", d);
      ASSERT_TRUE(g.status().ok()) << g.status().message();
      // h3 = x3 + w (x2 + w x1): dw = x2 + 2 w x1
      EXPECT_EQ(evaluate(g, {{1, 2, 3}, {2}}), reverse ? (std::vector<double>{1, 2, 4, 2 + 4 * 3})
                                                       : (std::vector<double>{4, 2, 1, 2 + 4 * 1}));
      EXPECT_EQ(evaluate(g, {{5}, {2}}), (std::vector<double>{1, 0}));
    }
}

// The projection of an LSTM over any number of steps gives the same as over a known number. Finite
// differences in the op tests check the latter.
TEST(ControlGradients, OfProjectionsWalkBackOverSequencesOfAnyLength) {
  constexpr int64_t kTime = 5, kBatch = 2, kHidden = 3, kOut = 2;
  const Shape shapes[] = {
      {kBatch, kOut}, {kBatch, kHidden}, {4 * kHidden, kOut}, {4 * kHidden}, {kOut, kHidden}};
  for (const bool reverse : {false, true}) {
    const auto gradients_of = [&](const Dim& time, DType dtype) {
      Graph g;
      uint64_t seed = 1;
      const Value x = g.input("x", f64, {time * kBatch * 4 * kHidden});
      const auto noise = [&](const Shape& shape) {
        return g.call("cast",
                      {g.parameter(str_cat("p", seed), f64, *evaluate(shape, Bindings()),
                                   init::normal(0, 1, ++seed))},
                      {{"dtype", dtype}});
      };
      std::vector<Value> in = {g.call("reshape", {g.call("cast", {x}, {{"dtype", dtype}})},
                                      {{"shape", Shape{time, kBatch, 4 * kHidden}}})};
      for (int i = 0; i < 5; ++i) in.push_back(noise(shapes[i]));
      const std::vector<Value> y = g.calls("lstm_scan", in, {{"reverse", reverse}});
      const std::vector<Value> seeds = {
          g.call("slice", {in[0]}, {{"dim", 2}, {"start", 0}, {"end", kOut}}), noise(shapes[0])};
      for (const Value& d : grad(std::vector<Value>{y[0], y[1]}, in, seeds))
        g.output("", g.call("cast", {d}, {{"dtype", f64}}));
      EXPECT_TRUE(g.status().ok()) << g.status().message();
      std::vector<double> data;
      for (int64_t i = 0; i < kTime * kBatch * 4 * kHidden; ++i)
        data.push_back(std::sin(static_cast<double>(i)));
      return evaluate(std::move(g), {data});
    };
    const std::vector<double> any = gradients_of(Dim("t"), f32), known = gradients_of(kTime, f64);
    ASSERT_EQ(any.size(), known.size());
    for (size_t i = 0; i < any.size(); ++i) EXPECT_NEAR(any[i], known[i], 2e-6) << i;
  }
}

}  // namespace
}  // namespace hg
