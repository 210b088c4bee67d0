// SPDX-License-Identifier: Apache-2.0
// Trainer: steps, epochs, modes, resuming, and what it rejects.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/allocation_count.h"
#include "tests/support/must.h"
#include "tests/support/noise.h"

namespace hg {
namespace {

using test::noise;

// Classifies n rows of 6 numbers into 3 classes, with batch_norm and dropout between the layers.
Model small_network(bool traced_training = false) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 6});
  const Value w1 = g.parameter("fc1.weight", f32, {16, 6}, init::kaiming_uniform(1));
  const Value b1 = g.parameter("fc1.bias", f32, {16});
  const auto buffer = [&](const char* name, float value) {
    const std::vector<float> values(16, value);
    return g.buffer(name, *TensorData::copy_of(view(values, {16})));
  };
  const Value gamma = g.parameter("norm.weight", f32, {16}, init::ones());
  const Value beta = g.parameter("norm.bias", f32, {16});
  Value y = g.call("linear", {x, w1, b1});
  g.set_origin({"norm", ""});
  y = batch_norm(y, gamma, beta, buffer("norm.running_mean", 0), buffer("norm.running_var", 1),
                 traced_training)
          .y;
  g.set_origin({"drop", ""});
  y = g.call("dropout", {relu(y)}, {{"p", 0.25}, {"training", traced_training}});
  g.set_origin({});
  const Value w2 = g.parameter("fc2.weight", f32, {3, 16}, init::kaiming_uniform(2));
  const Value b2 = g.parameter("fc2.bias", f32, {3});
  g.output("scores", g.call("linear", {y, w2, b2}));
  return must(Model::from_graph(std::move(g)));
}

struct Data {
  std::vector<float> x;
  std::vector<int64_t> y;
  Dataset set;
  explicit Data(int64_t count, uint64_t seed = 5) : x(noise(count * 6, seed)) {
    for (int64_t i = 0; i < count; ++i) {
      const float* row = x.data() + i * 6;
      y.push_back(row[0] + row[1] > 0.3f ? 2 : row[2] > row[3] ? 1 : 0);
    }
    set = {{view(x, {count, 6})}, {view(y, {count})}};
  }
};

TrainOptions classify(const Optimizer& optimizer = adamw(0.02)) {
  TrainOptions options;
  options.losses = {{.kind = Loss::Kind::cross_entropy}};
  options.metrics = {{.kind = Metric::Kind::accuracy}};
  options.optimizer = optimizer;
  options.session.seed = 3;
  options.session.threads = 1;
  return options;
}

Trainer make(const Model& model, const TrainOptions& options) {
  return must(Trainer::create(model, options));
}

std::vector<std::byte> bytes_of(const Trainer& trainer) { return *trainer.model()->serialize(); }

std::vector<float> floats(const Trainer& trainer, const std::string& name) {
  const Tensor t = *trainer.session().value(name);
  return std::vector<float>(t.as<float>(), t.as<float>() + t.count());
}

TEST(Trainer, LearnsAndGeneralises) {
  const Model model = small_network();
  Trainer trainer = make(model, classify());
  const Data train(400), test(100, 77);
  std::vector<double> epochs;
  const Status status =
      trainer.fit(train.set, {.epochs = 15, .batch = 32, .on_progress = [&](const Progress& p) {
                                if (p.is_epoch) epochs.push_back(p.loss);
                                return true;
                              }});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(epochs.size(), 15u);
  EXPECT_LT(epochs.back(), 0.5 * epochs.front());
  const Evaluation e = must(trainer.evaluate(test.set));
  EXPECT_GT(e.metrics[0], 0.8);
  EXPECT_EQ(trainer.updates(), 15 * 13);
}

TEST(Trainer, AStepAllocatesNothing) {
  Trainer trainer = make(small_network(), classify());
  const Data data(32);
  ASSERT_TRUE(trainer.step(data.set.inputs, data.set.targets).ok());
  const int64_t before = test::allocation_count();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(trainer.step(data.set.inputs, data.set.targets).ok());
  EXPECT_EQ(test::allocation_count() - before, 0);
}

TEST(Trainer, StatesAreUpdatedInPlace) {
  Trainer trainer = make(small_network(), classify());
  const Data data(32);
  ASSERT_TRUE(trainer.step(data.set.inputs, data.set.targets).ok());
  // The arena has no block for the update of the largest parameter besides its gradient: new
  // parameters and moments have no memory of their own.
  for (const ArenaBlock& block : trainer.session().arena_blocks())
    EXPECT_EQ(block.value.find("_step"), std::string::npos) << block.value;
}

