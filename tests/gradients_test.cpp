// SPDX-License-Identifier: Apache-2.0
// Symbolic gradients against known answers; the op tests hold every rule against finite
// differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hg/hg.h"

namespace hg {
namespace {

std::vector<double> evaluate(Graph graph, const std::vector<std::vector<double>>& inputs) {
  const Result<Model> model = Model::from_graph(std::move(graph));
  EXPECT_TRUE(model.ok()) << model.status().message();
  Result<Session> session = Session::create(*model);
  EXPECT_TRUE(session.ok()) << session.status().message();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Sizes shape = session->input_type(static_cast<int>(i)).rank() == 0
                            ? Sizes{}
                            : Sizes{static_cast<int64_t>(inputs[i].size())};
    EXPECT_TRUE(session->set_input(static_cast<int>(i), view(inputs[i], shape)).ok());
  }
  const Status status = session->run();
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<double> results;
  for (int i = 0; i < session->output_count(); ++i) {
    const Tensor tensor = *session->output(i);
    std::vector<double> values(tensor.count());
    copy_elements(tensor, view(values, tensor.shape));
    results.insert(results.end(), values.begin(), values.end());
  }
  return results;
}

// t = a * b; y = t + (t * a) * a
TEST(Gradients, AreExactOnGraphsWithReuse) {
  Graph g;
  const Value a = g.input("a", f64, {}), b = g.input("b", f64, {});
  const Value t = g.call("mul", {a, b});
  const Value y = g.call("add", {t, g.call("mul", {g.call("mul", {t, a}), a})});
  for (const Value& d : gradients(y, {a, b, t})) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  // d/dt alone: 1 + a^2
  EXPECT_EQ(evaluate(std::move(g), {{3}, {5}}), (std::vector<double>{140, 30, 10}));
}

TEST(Gradients, CanBeDifferentiatedAgain) {
  Graph g;
  const Value a = g.input("a", f64, {});
  const Value cube = g.call("mul", {g.call("mul", {a, a}), a});
  const Value first = gradients(cube, {a})[0];
  const Value second = gradients(first, {a})[0];
  const Value third = gradients(second, {a})[0];
  for (const Value& d : {first, second, third}) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{3}}), (std::vector<double>{27, 18, 6}));
}

TEST(Gradients, OfAPolynomialOverAVector) {
  Graph g;
  const Value x = g.input("x", f64, {"n"});
  const auto number = [&](double v) { return g.scalar(v, f64); };
  const Value y = g.call("add", {g.call("add", {g.call("mul", {number(2), g.call("mul", {x, x})}),
                                                g.call("mul", {number(8), x})}),
                                 number(-1)});
  g.output("y", y);
  g.output("dx", gradients(y, {x})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{1, 2, 3, 4}}),
            (std::vector<double>{9, 23, 41, 63, 12, 16, 20, 24}));
}

TEST(Gradients, SumOverBroadcastDimsAndTakeSeeds) {
  Graph g;
  const Value x = g.input("x", f64, {3}), s = g.input("s", f64, {}), seed = g.input("v", f64, {3});
  const Value y = g.call("mul", {x, s});
  for (const Value& d : gradients(y, {x, s}, seed)) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{1, 2, 3}, {10}, {1, 0, -1}}),
            (std::vector<double>{10, 0, -10, 1 - 3}));
}

