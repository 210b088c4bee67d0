// SPDX-License-Identifier: Apache-2.0
// The effect of each training option on a step, compared with steps that do not use the option.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"
#include "lib/train/relu_late.h"
#include "tests/support/must.h"
#include "tests/support/noise.h"

namespace hg {
namespace {

constexpr int64_t kBatch = 12;
constexpr double kLr = 0.125;

using test::noise;

// Maps images [n, 3, 9, 8] to 4 scores and 2 numbers. It has a convolution that reads rows, one for
// small images, pooling, batch_norm and a layer for each output.
Model images_network() {
  Graph g;
  const auto weight = [&](const char* name, const Sizes& shape, uint64_t seed) {
    return g.parameter(name, f32, shape, init::kaiming_uniform(seed));
  };
  const Value x = g.input("x", f32, {"n", 3, 9, 8});
  Value y = conv(x, weight("conv1.weight", {16, 3, 3, 3}, 1), weight("conv1.bias", {16}, 2),
                 {.padding = {1}});
  const auto buffer = [&](const char* name, float value) {
    const std::vector<float> values(16, value);
    return g.buffer(name, *TensorData::copy_of(view(values, {16})));
  };
  y = batch_norm(y, g.parameter("norm.weight", f32, {16}, init::ones()),
                 g.parameter("norm.bias", f32, {16}), buffer("norm.running_mean", 0),
                 buffer("norm.running_var", 1), false)
          .y;
  y = max_pool(relu(y), {2});
  y = relu(conv(y, weight("conv2.weight", {24, 16, 3, 3}, 3), weight("conv2.bias", {24}, 4),
                {.stride = {2}, .padding = {1}}));
  y = mean(y, {2, 3});
  g.output("scores", linear(y, weight("scores.weight", {4, 24}, 5), weight("scores.bias", {4}, 6)));
  g.output("boxes", linear(y, weight("boxes.weight", {2, 24}, 7), weight("boxes.bias", {2}, 8)));
  return must(Model::from_graph(std::move(g)));
}

struct Data {
  std::vector<float> x = noise(kBatch * 3 * 9 * 8, 1), boxes = noise(kBatch * 2, 2);
  std::vector<int64_t> classes;
  ConstTensor images, labels, places;
  Data() {
    for (int64_t i = 0; i < kBatch; ++i) classes.push_back(i % 4);
    images = view(x, {kBatch, 3, 9, 8});
    labels = view(classes, {kBatch});
    places = view(boxes, {kBatch, 2});
  }
};

const Loss kScores = {.kind = Loss::Kind::cross_entropy, .output = "scores", .target = "labels"};
const Loss kBoxes = {.kind = Loss::Kind::mse, .output = "boxes", .target = "places"};

TrainOptions plain(std::vector<Loss> losses = {kScores}) {
  TrainOptions options;
  options.losses = std::move(losses);
  options.optimizer = sgd(kLr);
  options.session.threads = 1;
  return options;
}

struct Step {
  double loss = 0;
  std::vector<std::string> trained;
  std::vector<std::pair<std::string, std::vector<float>>> before, after;

