// SPDX-License-Identifier: Apache-2.0
// A model that is split into forward and backward gives the same results as the whole model.
#include "hg/forward_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hg/ops.h"
#include "hg/session.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using Arrays = std::vector<TensorData>;

TensorData numbers(const Sizes& shape, uint64_t seed) {
  TensorData data = *TensorData::allocate(f32, shape);
  for (int64_t i = 0; i < shape.count(); ++i)
    data.tensor.as<float>()[i] = std::sin(static_cast<float>(seed * 100 + 7 * i));
  return data;
}

Arrays run(const Model& model, const Arrays& inputs, uint64_t first_run = 0) {
  Session session = must(Session::create(model, {.threads = 1, .first_run = first_run}));
  for (size_t i = 0; i < inputs.size(); ++i) {
    must(session.set_input(static_cast<int>(i), inputs[i].tensor));
  }
  must(session.run());
  Arrays out;
  for (int i = 0; i < session.output_count(); ++i)
    out.push_back(*TensorData::copy_of(*session.output(i)));
  return out;
}

// The inputs of `backward`: outputs of `forward` from `first` on, and inputs that the host keeps.
Arrays kept_of(const ForwardBackward& split, const Arrays& inputs, const Arrays& forward,
               size_t first) {
  Arrays kept;
  for (const KeptValue& each : split.kept)
    kept.push_back(
        *TensorData::copy_of((each.input < 0 ? forward[first++] : inputs[each.input]).tensor));
  EXPECT_EQ(first, forward.size());
  return kept;
}

void expect_equal(const TensorData& a, const TensorData& b) {
  ASSERT_EQ(a.tensor.shape, b.tensor.shape);
  for (int64_t i = 0; i < a.tensor.count(); ++i)
    EXPECT_NEAR(a.tensor.as<float>()[i], b.tensor.as<float>()[i], 1e-5);
}

// y = relu(bn(x w^T)) + x w^T, z = y * y
Graph network() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  const Value w = g.parameter("w", numbers({3, 4}, 1));
  const Value mean = g.buffer("mean", numbers({3}, 2)), var = g.buffer("var", [] {
    TensorData ones = *TensorData::allocate(f32, {3});
    std::fill_n(ones.tensor.as<float>(), 3, 1.5f);
    return ones;
  }());
  const Value h = linear(x, w);
  const std::vector<Value> bn = g.calls("batch_norm", {h, Value(), Value(), mean, var});
  const Value y = relu(bn[0]) + h;
  g.output("y", y);
  g.output("z", y * y);
  return g;
}

TEST(ForwardBackward, EqualsTheGradientsOfTheWholeGraph) {
  const Model model = *Model::from_graph(network());
  const ForwardBackward split =
      must(split_gradients(model, {.mode = ForwardBackwardOptions::Mode::as_traced}));
  EXPECT_EQ(split.states, (std::vector<std::string>{"w", "mean", "var"}));
  EXPECT_EQ(split.trained, std::vector<std::string>{"w"});
  EXPECT_TRUE(split.updated.empty());

  for (const int64_t n : {1, 5, 0}) {
    const TensorData x = numbers({n, 4}, 3), dy = numbers({n, 3}, 4), dz = numbers({n, 3}, 5);
    Arrays inputs = {x};
    for (const State& state : model.graph().states()) inputs.push_back(state.data);
    const Arrays forward = run(split.forward, inputs);
    const Arrays whole = run(model, {x});
    expect_equal(forward[0], whole[0]);
    expect_equal(forward[1], whole[1]);
    Arrays kept = kept_of(split, inputs, forward, 2);
    kept.push_back(dy);
    kept.push_back(dz);
    const Arrays gradients_of_parts = run(split.backward, kept);

    Graph joint = network();
    const std::vector<Value> ys = {joint.value(joint.outputs()[0].second),
                                   joint.value(joint.outputs()[1].second)};
    const std::vector<Value> seeds = {joint.input("dy", f32, {"n", 3}),
                                      joint.input("dz", f32, {"n", 3})};
    const std::vector<Value> wrt = {joint.value(joint.inputs()[0]),
                                    joint.value(joint.states()[0].value)};
    const std::vector<Value> found = grad(ys, wrt, seeds);
    joint.output("dx", found[0]);
    joint.output("dw", found[1]);
    const Arrays want = run(*Model::from_graph(std::move(joint)), {x, dy, dz});
    ASSERT_EQ(gradients_of_parts.size(), 2u);
    expect_equal(gradients_of_parts[0], want[2]);
    expect_equal(gradients_of_parts[1], want[3]);
  }
}