// Which of two open sizes is repeated, the sizes of the run decide.
TEST(Gradients, SumOverOpenSizesThatAreRepeated) {
  const std::vector<double> one = {5}, three = {1, 2, 3};
  const auto check = [](const std::vector<double>& x, const std::vector<double>& y,
                        const std::vector<double>& expected) {
    Graph g;
    const Value a = g.input("a", f64, {"n"}), b = g.input("b", f64, {"m"});
    for (const Value& d : gradients(a * b, {a, b})) g.output("", d);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    EXPECT_EQ(evaluate(std::move(g), {x, y}), expected);
  };
  check(three, three, {1, 2, 3, 1, 2, 3});
  check(one, three, {6, 5, 5, 5});
  check(three, one, {5, 5, 5, 6});
  for (const Dim& size : {Dim(3), Dim("m")})  // what x is expanded to
    for (const std::vector<double>& x : {one, three}) {
      Graph g;
      const Value a = g.input("a", f64, {"n"}), b = g.input("b", f64, {size});
      const Value wide = g.call("expand", {a}, {{"shape", {2, size}}});
      for (const Value& d : {gradients(a * b, {a})[0], gradients(wide, {a})[0]}) g.output("", d);
      ASSERT_TRUE(g.status().ok()) << g.status().message();
      EXPECT_EQ(evaluate(std::move(g), {x, three}), x.size() == 1
                                                        ? (std::vector<double>{6, 6})
                                                        : (std::vector<double>{1, 2, 3, 2, 2, 2}));
    }
  Graph g;
  const Value a = g.input("a", f64, {"n"}), first = slice(a, 0, 0, min(Dim(1), Dim("n")));
  g.output("", gradients(first * a, {first})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {three}), std::vector<double>{6});
}

// What has no direction at a point gets none from there, as in PyTorch, rather than NaN.
TEST(Gradients, OfAnglesAndSignsAreZeroWhereTheyHaveNone) {
  const auto gradients_of = [](const char* op, std::vector<double> x, std::vector<double> y) {
    Graph g;
    const Value a = g.input("a", f64, {2}), b = g.input("b", f64, {2});
    for (const Value& d : gradients(g.call(op, {a, b}), {a, b})) g.output("", d);
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    return evaluate(std::move(g), {std::move(x), std::move(y)});
  };
  EXPECT_EQ(gradients_of("atan2", {0, 2}, {0, -2}), (std::vector<double>{0, -0.25, 0, -0.25}));
  EXPECT_EQ(gradients_of("copysign", {0, 2}, {HUGE_VAL, -2}), (std::vector<double>{0, -1, 0, 0}));
}

TEST(Gradients, AreZeroWhereNothingDepends) {
  Graph g;
  const Value x = g.input("x", f64, {2}), z = g.input("z", f64, {2});
  const Value y = g.call("mul", {x, x});
  for (const Value& d : gradients(y, {z})) g.output("", d);
  g.output("y", y);
  EXPECT_EQ(evaluate(std::move(g), {{1, 2}, {3, 4}}), (std::vector<double>{0, 0, 1, 4}));
}

TEST(Gradients, EndWhereAValueIsDetached) {
  Graph g;
  const Value x = g.input("x", f64, {3});
  const Value y = detach(x * x) * x;
  for (const Value& d : gradients(y, {x})) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{1, 2, -3}}), (std::vector<double>{1, 4, 9}));
}

// y = cond ? x x z : x + z
TEST(Gradients, GoThroughTheBranchThatIsTaken) {
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
    const std::vector<Value> first = gradients(y, {x, z});
    for (const Value& d : first) g.output("", d);
    for (const Value& d : gradients(first[0], {x, z})) g.output("", d);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    EXPECT_EQ(evaluate(std::move(g), {{2, 3}, {5, 7}}),
              choice ? (std::vector<double>{20, 42, 4, 9, 10, 14, 4, 6})
                     : (std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0}));
  }
}

// cond ? the x that are positive : the sum of all, of two numbers and one.
TEST(Gradients, GoThroughBranchesThatGiveOtherSizes) {
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
    for (const Value& d : gradients(loss, {x, z})) g.output("", d);
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
TEST(Gradients, WalkBackOverTheRoundsOfALoop) {
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
    for (const Value& d : gradients(y, {x, c})) g.output("", d);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    // Four rounds: y = x c^4. None: y = x.
    EXPECT_EQ(evaluate(std::move(g), {{start, 4}, {2}}),
              start < 100 ? (std::vector<double>{16, 16, 4 * 8 * (start + 4)})
                          : (std::vector<double>{1, 1, 0}));
  }
}