// Resident memory of a mapped file, in KB; the process may map it more than once.
int64_t resident(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  int64_t sum = 0;
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(':')) is_it = line.ends_with(path);
    if (is_it && line.starts_with("Rss:")) sum += std::stoll(line.substr(4));
  }
  return sum;
}

// A large gradient is computed in parts, unless its norm is needed first, even for a norm that does
// not limit it.
TEST(Trainer, GradientsInPartsGiveTheSameBits) {
  Graph g;
  const Value x = g.input("x", f32, {2, 256, 2, 2});
  const Value w = g.parameter("w", f32, {512, 256, 3, 3}, init::uniform(-0.02, 0.02, 1));
  g.output("y", g.call("conv", {x, w}, {{"padding", std::vector<Dim>{1}}}));
  const Model model = *Model::from_graph(std::move(g));
  const std::vector<float> xs = noise(2 * 256 * 4, 1), ys = noise(2 * 512 * 4, 2);
  const ConstTensor input = view(xs, {2, 256, 2, 2}), target = view(ys, {2, 512, 2, 2});
  for (const Optimizer& optimizer : {sgd(0.01, 0.9), adamw(0.01), rmsprop(0.01)})
    for (const int accumulate : {1, 2}) {
      std::vector<float> weights[2];
      int64_t arena[2] = {};
      for (const bool whole : {false, true}) {
        TrainOptions options;
        options.optimizer = optimizer;
        options.accumulate = accumulate;
        options.clip_norm = whole ? 1e30 : 0;
        Trainer trainer = make(model, options);
        for (int step = 0; step < 2; ++step)
          ASSERT_TRUE(trainer.step(std::span(&input, 1), std::span(&target, 1)).ok());
        const Tensor trained = *trainer.session().value("w");
        weights[whole].assign(trained.as<float>(), trained.as<float>() + trained.count());
        arena[whole] = trainer.session().memory()->arena_bytes;
      }
      EXPECT_EQ(weights[0], weights[1]);
      EXPECT_LT(arena[0], arena[1] * 3 / 4);
    }
}

TEST(Trainer, KeepsNoSecondCopyOfWhatItChanges) {
  const std::string path = testing::TempDir() + "hg_trainer_" + std::to_string(getpid()) + ".hgm";
  constexpr int64_t kWidth = 1 << 18;
  Graph g;
  const Value x = g.input("x", f32, {"n", kWidth});
  const Value w = g.parameter("w", f32, {1, kWidth}, init::kaiming_uniform(1));
  g.buffer("count", *TensorData::allocate(i64, {}));
  g.output("y", g.call("linear", {x, w, Value()}));
  ASSERT_TRUE(Model::from_graph(std::move(g))->save(path).ok());
  const Model model = must(Model::load(path));
  const Tensor weights = model.graph().states()[0].data.tensor;
  float sum = 0;
  for (int64_t i = 0; i < kWidth; ++i) sum += weights.as<float>()[i];
  EXPECT_TRUE(std::isfinite(sum));
#ifndef __EMSCRIPTEN__  // it reads files instead of mapping them
  EXPECT_GT(resident(path), 1000);
#endif
  Trainer trainer = make(model, {.optimizer = sgd(0.1)});
  const std::vector<float> xs = noise(4 * kWidth, 1), ys = noise(4, 2);
  const ConstTensor input = view(xs, {4, kWidth}), target = view(ys, {4, 1});
  EXPECT_TRUE(trainer.step({&input, 1}, {&target, 1}).ok());
  EXPECT_LT(resident(path), 100) << "of 1024 KB of weights";
  EXPECT_TRUE(trainer.save(path).ok());
  std::remove(path.c_str());
}

TEST(Trainer, SameBitsForEveryThreadCount) {
  std::vector<std::byte> first;
  for (const int threads : {1, 2, 3}) {
    TrainOptions options = classify();
    options.session.threads = threads;
    Trainer trainer = make(small_network(), options);
    const Data data(100);
    ASSERT_TRUE(trainer.fit(data.set, {.epochs = 3, .batch = 32}).ok());
    if (first.empty()) first = bytes_of(trainer);
    EXPECT_EQ(first, bytes_of(trainer)) << threads << " threads";
  }
}