TEST(ForwardBackward, SaysWhichOutputsEachGradientIsOf) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value a = g.parameter("a", numbers({4}, 1)), b = g.parameter("b", numbers({4}, 2));
  g.parameter("unused", numbers({4}, 3));
  g.output("first", x * a);
  g.output("none", detach(x * a));
  g.output("second", floor(x) + detach(a) * b);
  const ForwardBackward split = must(split_gradients(*Model::from_graph(std::move(g))));
  EXPECT_EQ(split.differentiable_outputs, (std::vector<int>{0, 2}));
  EXPECT_EQ(split.trained, (std::vector<std::string>{"a", "b", "unused"}));
  EXPECT_EQ(split.moved_outputs, (std::vector<std::vector<int>>{{0, 1}, {0}, {1}, {}}));
}

TEST(ForwardBackward, GivesTheGradientsOfSomeOutputs) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  g.output("root", sqrt(x));
  g.output("whole", gt(x, x * x));
  g.output("square", x * x);
  const Model model = *Model::from_graph(std::move(g));
  TensorData zeros = *TensorData::allocate(f32, {4});
  std::fill_n(zeros.tensor.as<float>(), 4, 0.0f);
  const TensorData dy = numbers({4}, 2);
  const ForwardBackward all = *split_gradients(model);
  const Arrays forward = run(all.forward, {zeros});
  ForwardBackwardOptions options;
  options.outputs = {2};
  const ForwardBackward one = must(split_gradients(model, options));
  EXPECT_EQ(one.differentiable_outputs, std::vector<int>{2});
  Arrays given;
  const Arrays of_all = kept_of(all, {zeros}, forward, 3);
  for (const KeptValue& wanted : one.kept) {
    const auto place = std::find_if(all.kept.begin(), all.kept.end(),
                                    [&](const KeptValue& k) { return k.value == wanted.value; }) -
                       all.kept.begin();
    ASSERT_LT(place, static_cast<int64_t>(all.kept.size()));
    given.push_back(*TensorData::copy_of(of_all[place].tensor));
  }
  given.push_back(dy);
  expect_equal(run(one.backward, given)[0], zeros);  // 2 x dy, without 0 * infinity
  options.outputs = {1};
  EXPECT_EQ(split_gradients(model, options).status().message(),
            "a gradient of output 1 is given, which has none");
}

TEST(ForwardBackward, GivesTheGradientsThatAreWanted) {
  Graph g;
  const Value a = g.input("a", f32, {"n", 4}), b = g.input("b", f32, {"n", 4});
  g.input("places", i64, {"n"});
  const Value w = g.parameter("w", f32, {4}, init::normal(0, 1, 2));
  g.output("y", a * b * w + sin(a));
  const Model model = *Model::from_graph(std::move(g));
  const TensorData x = numbers({3, 4}, 3), y = numbers({3, 4}, 4), dy = numbers({3, 4}, 5);
  const auto places = TensorData::allocate(i64, {3});
  const auto gradients_of = [&](const ForwardBackward& split) {
    const Arrays inputs = {x, y, *places, model.graph().states()[0].data};
    Arrays kept = kept_of(split, inputs, run(split.forward, inputs), 1);
    kept.push_back(dy);
    return run(split.backward, kept);
  };
  const Arrays all = gradients_of(*split_gradients(model));
  ASSERT_EQ(all.size(), 3u);
  for (const std::vector<int>& wanted : {std::vector<int>{}, {0}, {1}, {0, 1}, {1, 0}}) {
    ForwardBackwardOptions options;
    options.inputs = wanted;
    const ForwardBackward split = must(split_gradients(model, options));
    EXPECT_EQ(split.differentiable_inputs, wanted);
    const Arrays some = gradients_of(split);
    ASSERT_EQ(some.size(), wanted.size() + 1);
    for (size_t i = 0; i < wanted.size(); ++i) expect_equal(some[i], all[wanted[i]]);
    expect_equal(some.back(), all.back());
  }
  const auto message = [&](int input) {
    ForwardBackwardOptions options;
    options.inputs = {{input}};
    return std::string(split_gradients(model, options).status().message());
  };
  EXPECT_EQ(message(3), "a gradient of input 3 is wanted, the model has 3");
  EXPECT_EQ(message(2), "a gradient of 'places' is wanted, which is i64");
}