// while sum(v) < 100: v = dropout(v^2) + sin(v) + 2 v + a normal number, and then a branch that
// drops out: the gradient is of the numbers that the forward pass drew, run by run.
// c = tanh(a c + x[i]) over the x, and what scan keeps: c x[i] twice, behind two numbers that
// are there before.
TEST(Gradients, WalkBackOverWhatALoopKeepsOfEachRound) {
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
    for (const Value& d : gradients(loss, {x, a, first})) g.output("", d);
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    return evaluate(std::move(g), {{0.5, -0.25, 1}, {0.7}, {1, 2}});
  };
  const std::vector<double> got = scan(false), want = scan(true);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST(Gradients, WalkBackOverWhatALoopDrew) {
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
  g.output("dx", gradients(y, {x})[0]);
  const Model model = *Model::from_graph(std::move(g));

  const std::vector<double> start = {0.3, 0.5, 0.7, 1.1, 0.2};
  // y and dx, of a run that others came before, whose loops took other numbers of rounds.
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

TEST(Gradients, OfALoopThatDrawsInABranchAreRefused) {
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
  gradients(y, {x});
  const std::string message(g.take_status().message());
  EXPECT_NE(message.find("there is no gradient through a loop in which if"), std::string::npos)
      << message;
}

// h = relu(x_t + w h) over any number of steps, and against their order.
TEST(Gradients, WalkBackOverSequencesOfAnyLength) {
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
      for (const Value& d : gradients(h, {x, w})) g.output("", d);
      ASSERT_TRUE(g.status().ok()) << g.status().message();
      // h3 = x3 + w (x2 + w x1): dw = x2 + 2 w x1
      EXPECT_EQ(evaluate(g, {{1, 2, 3}, {2}}), reverse ? (std::vector<double>{1, 2, 4, 2 + 4 * 3})
                                                       : (std::vector<double>{4, 2, 1, 2 + 4 * 1}));
      EXPECT_EQ(evaluate(g, {{5}, {2}}), (std::vector<double>{1, 0}));
    }
}

// The projection of an LSTM over any number of steps: as over a known number, whose rule the
// finite differences of the op tests check.
TEST(Gradients, OfProjectionsWalkBackOverSequencesOfAnyLength) {
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
      for (const Value& d : gradients(std::vector<Value>{y[0], y[1]}, in, seeds))
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

// As of packed sequences, whose number is known from one side and left to data on the other.
// The slices of a split give their gradients side by side; others lie in zeros.
TEST(Gradients, OfSlicesThatMakeUpAValueArePutTogether) {
  for (const bool has_more : {false, true}) {
    Graph g;
    const Value x = g.input("x", f64, {6});
    const Value a = slice(x, 0, 0, 2), b = slice(x, 0, 2, 5), c = slice(x, 0, 5, 6);
    Value y = sum(b * b) + sum(c * 5) + sum(a * 2);
    if (has_more) y = y + sum(slice(x, 0, 1, 4)) + sum(slice(x, -1, 0, 6) * 100);
    g.output("", gradients(y, {x})[0]);
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    const auto count = [&](std::string_view op) {
      return std::count_if(g.nodes().begin(), g.nodes().end(),
                           [&](const Node& node) { return node.op->name() == op; });
    };
    EXPECT_EQ(count("concat"), 1);
    EXPECT_EQ(count("slice_scatter"), has_more ? 1 : 0);
    const std::vector<double> expected = has_more
                                             ? std::vector<double>{102, 103, 107, 109, 110, 105}
                                             : std::vector<double>{2, 2, 6, 8, 10, 5};
    EXPECT_EQ(evaluate(std::move(g), {{1, 2, 3, 4, 5, 6}}), expected);
  }
}

TEST(Gradients, TakeSizesThatMayBeEqual) {
  Graph g;
  const Value gates = g.input("gates", f64, {"t", "b", 12});
  const Value h0 = g.input("h0", f64, {2, 3}), c0 = g.input("c0", f64, {2, 3});
  const Value weight = g.input("weight", f64, {12, 3});
  const Value y = g.calls("lstm_scan", {gates, h0, c0, weight})[0];
  const std::vector<Value> d = gradients(g.call("sum", {y}), {gates, c0});
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(d.size(), size_t{2});
  for (const int last : {16, 17}) {
    Graph norm;
    const Value x = norm.input("x", f32, {"b", "t", 16}), dy = norm.input("dy", f32, {2, 9, last});
    norm.calls("layer_norm_grad", {x, Value(), dy}, {{"normalized_shape", std::vector<Dim>{16}}});
    EXPECT_EQ(norm.status().ok(), last == 16) << norm.status().message();
  }
}

TEST(Gradients, MakeUpJacobians) {
  Graph g;
  const Value x = g.input("x", f64, {2});
  const Value y = g.call("concat", {x * x, sum(x) * x}, {{"dim", 0}});
  g.output("", jacobian(y, x));
  EXPECT_EQ(jacobian(y, x).shape(), (Shape{4, 2}));
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{3, 5}}), (std::vector<double>{6, 0, 0, 10, 11, 3, 5, 13}));
}