  // How far a step moved one parameter: after - before.
  std::vector<float> moved(const std::string& name) const {
    std::vector<float> by;
    for (size_t i = 0; i < before.size(); ++i)
      for (size_t k = 0; before[i].first == name && k < before[i].second.size(); ++k)
        by.push_back(after[i].second[k] - before[i].second[k]);
    return by;
  }
  const std::vector<float>& old(const std::string& name) const {
    for (const auto& [known, values] : before)
      if (known == name) return values;
    ADD_FAILURE() << "there is no " << name;
    return before[0].second;
  }
};

std::vector<std::pair<std::string, std::vector<float>>> parameters(const Trainer& trainer) {
  std::vector<std::pair<std::string, std::vector<float>>> all;
  for (const char* name :
       {"conv1.weight", "conv1.bias", "norm.weight", "norm.bias", "conv2.weight", "conv2.bias",
        "scores.weight", "scores.bias", "boxes.weight", "boxes.bias"}) {
    const Tensor t = *trainer.session().value(name);
    all.emplace_back(name, std::vector<float>(t.as<float>(), t.as<float>() + t.count()));
  }
  return all;
}

Trainer make(const TrainOptions& options, const Model& model = images_network()) {
  return must(Trainer::create(model, options));
}

Result<double> take_step(Trainer& trainer, const Data& data, const TrainOptions& options) {
  std::vector<ConstTensor> targets;
  for (const Loss& loss : options.losses)
    targets.push_back(loss.target == "labels" ? data.labels : data.places);
  return trainer.step({&data.images, 1}, targets);
}

Step step_with(const TrainOptions& options) {
  const Data data;
  Trainer trainer = make(options);
  Step step;
  step.trained = trainer.trained();
  step.before = parameters(trainer);
  const Result<double> loss = take_step(trainer, data, options);
  EXPECT_TRUE(loss.ok()) << loss.status().message();
  step.loss = loss.ok() ? *loss : 0;
  step.after = parameters(trainer);
  return step;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  ASSERT_FALSE(got.empty()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << what << i;
}

TEST(TrainOptions, ParametersThatRequireNoGradientStayUnlessARuleThawsThem) {
  const Data data;
  Model model = images_network();
  for (const State& state : model.graph().states())
    if (state.name.starts_with("conv1") || state.name.starts_with("norm.weight"))
      model.graph().set_requires_grad(model.graph().value(state.value), false);
  const Step all = step_with(plain());
  for (const bool thawed : {false, true}) {
    TrainOptions options = plain();
    if (thawed) options.rules = {{.pattern = "conv1.*", .frozen = false}};
    Trainer trainer = make(options, model);
    const auto before = parameters(trainer);
    ASSERT_TRUE(take_step(trainer, data, options).ok());
    const auto after = parameters(trainer);
    for (size_t i = 0; i < before.size(); ++i) {
      const std::string& name = before[i].first;
      const bool stays = name == "norm.weight" || (!thawed && name.starts_with("conv1"));
      if (stays)
        EXPECT_EQ(before[i].second, after[i].second) << name;
      else  // both use the batch's statistics
        EXPECT_EQ(after[i].second, all.after[i].second) << name;
    }
    bool said = false;
    for (const std::string& note : trainer.notes())
      said = said || note.find("requires_grad=False") != std::string::npos;
    EXPECT_TRUE(said);
  }
  for (const State& state : model.graph().states())
    if (state.kind == State::Kind::parameter)
      model.graph().set_requires_grad(model.graph().value(state.value), false);
  const Status status = Trainer::create(model, plain()).status();
  EXPECT_NE(status.message().find("requires_grad=False"), std::string_view::npos)
      << status.message();
}

// A buffer of equal elements.
Value filled(Graph& g, const char* name, int64_t size, float value) {
  const std::vector<float> all(size, value);
  return g.buffer(name, *TensorData::copy_of(view(all, {size})));
}

// Two features of a linear layer, normalized.
Model normalised(double momentum) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 2});
  const Value y = g.call("linear", {x, g.parameter("w", f32, {2, 2}, init::kaiming_uniform(1))});
  const Value mean = filled(g, "mean", 2, 0), var = filled(g, "var", 2, 1);
  g.output("y", batch_norm(y, {}, {}, mean, var, false, momentum).y);
  return *Model::from_graph(std::move(g));
}