// y = m (w x)^2 has gradients that read w and x, and only the size of b; the run changes m.
TEST(ForwardBackward, TheHostKeepsInputsItself) {
  Graph g;
  const Value x = g.input("x", f32, {"n"}), b = g.input("b", f32, {"k"});
  const Value w = g.parameter("w", f32, {}, init::ones());
  const Value m = g.buffer("m", numbers({}, 1));
  const Value h = x * w;
  g.output("y", h * h * m);
  g.output("z", sum(b));
  g.assign(m, m * 2.0);
  const ForwardBackward split = must(split_gradients(*Model::from_graph(std::move(g))));
  EXPECT_EQ(split.updated, std::vector<std::string>{"m"});
  std::vector<int> inputs;
  for (const KeptValue& each : split.kept) {
    inputs.push_back(each.input);
    EXPECT_EQ(each.for_size, each.input == 1);
  }
  EXPECT_EQ(std::count(inputs.begin(), inputs.end(), -1), 2);  // for h and m
  for (const int input : {0, 1, 2}) EXPECT_EQ(std::count(inputs.begin(), inputs.end(), input), 1);
  EXPECT_EQ(split.forward.graph().outputs().size(), 5u);
}

TEST(ForwardBackward, TrainingMovesTheRunningStatistics) {
  const Model model = *Model::from_graph(network());
  const ForwardBackward split = must(split_gradients(model));
  EXPECT_EQ(split.updated, (std::vector<std::string>{"mean", "var"}));
  const TensorData x = numbers({6, 4}, 3);
  Arrays inputs = {x};
  for (const State& state : model.graph().states()) inputs.push_back(state.data);
  const Arrays forward = run(split.forward, inputs);
  const TensorData& w = model.graph().states()[0].data;
  for (int64_t k = 0; k < 3; ++k) {
    double mean = 0;
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 4; ++j)
        mean += x.tensor.as<float>()[i * 4 + j] * w.tensor.as<float>()[k * 4 + j] / 6;
    const double old = model.graph().states()[1].data.tensor.as<float>()[k];
    EXPECT_NEAR(forward[2].tensor.as<float>()[k], 0.9 * old + 0.1 * mean, 1e-5);
  }
}

TEST(ForwardBackward, GradientsAreOfTheNumbersThatTheForwardPartDrew) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 5});
  const Value once = g.call("dropout", {x}, {{"p", 0.5}, {"training", true}, {"stream", 1}});
  const Value channels =
      g.call("dropout", {reshape(once * x, {x.dim(0), 5, 1})},
             {{"p", 0.25}, {"training", true}, {"channels", true}, {"stream", 2}});
  g.output("y", reshape(channels, x.shape()) +
                    g.call("rand", {}, {{"shape", x.shape()}, {"stream", 3}}) * x);
  g.output("noise", g.call("rand", {}, {{"shape", x.shape()}, {"stream", 3}}));
  const Model model = *Model::from_graph(std::move(g));
  const ForwardBackward split =
      must(split_gradients(model, {.mode = ForwardBackwardOptions::Mode::as_traced}));
  const TensorData given = numbers({40, 5}, 3);
  for (const uint64_t first : {0, 3, 4}) {
    const Arrays forward = run(split.forward, {given}, first);
    Arrays kept = kept_of(split, {given}, forward, 2);
    kept.push_back(*TensorData::allocate(f32, {40, 5}));
    std::fill_n(kept.back().tensor.as<float>(), 200, 1.0f);
    const Arrays found = run(split.backward, kept);
    for (int64_t i = 0; i < 200; ++i) {  // y = m x^2 + noise x
      const float at = given.tensor.as<float>()[i], noise = forward[1].tensor.as<float>()[i];
      const float squared = forward[0].tensor.as<float>()[i] - noise * at;
      EXPECT_NEAR(found[0].tensor.as<float>()[i] * at, 2 * squared + noise * at, 1e-4) << i;
    }
  }
}