TEST(Trainer, ResumesBitByBit) {
  const Data data(100);
  const FitOptions whole = {.epochs = 4, .batch = 16};
  TrainOptions options = classify();
  options.accumulate = 2;
  Trainer straight = make(small_network(), options);
  ASSERT_TRUE(straight.fit(data.set, whole).ok());

  // A training is interrupted in the middle of the second epoch, and finished from the file.
  Trainer first = make(small_network(), options);
  FitOptions interrupted = whole;
  interrupted.on_progress = [](const Progress& p) { return p.step < 10; };
  ASSERT_TRUE(first.fit(data.set, interrupted).ok());
  const Model saved = must(Model::read(bytes_of(first)));
  Trainer second = make(saved, options);
  FitOptions rest = whole;
  rest.finish = true;
  ASSERT_TRUE(second.fit(data.set, rest).ok());
  EXPECT_EQ(bytes_of(straight), bytes_of(second));

  // Other data cannot finish the epoch that was interrupted.
  Trainer third = make(saved, options);
  const Data fewer(60);
  const Status finished = third.fit(fewer.set, rest);
  EXPECT_NE(finished.message().find("has 7 batches, but these data have 4"), std::string::npos)
      << finished.message();
  // Without `finish`, they are trained from their first batch, without gradients that wait.
  int64_t batches = 0;
  double loss = 0;
  ASSERT_TRUE(third
                  .fit(fewer.set, {.epochs = 1,
                                   .batch = 16,
                                   .on_progress =
                                       [&](const Progress& p) {
                                         if (p.is_epoch) loss = p.loss;
                                         batches += !p.is_epoch;
                                         return true;
                                       }})
                  .ok());
  EXPECT_EQ(batches, 4);
  EXPECT_TRUE(std::isfinite(loss));

  // Training two epochs twice equals training four epochs.
  Trainer half = make(small_network(), options);
  FitOptions two = whole;
  two.epochs = 2;
  ASSERT_TRUE(half.fit(data.set, two).ok());
  Trainer other = make(*Model::read(bytes_of(half)), options);
  ASSERT_TRUE(other.fit(data.set, two).ok());
  EXPECT_EQ(floats(straight, "fc1.weight"), floats(other, "fc1.weight"));

  // A new optimizer starts without state, and a note says so.
  Trainer anew = make(saved, classify(rmsprop()));
  ASSERT_EQ(anew.notes().size(), 1u);
  EXPECT_EQ(anew.updates(), 0);
}

TEST(Trainer, AccumulatedBatchesEqualOneLargeBatch) {
  const Data data(50);
  for (const double clip : {0.0, 0.1}) {
    TrainOptions options = classify(sgd(0.1, 0.9));
    options.mode = TrainOptions::Mode::as_traced;  // batch statistics differ by construction
    options.clip_norm = clip;
    Trainer large = make(small_network(), options);
    options.accumulate = 4;
    Trainer small = make(small_network(), options);
    ASSERT_TRUE(large.fit(data.set, {.epochs = 3, .batch = 50, .shuffle = false}).ok());
    ASSERT_TRUE(small.fit(data.set, {.epochs = 3, .batch = 13, .shuffle = false}).ok());
    EXPECT_EQ(small.updates(), 3);
    const std::vector<float> a = floats(large, "fc1.weight"), b = floats(small, "fc1.weight");
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-6) << i;
  }
}

// Gradients that wait for an update are dropped; later batches alone make the next update.
TEST(Trainer, ALossThatIsNotFiniteDropsGradientsThatWait) {
  const Data data(16), other(16, 7);
  TrainOptions options = classify(sgd(0.1));
  options.mode = TrainOptions::Mode::as_traced;  // dropout draws new numbers per batch
  options.accumulate = 2;
  Trainer stopped = make(small_network(), options), plain = make(small_network(), options);
  ASSERT_TRUE(stopped.step(other.set.inputs, other.set.targets).ok());
  const std::vector<float> before = floats(stopped, "fc1.weight");
  std::vector<float> nan(data.set.inputs[0].count(), NAN);
  const ConstTensor bad[] = {view(nan, data.set.inputs[0].shape)};
  ASSERT_FALSE(stopped.step(bad, data.set.targets).ok());
  EXPECT_EQ(floats(stopped, "fc1.weight"), before);
  for (Trainer* const trainer : {&stopped, &plain}) {
    ASSERT_TRUE(trainer->step(data.set.inputs, data.set.targets).ok());
    EXPECT_EQ(trainer->updates(), 0);
    ASSERT_TRUE(trainer->step(data.set.inputs, data.set.targets).ok());
    EXPECT_EQ(trainer->updates(), 1);
  }
  EXPECT_EQ(floats(stopped, "fc1.weight"), floats(plain, "fc1.weight"));
}