TEST(TrainOptions, StatisticsOfOneValueAreRefused) {
  Trainer trainer = make({}, normalised(0.1));
  const std::vector<float> data = noise(6, 1);
  for (const int64_t n : {3, 1}) {
    const std::vector<ConstTensor> rows = {view(std::span(data).first(n * 2), {n, 2})};
    const Result<double> loss = trainer.step(rows, rows);
    EXPECT_EQ(loss.ok(), n == 3);
    if (n == 3) continue;
    EXPECT_NE(loss.status().message().find("more than one value per channel"),
              std::string_view::npos)
        << loss.status().message();
  }
  for (const char* name : {"w", "mean", "var"}) {
    const Tensor t = *trainer.session().value(name);
    for (int64_t i = 0; i < t.count(); ++i) EXPECT_TRUE(std::isfinite(t.as<float>()[i])) << name;
  }
}

// In a trace of eval mode, PyTorch's momentum=None (an average over all batches) is 0.
TEST(TrainOptions, StatisticsThatDoNotMoveAreTold) {
  for (const double momentum : {0.0, 0.1}) {
    const Trainer trainer = make({}, normalised(momentum));
    bool said = false;
    for (const std::string& note : trainer.notes())
      said = said || note.find("momentum 0") != std::string::npos;
    EXPECT_EQ(said, momentum == 0);
  }
}

TEST(TrainOptions, PenaltiesPullAtTheParametersThatMatch) {
  const Step without = step_with(plain());
  TrainOptions options = plain();
  options.penalties = {{.pattern = "conv?.weight", .l1 = 0.01, .l2 = 0.02},
                       {.pattern = "scores.*", .l2 = 0.5}};
  const Step with = step_with(options);
  double penalty = 0;
  for (const auto& [name, values] : without.before) {
    const bool is_conv = name == "conv1.weight" || name == "conv2.weight";
    const bool is_scores = name.starts_with("scores.");
    const double l1 = is_conv ? 0.01 : 0, l2 = is_conv ? 0.02 : is_scores ? 0.5 : 0;
    std::vector<float> expected = without.moved(name);
    for (size_t i = 0; i < values.size(); ++i) {
      const double w = values[i];
      penalty += l1 * std::abs(w) + l2 * w * w;
      expected[i] -= static_cast<float>(kLr * (l1 * (w > 0 ? 1 : w < 0 ? -1 : 0) + 2 * l2 * w));
    }
    expect_near(with.moved(name), expected, name);
  }
  EXPECT_GT(penalty, 0.1);
  EXPECT_NEAR(with.loss, without.loss + penalty, 1e-5);
}

