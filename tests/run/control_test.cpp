// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of the bodies of `if` and `while`: values passed through, views of them, and
// sizes that change.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/allocation_count.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using Floats = std::vector<float>;
using Values = std::vector<Value>;

Floats floats(const Tensor& tensor) {
  Floats values(tensor.count());
  copy_elements(tensor, view(values, tensor.shape));
  return values;
}

// A loop of `rounds` over values of these shapes; `step` builds the values of the next round.
Session loop(int64_t rounds, const std::vector<Shape>& shapes,
             const std::function<Values(Graph&, const Values&)>& step) {
  Graph g;
  const auto body = std::make_shared<Graph>();
  const auto below = [&](Graph& graph, const Value& count) {
    return graph.call("lt", {count, graph.scalar(rounds, i64)});
  };
  const Value none = g.scalar(int64_t{0}, i64);
  Values inputs = {below(g, none), none}, taken;
  const Value count = body->input("", i64, {});
  for (const Shape& shape : shapes) {
    inputs.push_back(g.input("", f32, shape));
    taken.push_back(body->input("", f32, shape));
  }
  const Value next = body->call("add", {count, body->scalar(int64_t{1}, i64)});
  body->output("", below(*body, next));
  body->output("", next);
  for (const Value& value : step(*body, taken)) body->output("", value);
  EXPECT_TRUE(body->status().ok()) << body->status().message();
  const Values results = g.calls("while", inputs, {}, {body});
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  for (size_t i = 1; i < results.size(); ++i) g.output("", results[i]);
  const Model model = must(Model::from_graph(std::move(g)));
  return *Session::create(model, {.threads = 1});
}

std::vector<Floats> run(Session& session, std::vector<Floats> inputs, const Sizes& shape) {
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(session.set_input(static_cast<int>(i), view(inputs[i], shape)).ok());
  must(session.run());
  std::vector<Floats> outputs;
  for (int i = 0; i < session.output_count(); ++i) outputs.push_back(floats(*session.output(i)));
  return outputs;
}

TEST(Control, ALoopAssignsItsValuesAtOnce) {
  const auto rotate = [](Graph&, const Values& v) { return Values{v[1], v[2], v[0]}; };
  for (const int64_t rounds : {0, 1, 2, 3, 4, 7}) {
    Session session = loop(rounds, {{"n"}, {"n"}, {"n"}}, rotate);
    const std::vector<Floats> start = {{1, 2}, {3, 4}, {5, 6}};
    for (int again = 0; again < 2; ++again) {
      const std::vector<Floats> got = run(session, start, {2});
      for (size_t i = 0; i < 3; ++i)
        EXPECT_EQ(got[i], start[(i + static_cast<size_t>(rounds)) % 3]) << rounds << " rounds";
    }
  }
}

TEST(Control, ALoopKeepsWhatTheRoundBeforeHad) {
  // (p, old) -> (p / 2, p)
  const auto step = [](Graph& b, const Values& v) {
    return Values{b.call("mul", {v[0], b.scalar(0.5)}), v[0]};
  };
  for (const int64_t rounds : {1, 2, 3, 5}) {
    Session session = loop(rounds, {{"n"}, {"n"}}, step);
    const std::vector<Floats> got = run(session, {{96}, {1}}, {1});
    float p = 96, old = 1;
    for (int64_t i = 0; i < rounds; ++i) old = p, p /= 2;
    EXPECT_EQ(got, (std::vector<Floats>{{p}, {old}})) << rounds << " rounds";
  }
}

TEST(Control, ALoopTurnsAValueOverItself) {
  // Views of a round's inputs: (a, b) -> (b transposed, a transposed), and a alone.
  const auto turned = [](Graph& b, const Value& v) {
    return b.call("permute", {v}, {{"dims", {1, 0}}});
  };
  const Floats a = {1, 2, 3, 4, 5, 6, 7, 8, 9}, b = {9, 8, 7, 6, 5, 4, 3, 2, 0};
  const auto transposed = [](const Floats& v) {
    return Floats{v[0], v[3], v[6], v[1], v[4], v[7], v[2], v[5], v[8]};
  };
  Session both = loop(3, {{3, 3}, {3, 3}}, [&](Graph& g, const Values& v) {
    return Values{turned(g, v[1]), turned(g, v[0])};
  });
  EXPECT_EQ(run(both, {a, b}, {3, 3}), (std::vector<Floats>{transposed(b), transposed(a)}));
  Session alone =
      loop(3, {{3, 3}}, [&](Graph& g, const Values& v) { return Values{turned(g, v[0])}; });
  EXPECT_EQ(run(alone, {a}, {3, 3}), (std::vector<Floats>{transposed(a)}));
}