TEST(Trainer, TrainingModeMovesStatisticsAndAsTracedDoesNot) {
  const Data data(64);
  Trainer training = make(small_network(), classify());
  ASSERT_TRUE(training.step(data.set.inputs, data.set.targets).ok());
  // torch: (1 - 0.1) * 0 + 0.1 * mean, and the unbiased variance
  const std::vector<float> w = floats(make(small_network(), classify()), "fc1.weight");
  const std::vector<float> mean = floats(training, "norm.running_mean");
  const std::vector<float> var = floats(training, "norm.running_var");
  for (size_t c = 0; c < 16; ++c) {
    double sum = 0, squares = 0;
    for (size_t r = 0; r < 64; ++r) {
      double y = 0;
      for (size_t k = 0; k < 6; ++k) y += double{w[c * 6 + k]} * data.x[r * 6 + k];
      sum += y;
      squares += y * y;
    }
    EXPECT_NEAR(mean[c], 0.1 * sum / 64, 1e-6);
    EXPECT_NEAR(var[c], 0.9 + 0.1 * (squares - sum * sum / 64) / 63, 1e-6);
  }

  TrainOptions traced = classify();
  traced.mode = TrainOptions::Mode::as_traced;
  Trainer frozen = make(small_network(), traced);
  ASSERT_TRUE(frozen.step(data.set.inputs, data.set.targets).ok());
  EXPECT_EQ(floats(frozen, "norm.running_mean"), std::vector<float>(16, 0));
  // A model traced in training mode is evaluated in inference mode; its file keeps the traced mode.
  Trainer other = make(small_network(true), classify());
  ASSERT_TRUE(other.step(data.set.inputs, data.set.targets).ok());
  EXPECT_EQ(floats(other, "norm.running_mean"), mean);
  EXPECT_EQ(other.evaluate(data.set)->loss, other.evaluate(data.set)->loss);
}

TEST(Trainer, FrozenLayersStay) {
  const Data data(64);
  TrainOptions options = classify();
  options.rules = {{.pattern = "*", .frozen = true}, {.pattern = "fc2.*", .lr = 0.5}};
  options.rules[1].frozen = false;
  Trainer trainer = make(small_network(), options);
  EXPECT_EQ(trainer.trained(), (std::vector<std::string>{"fc2.weight", "fc2.bias"}));
  const std::vector<float> w = floats(trainer, "fc1.weight"), v = floats(trainer, "fc2.weight");
  ASSERT_TRUE(trainer.step(data.set.inputs, data.set.targets).ok());
  EXPECT_EQ(floats(trainer, "fc1.weight"), w);
  EXPECT_EQ(floats(trainer, "norm.running_mean"), std::vector<float>(16, 0));
  EXPECT_NE(floats(trainer, "fc2.weight"), v);
}

TEST(Trainer, StopsAtALossThatIsNotFinite) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 1});
  const Value w = g.parameter("w", f32, {1}, init::ones());
  g.set_origin({"head.log", "model.py:7"});
  const Value y = log(x * w);
  g.output("y", y);
  TrainOptions options;
  options.session.threads = 1;
  Trainer trainer = make(*Model::from_graph(std::move(g)), options);
  std::vector<float> values = {1, 2, -3}, target = {0, 0, 0};
  const ConstTensor inputs[] = {view(values, {3, 1})}, targets[] = {view(target, {3, 1})};
  const Result<double> loss = trainer.step(inputs, targets);
  ASSERT_FALSE(loss.ok());
  const std::string message(loss.status().message());
  EXPECT_NE(message.find("log 'head.log'"), std::string::npos) << message;
  EXPECT_NE(message.find("model.py:7"), std::string::npos) << message;
  EXPECT_EQ(floats(trainer, "w"), std::vector<float>{1}) << "nothing was updated";
  values[2] = 3;
  target[0] = 1e30f;
  const Result<double> square = trainer.step(inputs, targets);
  ASSERT_FALSE(square.ok());
  EXPECT_NE(square.status().message().find("the mse loss of 'y'"), std::string_view::npos)
      << square.status().message();
  target[0] = 0;
  EXPECT_TRUE(trainer.step(inputs, targets).ok());
  EXPECT_EQ(trainer.updates(), 1);
}

TEST(Trainer, EarlyStoppingAndBestModel) {
  const Data train(60), test(40, 8);
  TrainOptions options = classify(adamw(0.05));
  Trainer trainer = make(small_network(), options);
  const std::string path = testing::TempDir() + "best.hgm";
  int64_t epochs = 0;
  double best = 1e9;
  const Status status = trainer.fit(train.set, {.epochs = 200,
                                                .batch = 16,
                                                .validation = &test.set,
                                                .patience = 4,
                                                .best_path = path,
                                                .on_progress = [&](const Progress& p) {
                                                  if (!p.is_epoch) return true;
                                                  epochs = p.epoch;
                                                  EXPECT_EQ(p.is_best, p.validation->loss < best);
                                                  best = std::min(best, p.validation->loss);
                                                  return true;
                                                }});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_LT(epochs, 200);
  const Model saved = must(Model::load(path));
  Trainer again = make(saved, options);
  EXPECT_NEAR(again.evaluate(test.set, 16)->loss, best, 1e-6);
}