// From an f64 loss to its parameter, nothing is rounded to f32: rates, parts of accumulated
// batches, penalties and the norm of the gradients.
TEST(TrainOptions, ModelsOfF64TrainInF64) {
  constexpr int64_t kRows = 4, kSize = 3;
  constexpr int kAccumulate = 3;
  std::vector<double> w = {0.3, -1.7, 0.9}, x(kRows * kSize), y(kRows);
  Graph g;
  const Value in = g.input("x", f64, {kRows, kSize});
  const Value weight = g.parameter("w", *TensorData::copy_of(view(w, {1, kSize})));
  g.output("y", reshape(linear(in, weight), {kRows}));
  TrainOptions options = plain({{.kind = Loss::Kind::mse}});
  options.optimizer = sgd(0.1);
  options.schedule = {.kind = Schedule::Kind::exponential, .gamma = 0.7};
  options.penalties = {{.pattern = "w", .l1 = 0.1, .l2 = 0.3}};
  options.metrics = {{.kind = Metric::Kind::mean_error}};
  options.clip_norm = 0.9;
  options.accumulate = kAccumulate;
  Trainer trainer = make(options, *Model::from_graph(std::move(g)));
  for (int update = 0; update < 4; ++update) {
    std::vector<double> gradient(kSize);
    for (int batch = 0; batch < kAccumulate; ++batch) {
      for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(1.0 + 7 * batch + 3.0 * i + update);
      for (size_t i = 0; i < y.size(); ++i) y[i] = std::cos(2.0 + 5 * batch + 2.0 * i + update);
      double loss = 0;
      std::vector<double> own(kSize);
      for (int64_t r = 0; r < kRows; ++r) {
        double error = -y[r];
        for (int64_t k = 0; k < kSize; ++k) error += x[r * kSize + k] * w[k];
        loss += error * error / kRows;
        for (int64_t k = 0; k < kSize; ++k) own[k] += 2 * error * x[r * kSize + k] / kRows;
      }
      for (int64_t k = 0; k < kSize; ++k) {
        loss += 0.1 * std::abs(w[k]) + 0.3 * w[k] * w[k];
        own[k] += (w[k] > 0 ? 0.1 : -0.1) + 0.6 * w[k];
        gradient[k] += own[k] / kAccumulate;
      }
      const ConstTensor rows = view(x, {kRows, kSize}), targets = view(y, {kRows});
      EXPECT_NEAR(*trainer.step({&rows, 1}, {&targets, 1}), loss, 1e-14 * loss);
    }
    double norm = 0;
    for (const double v : gradient) norm += v * v;
    const double scale = std::min(1.0, 0.9 / (std::sqrt(norm) + 1e-6));
    for (int64_t k = 0; k < kSize; ++k) {
      w[k] -= 0.1 * std::pow(0.7, update) * scale * gradient[k];
      EXPECT_NEAR(trainer.session().value("w")->as<double>()[k], w[k], 1e-14) << update;
    }
  }
  double error = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    double each = -y[r];
    for (int64_t k = 0; k < kSize; ++k) each += x[r * kSize + k] * w[k];
    error += std::abs(each) / kRows;
  }
  const Evaluation seen =
      must(trainer.evaluate({{view(x, {kRows, kSize})}, {view(y, {kRows})}}, kRows));
  EXPECT_NEAR(seen.metrics[0], error, 1e-14);
}

TEST(TrainOptions, SeveralLossesAddUpByTheirWeights) {
  const Step scores = step_with(plain({kScores})), boxes = step_with(plain({kBoxes}));
  TrainOptions options = plain({kScores, kBoxes});
  options.losses[0].weight = 0.5;
  options.losses[1].weight = 3;
  const Step both = step_with(options);
  EXPECT_NEAR(both.loss, 0.5 * scores.loss + 3 * boxes.loss, 1e-5);
  for (const auto& [name, values] : both.before) {
    std::vector<float> expected = scores.moved(name);
    const std::vector<float> other = boxes.moved(name);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = 0.5f * expected[i] + 3 * other[i];
    expect_near(both.moved(name), expected, name);
  }
}

TEST(TrainOptions, RatesAndWeightDecayGoByPattern) {
  const Step without = step_with(plain());
  TrainOptions options = plain();
  options.optimizer.weight_decay = 0.25;
  options.rules = {{.pattern = "conv*", .lr = kLr / 4},
                   {.pattern = "*.bias", .weight_decay = 0},
                   {.pattern = "conv2.*", .lr = kLr * 2}};
  const Step with = step_with(options);
  for (const auto& [name, values] : without.before) {
    const bool is_bias = name.ends_with(".bias");
    const float factor = name.starts_with("conv1") ? 0.25f : name.starts_with("conv2") ? 2.0f : 1;
    if (name.starts_with("boxes")) continue;  // the loss does not depend on them
    std::vector<float> expected = without.moved(name);
    for (size_t i = 0; i < values.size(); ++i)
      expected[i] = factor * (expected[i] - (is_bias ? 0 : float{kLr} * 0.25f * values[i]));
    expect_near(with.moved(name), expected, name);
  }
}