// w * w times the larger one of the numbers of positive and negative elements of x.
TEST(ForwardBackward, ExpressionsOfSizesThatDataDecidesAreHandedOver) {
  Graph g;
  const Value x = g.input("x", f32, {5}), w = g.parameter("w", numbers({1}, 1));
  const Dim above = g.call("nonzero", {gt(x, g.scalar(0.0))}).dim(0);
  const Dim below = g.call("nonzero", {lt(x, g.scalar(0.0))}).dim(0);
  const Value many = g.call("expand", {w}, {{"shape", std::vector<Dim>{max(above, below)}}});
  g.output("y", sum(many * many));
  const Model model = *Model::from_graph(std::move(g));
  const ForwardBackward split = must(split_gradients(model));
  const TensorData& weight = model.graph().states()[0].data;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const TensorData given = numbers({5}, seed);
    int count = 0;
    for (int64_t i = 0; i < 5; ++i) count += given.tensor.as<float>()[i] > 0;
    Arrays kept = kept_of(split, {given, weight}, run(split.forward, {given, weight}), 1);
    kept.push_back(*TensorData::allocate(f32, {}));
    *kept.back().tensor.as<float>() = 1;
    const Arrays found = run(split.backward, kept);
    EXPECT_NEAR(
        found[1].tensor.as<float>()[0],
        2.0F * weight.tensor.as<float>()[0] * static_cast<float>(std::max(count, 5 - count)), 1e-5);
  }
}

// The sum of the first k rows of w, where k is the number of positive elements of x, times x.
TEST(ForwardBackward, SizesThatDataDecidesAreHandedOver) {
  Graph g;
  const Value x = g.input("x", f32, {5}), w = g.parameter("w", numbers({9, 3}, 1));
  const Value places = g.call("nonzero", {gt(x, g.scalar(0.0))});
  const Value rows = g.call("slice", {w}, {{"dim", 0}, {"start", 0}, {"end", places.dim(0)}});
  g.output("y", sum(rows * rows) * sum(x));
  const Model model = *Model::from_graph(std::move(g));
  const ForwardBackward split = must(split_gradients(model));
  const TensorData& weight = model.graph().states()[0].data;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const TensorData given = numbers({5}, seed);
    int64_t count = 0;
    float total = 0;
    for (int64_t i = 0; i < 5; ++i) {
      count += given.tensor.as<float>()[i] > 0;
      total += given.tensor.as<float>()[i];
    }
    const Arrays forward = run(split.forward, {given, weight});
    Arrays kept = kept_of(split, {given, weight}, forward, 1);
    kept.push_back(*TensorData::allocate(f32, {}));
    *kept.back().tensor.as<float>() = 1;
    const Arrays found = run(split.backward, kept);
    for (int64_t i = 0; i < 27; ++i)
      EXPECT_NEAR(found[1].tensor.as<float>()[i],
                  i < 3 * count ? 2 * total * weight.tensor.as<float>()[i] : 0, 1e-5);
  }
}