TEST(Gradients, MakeUpProductsWithTheJacobian) {
  Graph g;
  const Value x = g.input("x", f64, {2}), z = g.input("z", f64, {2});
  const Value u = g.input("u", f64, {2}), v = g.input("v", f64, {2});
  const Value ys[] = {x * x * z, x, sum(z), u}, wrt[] = {x, z}, directions[] = {u, v};
  for (const Value& d : jacobian_vector_product(ys, wrt, directions)) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{2, 3}, {5, 7}, {1, 10}, {100, 1000}}),
            (std::vector<double>{20 + 400, 420 + 9000, 1, 10, 1100, 0, 0}));
}

TEST(Gradients, NeedADirectionForEachValue) {
  Graph g;
  const Value x = g.input("x", f64, {2});
  EXPECT_TRUE(jacobian_vector_product(std::span(&x, 1), std::span(&x, 1), {}).empty());
  EXPECT_NE(g.status().message().find("1 values and 0 directions"), std::string::npos);
}

// y = sum(x x z): the second derivatives are diag(2 z), diag(2 x) and 0.
TEST(Gradients, MakeUpProductsWithTheHessian) {
  Graph g;
  const Value x = g.input("x", f64, {2}), z = g.input("z", f64, {2});
  const Value u = g.input("u", f64, {2}), v = g.input("v", f64, {2});
  const Value wrt[] = {x, z}, directions[] = {u, v};
  for (const Value& d : hessian_vector_product(sum(x * x * z), wrt, directions)) g.output("", d);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  EXPECT_EQ(evaluate(std::move(g), {{2, 3}, {5, 7}, {1, 10}, {100, 1000}}),
            (std::vector<double>{10 + 400, 140 + 6000, 4, 60}));
}

TEST(Gradients, OfSecondOrderNeedASingleNumber) {
  Graph g;
  const Value x = g.input("x", f64, {2});
  EXPECT_TRUE(hessian_vector_product(x, std::span(&x, 1), std::span(&x, 1)).empty());
  EXPECT_NE(g.status().message().find("'x' has the shape [2]"), std::string::npos);
}

// d sum(y) / d x against differences, at some point; x is a vector.
void expect_differences(Graph& g, const Value& x, const Value& y) {
  const Value total = sum(y);
  Graph forward = g;
  forward.output("", forward.value(total.id()));
  g.output("", gradients(total, {x})[0]);
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  std::vector<double> at(x.dim(0).constant());
  for (size_t i = 0; i < at.size(); ++i) at[i] = std::sin(static_cast<double>(i * i));
  const std::vector<double> dx = evaluate(std::move(g), {at});
  for (size_t i = 0; i < at.size(); ++i) {
    constexpr double kStep = 1e-5;
    std::vector<double> above = at, below = at;
    above[i] += kStep;
    below[i] -= kStep;
    const double difference = evaluate(forward, {above})[0] - evaluate(forward, {below})[0];
    const double expected = difference / (2 * kStep);
    EXPECT_NEAR(dx[i], expected, 1e-7 * (1 + std::abs(expected))) << i;
  }
}