TEST(TrainOptions, SetLrKeepsTheProportionsOfRules) {
  TrainOptions options = plain();
  options.rules = {{.pattern = "conv2.*", .lr = 2 * kLr}};
  const Data data;
  Trainer trainer = make(options);
  trainer.set_lr(kLr / 5);
  const auto before = parameters(trainer);
  ASSERT_TRUE(take_step(trainer, data, options).ok());
  EXPECT_NEAR(trainer.lr(), kLr / 5, 1e-9);
  const auto after = parameters(trainer);
  const Step without = step_with(plain());
  for (size_t p = 0; p < before.size(); ++p) {
    const std::vector<float> expected = without.moved(before[p].first);
    const float factor = before[p].first.starts_with("conv2") ? 0.4f : 0.2f;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(after[p].second[i] - before[p].second[i], factor * expected[i], 1e-6)
          << before[p].first;
  }
}

TEST(TrainOptions, ARuleThatDoesNotSpeakOfFrozenLeavesItAsItIs) {
  TrainOptions options = plain();
  options.rules = {{.pattern = "conv1.*", .frozen = true},
                   {.pattern = "norm.*", .frozen = true},
                   {.pattern = "*.bias", .weight_decay = 0},
                   {.pattern = "conv1.weight", .lr = 1.0}};
  Step step = step_with(options);
  std::sort(step.trained.begin(), step.trained.end());
  EXPECT_EQ(step.trained, (std::vector<std::string>{"conv2.bias", "conv2.weight", "scores.bias",
                                                    "scores.weight"}));
  for (const char* name : {"conv1.weight", "conv1.bias", "norm.weight", "norm.bias"})
    for (const float by : step.moved(name)) EXPECT_EQ(by, 0) << name;
}

TEST(TrainOptions, SchedulesSpanAFit) {
  TrainOptions options = plain();
  options.schedule = {.kind = Schedule::Kind::cosine, .min_lr = 0.01};
  const Data data;
  Trainer trainer = make(options);
  std::vector<double> rates;
  const Status status =
      trainer.fit({{data.images}, {data.labels}},
                  {.epochs = 3, .batch = 5, .on_progress = [&](const Progress& p) {
                     if (!p.is_epoch) rates.push_back(p.lr);
                     return true;
                   }});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(rates.size(), 9u);
  options.schedule.total = 9;
  for (size_t t = 0; t < rates.size(); ++t)
    EXPECT_NEAR(rates[t], learning_rate(options.schedule, kLr, static_cast<int64_t>(t)), 1e-7) << t;
}

TEST(TrainOptions, MetricsAreOfTheWholeDataSet) {
  TrainOptions options = plain({kScores, kBoxes});
  options.metrics = {{.kind = Metric::Kind::accuracy, .output = "scores", .target = "labels"},
                     {.kind = Metric::Kind::mean_error, .output = "boxes", .target = "places"}};
  const Data data;
  Trainer trainer = make(options);
  const Dataset set = {{data.images}, {data.labels, data.places}};
  const Evaluation e = must(trainer.evaluate(set, 5));
  const Result<Model> model = trainer.model();
  Session session = must(Session::create(*model));
  ASSERT_TRUE(session.set_input(0, data.images).ok() && session.run().ok());
  const Tensor scores = *session.output(0), boxes = *session.output(1);
  double right = 0, error = 0;
  for (int64_t i = 0; i < kBatch; ++i) {
    const float* row = scores.as<float>() + i * 4;
    right += std::max_element(row, row + 4) - row == data.classes[i];
    for (int64_t k = i * 2; k < i * 2 + 2; ++k)
      error += std::abs(boxes.as<float>()[k] - data.boxes[k]);
  }
  EXPECT_NEAR(e.metrics[0], right / kBatch, 1e-7);
  EXPECT_NEAR(e.metrics[1], error / (2 * kBatch), 1e-6);
}

// An image network with relu before max_pool; with `is_read`, relu is also an output.
Graph relu_before_pool(bool is_read) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 3, 9, 8});
  const Value weight = g.parameter("w", f32, {4, 3, 3, 3}, init::kaiming_uniform(1));
  const Value seen = relu(conv(x, weight, {}, {.padding = {1}}));
  // Overlapping windows, some of them without a positive element.
  g.output("scores", mean(max_pool(seen, {3}, {.stride = {2}, .padding = {1}}), {2, 3}));
  if (is_read) g.output("seen", seen);
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  return g;
}