TEST(Trainer, MixedPrecisionFollowsF32) {
  const Data data(64);
  std::vector<double> last;
  for (const DType compute : {f32, bf16, f16}) {
    TrainOptions options = classify(sgd(0.1));
    options.compute = compute;
    options.mode = TrainOptions::Mode::as_traced;
    Trainer trainer = make(small_network(), options);
    double loss = 0;
    for (int i = 0; i < 20; ++i) {
      const double step = must(trainer.step(data.set.inputs, data.set.targets));
      loss = step;
    }
    EXPECT_EQ(trainer.session().value("fc1.weight")->dtype, f32);
    last.push_back(loss);
  }
  EXPECT_NE(last[0], last[1]);
  EXPECT_NEAR(last[0], last[1], 0.02);
  EXPECT_NEAR(last[0], last[2], 0.005);
}

TEST(Trainer, F16SkipsUpdatesThatOverflow) {
  // The gradient of w, scaled by 65536, overflows at first.
  Graph g;
  const Value x = g.input("x", f32, {"n", 2});
  const Value w = g.parameter("w", f32, {1, 2}, init::ones());
  g.output("y", g.call("linear", {x, w}));
  TrainOptions options;
  options.compute = f16;
  options.optimizer = sgd(1e-4);
  options.losses = {{.reduction = Reduction::sum}};
  Trainer trainer = make(*Model::from_graph(std::move(g)), options);
  std::vector<float> values = {3, 4}, target = {0};
  const ConstTensor inputs[] = {view(values, {1, 2})}, targets[] = {view(target, {1, 1})};
  double first = 0;
  for (int i = 0; i < 20; ++i) {
    const double loss = must(trainer.step(inputs, targets));
    if (i == 0) first = loss;
  }
  EXPECT_LT(trainer.updates(), 20);
  EXPECT_GT(trainer.updates(), 5);
  EXPECT_LT(*trainer.step(inputs, targets), first);
}

TEST(Trainer, RefusesWithASentence) {
  const Model model = small_network();
  const auto refusal = [&](const TrainOptions& options) {
    const Result<Trainer> trainer = Trainer::create(model, options);
    EXPECT_FALSE(trainer.ok());
    return std::string(trainer.status().message());
  };
  TrainOptions o = classify();
  EXPECT_NE(parse_loss("crossentropy").status().message().find("no loss 'crossentropy'"),
            std::string::npos);
  o.losses[0].output = "logits";
  EXPECT_EQ(refusal(o), "the model has no output 'logits'; the outputs are scores");
  o = classify();
  o.rules = {{.pattern = "backbone.*", .frozen = true}};
  EXPECT_EQ(refusal(o), "no parameter matches the pattern 'backbone.*'");
  o.rules = {{.pattern = "*", .frozen = true}};
  EXPECT_NE(refusal(o).find("there is no parameter to train"), std::string::npos);
  o = classify();
  o.optimizer.lr = -0.5;
  EXPECT_EQ(refusal(o), "the optimizer's learning rate is -0.5, but must be finite and 0 or more");
  o = classify();
  o.schedule.warmup = -3;
  EXPECT_EQ(refusal(o), "the schedule's warmup is -3, but must be finite and 0 or more");
  o.schedule = {.period = 0};
  EXPECT_NE(refusal(o).find("period is 0"), std::string::npos);
  o.schedule = {.rise = 2};
  EXPECT_NE(refusal(o).find("rise is 2"), std::string::npos);
  Trainer trainer = make(model, classify());
  Data data(8);
  EXPECT_FALSE(trainer.fit({data.set.inputs, {}}, {}).ok());
  EXPECT_EQ(trainer.fit(data.set, {.patience = -1}).message(), "patience is -1");
  Dataset no_strides = data.set;
  no_strides.inputs[0].strides = {};
  EXPECT_EQ(trainer.fit(no_strides, {}).message(),
            "input 'x' is given strides [] for shape [8, 6]");
  data.y[5] = 3000;
  const std::string sentence =
      "the target 'target' has the class 3000, the output has the classes 0";
  EXPECT_EQ(trainer.fit(data.set, {}).message().substr(0, sentence.size()), sentence);
  EXPECT_EQ(trainer.evaluate(data.set).status().message().substr(0, sentence.size()), sentence);
}

}  // namespace
}  // namespace hg