// Through log_softmax, whose results are what ctc_loss expects.
TEST(Gradients, OfCtcLossEqualDifferences) {
  Graph g;
  const auto integers = [&](const std::vector<int64_t>& values, const Sizes& shape) {
    return g.constant(*TensorData::copy_of(view(values, shape)));
  };
  const Value x = g.input("x", f64, {48});
  const Value scores = log_softmax(reshape(x, {6, 2, 4}), 2);
  expect_differences(g, x,
                     g.call("ctc_loss", {scores, integers({1, 3, 2, 2, 1, 3}, {2, 3}),
                                         integers({6, 5}, {2}), integers({3, 2}, {2})}));
}

// x x^T + 3, whatever moves: symmetric, as both ops expect.
TEST(Gradients, OfSymmetricMatricesEqualDifferences) {
  for (const char* op : {"cholesky", "eigh"}) {
    SCOPED_TRACE(op);
    Graph g;
    const Value x = g.input("x", f64, {16}), square = reshape(x, {4, 4});
    const std::vector<double> three = {3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 3};
    const Value matrix = matmul(square, permute(square, {1, 0})) +
                         g.constant(*TensorData::copy_of(view(three, {4, 4})));
    const std::vector<Value> y = g.calls(op, {matrix});
    ASSERT_FALSE(y.empty()) << g.status().message();
    Value all = sum(y[0] * y[0] * y[0]);
    if (y.size() > 1) all = all + sum(y[1] * y[1] * y[1] * y[1]);  // whatever the vectors' signs
    expect_differences(g, x, all);
  }
}

TEST(Gradients, OfSecondOrderAreRefusedWhereNoRuleIsKnown) {
  Graph g;
  const Value x = g.input("x", f32, {1, 2, 3, 3}), grid = g.input("grid", f32, {1, 2, 2, 2});
  const Value y = sum(g.call("grid_sample", {x, grid}));
  const std::vector<Value> first = gradients(y, {grid});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(gradients(sum(first[0]), {grid}).empty()) << "not zero in silence";
  EXPECT_EQ(g.status().message(), "these ops have no gradient: grid_sample_grad");
}

TEST(Gradients, ListAllOpsWithoutOne) {
  constexpr OpDef kWave = {.name = "acme.wave",
                           .signature = "acme.wave(x) -> y",
                           .infer = [](InferContext& c) -> Status {
                             c.out(0) = c.in(0);
                             return {};
                           }};
  constexpr OpDef kTide = {
      .name = "acme.tide", .signature = "acme.tide(x) -> y", .infer = kWave.infer};
  Registry registry;
  ASSERT_TRUE(registry.add(kWave).ok());
  ASSERT_TRUE(registry.add(kTide).ok());
  Graph g(registry);
  const Value x = g.input("x", f32, {2});
  const Value y = g.call("acme.tide", {g.call("neg", {g.call("acme.wave", {x})})});
  EXPECT_TRUE(gradients(y, {x}).empty());
  EXPECT_EQ(g.status().message(), "these ops have no gradient: acme.tide, acme.wave");
  const Value other = g.input("other", f32, {2});
  (void)g.take_status();
  EXPECT_TRUE(gradients(g.call("add", {y, g.call("acme.wave", {other})}), {x, other}).empty());
  EXPECT_EQ(g.status().message(), "these ops have no gradient: acme.tide, acme.wave");
  (void)g.take_status();
  EXPECT_TRUE(gradients(g.call("igamma", {x, g.call("bessel_j0", {y})}), {x}).empty());
  EXPECT_EQ(g.status().message(),
            "these ops have no gradient: acme.tide, acme.wave, bessel_j0, igamma for its first "
            "argument");
}

}  // namespace
}  // namespace hg