TEST(Control, ALoopGrowsAValueBesideAViewOfIt) {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  const auto body = std::make_shared<Graph>();
  const auto below = [](Graph& graph, const Value& v) {
    return graph.call("lt", {graph.call("sum", {v}), graph.scalar(50.0)});
  };
  const Value all = body->input("", f32, {"u0"});
  body->input("", f32, {2});
  const Value more = body->call("concat", {all, all}, {{"dim", 0}});
  body->output("", below(*body, more));
  body->output("", more);
  body->output("", body->call("slice", {all}, {{"dim", 0}, {"start", 0}, {"end", 2}}));
  ASSERT_TRUE(body->status().ok()) << body->status().message();
  const Value pair = g.input("pair", f32, {2});
  const Value inputs[] = {below(g, x), x, pair};
  for (const Value& y : g.calls("while", inputs, {}, {body})) g.output("", y);
  Session session = *Session::create(must(Model::from_graph(std::move(g))), {.threads = 1});
  for (int again = 0; again < 2; ++again) {
    Floats start = {1, 2, 3}, none = {-1, -1};
    ASSERT_TRUE(session.set_input("x", view(start, {3})).ok());
    ASSERT_TRUE(session.set_input("pair", view(none, {2})).ok());
    must(session.run());
    EXPECT_EQ(session.output(0)->count(), 48);
    EXPECT_EQ(floats(*session.output(1)), (Floats{1, 2}));
  }
}

TEST(Control, ALoopAllocatesNothingInRun) {
  Session session = loop(5, {{"n"}, {"n"}}, [](Graph& b, const Values& v) {
    return Values{b.call("add", {v[0], v[1]}), v[0]};
  });
  const std::vector<Floats> start = {{1, 1}, {0, 1}};
  EXPECT_EQ(run(session, start, {2}), (std::vector<Floats>{{8, 13}, {5, 8}}));
  const int64_t before = test::allocation_count();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(test::allocation_count() - before, 0);
}

TEST(Control, ABranchPassesOnWhatItTook) {
  Graph g;
  const Value cond = g.input("cond", boolean, {}), x = g.input("x", f32, {2}),
              y = g.input("y", f32, {2});
  const auto side = [](int first) {
    auto graph = std::make_shared<Graph>();
    const Values taken = {graph->input("", f32, {2}), graph->input("", f32, {2})};
    graph->output("", taken[first]);
    graph->output("", taken[1 - first]);
    return graph;
  };
  const Value inputs[] = {cond, x, y};
  for (const Value& v : g.calls("if", inputs, {}, {side(0), side(1)})) g.output("", v);
  Session session = *Session::create(*Model::from_graph(std::move(g)), {.threads = 1});
  Floats a = {1, 2}, b = {3, 4};
  ASSERT_TRUE(session.set_input("x", view(a, {2})).ok());
  ASSERT_TRUE(session.set_input("y", view(b, {2})).ok());
  for (const bool choice : {true, false}) {
    ASSERT_TRUE(session.set_input("cond", view(&choice, boolean, {})).ok());
    ASSERT_TRUE(session.run().ok());
    EXPECT_EQ(floats(*session.output(0)), choice ? a : b);
    EXPECT_EQ(floats(*session.output(1)), choice ? b : a);
  }
}

// Runs a session with condition and threshold; returns an empty text, or the error message.
std::string said(Session& session, bool cond, float threshold) {
  Floats x = {1, 2};
  EXPECT_TRUE(session.set_input("cond", view(&cond, boolean, {})).ok());
  EXPECT_TRUE(session.set_input("x", view(x, {2})).ok());
  EXPECT_TRUE(session.set_input("threshold", view(&threshold, f32, {})).ok());
  return std::string(session.run().message());
}