TEST(TrainOptions, AReluMovesBehindItsMaxPool) {
  const auto op_before_mean = [](bool is_read) {
    Graph g = relu_before_pool(is_read);
    EXPECT_TRUE(relu_behind_max_pool(g).ok());
    const auto maker = [&](ValueId id) { return g.nodes()[g.value_info(id).node]; };
    return std::string(maker(maker(g.outputs()[0].second).inputs[0]).op->name());
  };
  EXPECT_EQ(op_before_mean(false), "relu");
  EXPECT_EQ(op_before_mean(true), "max_pool");
  const auto losses = [](bool is_read) {
    Trainer trainer = *Trainer::create(*Model::from_graph(relu_before_pool(is_read)), plain());
    const Data data;
    const ConstTensor inputs[] = {data.images}, targets[] = {data.labels};
    std::vector<double> all;
    for (int i = 0; i < 5; ++i) all.push_back(*trainer.step(inputs, targets));
    return all;
  };
  const std::vector<double> moved = losses(false);
  EXPECT_EQ(moved, losses(true));  // bit by bit
  EXPECT_LT(moved.back(), moved.front());
}

TEST(TrainOptions, ConvolutionsTrainToTheSameBitsForEveryThreadCount) {
  std::vector<std::byte> first;
  for (const int threads : {1, 2, 3, 5}) {
    TrainOptions options = plain({kScores, kBoxes});
    options.optimizer = adamw(0.01);
    options.clip_norm = 1;
    options.session.threads = threads;
    const Data data;
    Trainer trainer = make(options);
    ASSERT_TRUE(
        trainer.fit({{data.images}, {data.labels, data.places}}, {.epochs = 4, .batch = 5}).ok());
    const std::vector<std::byte> bytes = *trainer.model()->serialize();
    if (first.empty()) first = bytes;
    EXPECT_TRUE(first == bytes) << threads << " threads";
  }
}

TEST(TrainOptions, ConvolutionsInHalfPrecisionFollowF32) {
  const Data data;
  std::vector<std::vector<double>> curves;
  for (const DType compute : {f32, bf16, f16}) {
    TrainOptions options = plain({kScores, kBoxes});
    options.compute = compute;
    options.optimizer.lr = 0.02;
    Trainer trainer = make(options);
    std::vector<double> losses;
    int skipped = 0;  // f16 first searches for a loss scale
    while (losses.size() < 25 && skipped < 20) {
      const int64_t updates = trainer.updates();
      const double loss = must(take_step(trainer, data, options));
      if (trainer.updates() == updates)
        ++skipped;
      else
        losses.push_back(loss);
    }
    ASSERT_EQ(losses.size(), 25u);
    EXPECT_TRUE(compute == f16 || skipped == 0);
    EXPECT_EQ(trainer.session().value("conv1.weight")->dtype, f32) << "master weights";
    EXPECT_LT(losses.back(), 0.8 * losses.front());
    curves.push_back(losses);
  }
  EXPECT_NE(curves[0][0], curves[1][0]);
  for (size_t i = 0; i < 25; ++i) {
    EXPECT_NEAR(curves[1][i], curves[0][i], 0.02 * curves[0][i]) << "bf16, step " << i;
    EXPECT_NEAR(curves[2][i], curves[0][i], 0.004 * curves[0][i]) << "f16, step " << i;
  }
}

TEST(TrainOptions, SetLrOfARateOf0) {
  TrainOptions options = plain();
  options.optimizer.lr = 0;
  const Data data;
  Trainer trainer = make(options);
  trainer.set_lr(kLr);
  const auto before = parameters(trainer);
  ASSERT_TRUE(take_step(trainer, data, options).ok());
  const auto after = parameters(trainer);
  const Step usual = step_with(plain());
  for (size_t p = 0; p < before.size(); ++p) {
    std::vector<float> moved = after[p].second;
    for (size_t i = 0; i < moved.size(); ++i) moved[i] -= before[p].second[i];
    expect_near(moved, usual.moved(before[p].first), before[p].first);
  }
}