// y = cond ? x x : x, where the first branch assumes that x is small
TEST(ForwardBackward, WhatABranchTakesForGrantedIsAskedForOnce) {
  Graph g;
  const Value cond = g.input("cond", boolean, {}), x = g.input("x", f32, {3});
  const auto branch = [](bool squares) {
    auto b = std::make_shared<Graph>();
    const Value v = b->input("v", f32, {3});
    if (squares)
      b->call("assert_true",
              {lt(b->call("amax", {v}, {{"dim", std::vector<Dim>{0}}}), b->scalar(9.0))},
              {{"message", "too large"}});
    b->output("", squares ? v * v : v);
    return b;
  };
  const Value inputs[] = {cond, x};
  g.output("y", g.calls("if", inputs, {}, {branch(true), branch(false)})[0]);
  const Model model = *Model::from_graph(std::move(g));
  const ForwardBackward split = must(split_gradients(model));
  for (const bool squares : {true, false}) {
    TensorData choice = *TensorData::allocate(boolean, {});
    *choice.tensor.as<bool>() = squares;
    const TensorData given = numbers({3}, 1), seed = numbers({3}, 2);
    const Arrays forward = run(split.forward, {choice, given});
    Arrays kept = kept_of(split, {choice, given}, forward, 1);
    kept.push_back(seed);
    const Arrays found = run(split.backward, kept);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_NEAR(found[0].tensor.as<float>()[i],
                  seed.tensor.as<float>()[i] * (squares ? 2 * given.tensor.as<float>()[i] : 1),
                  1e-5);
  }
}

TEST(ForwardBackward, WhatHasNoGradientIsNamed) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  g.output("y", g.call("floor", {x}) + x);
  const Result<ForwardBackward> ok = split_gradients(*Model::from_graph(std::move(g)));
  EXPECT_TRUE(ok.ok());  // the gradient of floor is 0
  Graph whole;
  whole.output("y", whole.input("x", i64, {4}));
  const ForwardBackward none = must(split_gradients(*Model::from_graph(std::move(whole))));
  EXPECT_TRUE(none.differentiable_inputs.empty() && none.differentiable_outputs.empty());
}

TEST(ForwardBackward, OutputsThatDependOnNothingWantedHaveNoGradient) {
  Graph g;
  const Value x = g.input("x", f32, {4}), z = g.input("z", f32, {4});
  g.output("of_x", x + z);
  g.output("of_z", z * 2);
  g.output("held", g.call("detach", {x}) * 3);
  g.output("sign", gt(x, z));
  ForwardBackwardOptions options;
  options.inputs = std::vector<int>{0};
  const ForwardBackward parts = must(split_gradients(*Model::from_graph(std::move(g)), options));
  EXPECT_EQ(parts.differentiable_outputs, std::vector<int>{0});
}

TEST(ForwardBackward, StatesAreReplaced) {
  Graph g;
  const Value x = g.input("x", f32, {3});
  g.output("y", x * g.parameter("w", numbers({3}, 1)) + g.buffer("b", numbers({3}, 2)));
  const Model model = *Model::from_graph(std::move(g));
  const TensorData input = numbers({3}, 3), w = numbers({3}, 4);
  const std::pair<std::string, ConstTensor> contents[] = {{"w", w.tensor}};
  const Model changed = must(with_states(model, contents));
  const Arrays before = run(model, {input}), after = run(changed, {input});
  for (int i = 0; i < 3; ++i) {
    const auto at = [i](const TensorData& data) { return data.tensor.as<float>()[i]; };
    const float b = at(numbers({3}, 2));
    EXPECT_FLOAT_EQ(at(before[0]), at(input) * at(numbers({3}, 1)) + b);
    EXPECT_FLOAT_EQ(at(after[0]), at(input) * at(w) + b);
  }
  const std::pair<std::string, ConstTensor> unknown[] = {{"v", w.tensor}};
  EXPECT_EQ(with_states(model, unknown).status().code(), Code::not_found);
  const TensorData wide = numbers({4}, 5);
  const std::pair<std::string, ConstTensor> other[] = {{"w", wide.tensor}};
  EXPECT_EQ(with_states(model, other).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace hg