TEST(Control, AnAssertionFailsTheRunThoughNobodyReadsIt) {
  for (const bool in_branch : {false, true}) {
    Graph g;
    const Value cond = g.input("cond", boolean, {}), x = g.input("x", f32, {2}),
                threshold = g.input("threshold", f32, {});
    const auto insist = [](Graph& graph, const Value& value, const Value& limit) {
      const Value most = graph.call("amax", {value}, {{"dim", std::vector<Dim>{0}}});
      graph.call("assert_true", {graph.call("le", {most, limit})}, {{"message", "too large"}});
    };
    if (in_branch) {
      const auto side = [&](bool insists) {
        auto graph = std::make_shared<Graph>();
        const Value value = graph->input("", f32, {2}), limit = graph->input("", f32, {});
        if (insists) insist(*graph, value, limit);
        graph->output("", graph->scalar(int64_t{0}, boolean));
        return graph;
      };
      const Value inputs[] = {cond, x, threshold};
      g.calls("if", inputs, {}, {side(true), side(false)});
    } else {
      insist(g, x, threshold);
    }
    g.output("y", g.call("neg", {x}));
    const Model model = must(Model::from_graph(std::move(g)));
    Session session = *Session::create(model, {.threads = 1});
    EXPECT_EQ(said(session, true, 2), "");
    EXPECT_EQ(floats(*session.output(0)), (Floats{-1, -2}));
    EXPECT_NE(said(session, true, 1.5f).find("too large"), std::string::npos);
    EXPECT_EQ(said(session, true, 2), "");
    EXPECT_EQ(said(session, false, 1.5f).empty(), in_branch);
  }
}

// The file format requires that each node has an output.
TEST(Control, ANodeGivesSomething) {
  Graph g;
  const Value cond = g.input("cond", boolean, {});
  const auto nothing = std::make_shared<Graph>();
  const Value inputs[] = {cond};
  g.calls("if", inputs, {}, {nothing, nothing});
  g.output("y", g.call("logical_not", {cond}));
  const Status status = g.verify();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("has no output"), std::string_view::npos) << status.message();
}

// The part behind a loop is planned after the loop ran; ops without a kernel are expanded earlier.
TEST(Control, GradientsWithoutAKernelBehindALoop) {
  for (const DType dtype : {f64, f32, f16}) {
    Graph g;
    const auto weight = [&](const char* name, const Sizes& shape, uint64_t seed) {
      return g.parameter(name, dtype, shape, init::uniform(-0.5, 0.5, seed));
    };
    const Value x = g.input("x", dtype, {"n", 3, 4});
    const Value h = layer_norm(x, {4}, weight("g", {4}, 1), weight("b", {4}, 2));
    const Value q = reshape(linear(h, weight("q", {4, 4}, 3)), {"n", 1, 3, 4});
    const Value mixed = mean(reshape(attention(q, q, q), {"n", 3, 4}), {1});
    g.output("y", while_loop(
                      {mixed, g.scalar(int64_t{0}, i64)}, {weight("w", {4, 4}, 4)},
                      [](Graph& body, std::span<const Value> v) {
                        return Values{lt(v[1], body.scalar(int64_t{2}, i64))};
                      },
                      [](Graph&, std::span<const Value> v) {
                        return Values{tanh(linear(v[0], v[2])), v[1] + 1};
                      })
                      .at(0));
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    TrainOptions options;
    options.optimizer = sgd(0.1);
    Trainer trainer = must(Trainer::create(*Model::from_graph(std::move(g)), options));
    TensorData data = *TensorData::allocate(dtype, {2, 3, 4});
    for (int64_t i = 0; i < 24; ++i)
      test::write_element(data.tensor, i, std::sin(3.0 * static_cast<double>(i)));
    const TensorData target = *TensorData::allocate(dtype == f64 ? f64 : f32, {2, 4});
    const ConstTensor inputs[] = {data.tensor}, targets[] = {target.tensor};
    double before = HUGE_VAL;
    for (int step = 0; step < 3; ++step) {
      const Result<double> loss = trainer.step(inputs, targets);
      ASSERT_TRUE(loss.ok()) << to_string(dtype) << ": " << loss.status().message();
      EXPECT_LT(*loss, before);
      before = *loss;
    }
  }
}

}  // namespace
}  // namespace hg