TEST(TrainOptions, ARateThatWasSetGoesOnInResumedTrainers) {
  TrainOptions options = plain();
  options.rules = {{.pattern = "conv2.*", .lr = 2 * kLr}};
  const Data data;
  Trainer trainer = make(options);
  trainer.set_lr(kLr / 5);
  const Model saved = *trainer.model();
  for (const double lr : {kLr, kLr / 2}) {
    options.optimizer.lr = lr;
    Trainer again = must(Trainer::create(saved, options));
    EXPECT_EQ(again.lr(), lr == kLr ? kLr / 5 : lr);
    if (lr != kLr) continue;
    ASSERT_TRUE(take_step(trainer, data, options).ok());
    ASSERT_TRUE(take_step(again, data, options).ok());
    EXPECT_EQ(parameters(trainer), parameters(again));
  }
  options.optimizer.lr = kLr;
  options.resume = false;
  EXPECT_EQ(Trainer::create(saved, options)->lr(), kLr);
}

// Epochs of step() that the host counts use the same rates as those of fit().
TEST(TrainOptions, SchedulesByEpochGoOnBetweenSteps) {
  for (const auto kind : {Schedule::Kind::step, Schedule::Kind::plateau}) {
    TrainOptions options = plain();
    options.schedule = {
        .kind = kind, .by_epoch = true, .period = 1, .gamma = 0.5, .patience = 0, .threshold = 2};
    const Data data;
    Trainer fitted = make(options), stepped = make(options);
    std::vector<double> rates, own;
    ASSERT_TRUE(fitted
                    .fit({{data.images}, {data.labels}}, {.epochs = 4,
                                                          .batch = 0,
                                                          .on_progress =
                                                              [&](const Progress& p) {
                                                                if (!p.is_epoch)
                                                                  rates.push_back(p.lr);
                                                                return true;
                                                              }})
                    .ok());
    for (int epoch = 0; epoch < 4; ++epoch) {
      const double loss = must(take_step(stepped, data, options));
      own.push_back(stepped.lr());
      stepped.end_epoch(loss);
    }
    EXPECT_EQ(rates, own);
    EXPECT_LT(own.back(), kLr / 3);
  }
}

// A batch's statistics are summed in double, as in torch: float would lose the square of a distance
// of one beside thousands of others.
TEST(TrainOptions, StatisticsOfABatchAreThoseOfDouble) {
  constexpr int64_t kRows = 3, kSize = 65536;
  std::vector<float> x = noise(kRows * kSize, 1);
  double sum = 0, square = 0;
  for (float& v : x) sum += (v += 100);
  const double mean = sum / static_cast<double>(x.size());
  for (const float v : x) square += (v - mean) * (v - mean);
  Graph g;
  const Value in = g.input("x", f32, {kRows, 1, kSize});
  const Value running_mean = filled(g, "mean", 1, 0), running_var = filled(g, "var", 1, 1);
  const std::vector<Value> out =
      g.calls("batch_norm", {in, Value(), Value(), running_mean, running_var},
              {{"training", true}, {"momentum", 1.0}});
  g.output("mean", out[1]);
  g.output("var", out[2]);
  Session session = must(Session::create(*Model::from_graph(std::move(g))));
  ASSERT_TRUE(session.set_input(0, view(x, {kRows, 1, kSize})).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_NEAR(*session.output(0)->as<float>(), mean, 4e-6) << "half a unit in the last place";
  const double var = square / static_cast<double>(x.size() - 1);
  EXPECT_NEAR(*session.output(1)->as<float>() / var, 1, 1e-7);
}

}  // namespace
}  // namespace hg
