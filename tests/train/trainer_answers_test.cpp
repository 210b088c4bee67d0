// SPDX-License-Identifier: Apache-2.0
// Optimizers and schedules against PyTorch's numbers (answers/make_answers.py), optimizer kernels
// against their expansions, and gradients with known results.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"
#include "lib/graph/access.h"
#include "tests/support/must.h"

namespace hg {
namespace {

struct Answers {
  std::string name;
  std::vector<double> numbers;
};
const std::vector<Answers> kOptimizerAnswers = {
#include "tests/train/answers/optimizers.inc"
};
const std::vector<Answers> kScheduleAnswers = {
#include "tests/train/answers/schedules.inc"
};

// tanh(x weight^T + bias), as in make_answers.py
Model network() {
  Graph g;
  std::vector<float> weight, bias;
  for (int k = 0; k < 2; ++k) {
    for (int j = 0; j < 3; ++j) weight.push_back(static_cast<float>(0.1 * (k + 1) - 0.2 * j));
    bias.push_back(static_cast<float>(0.05 * (k + 1)));
  }
  const Value x = g.input("x", f32, {"n", 3});
  const Value w = g.parameter("weight", *TensorData::copy_of(view(weight, {2, 3})));
  const Value b = g.parameter("bias", *TensorData::copy_of(view(bias, {2})));
  g.output("", tanh(g.call("linear", {x, w, b})));
  return *Model::from_graph(std::move(g));
}

TrainOptions options_of(const std::string& name) {
  using Kind = Optimizer::Kind;
  TrainOptions o;
  o.session.threads = 1;
  std::map<std::string, Optimizer> optimizers = {
      {"sgd", sgd(0.1)},
      {"sgd momentum", sgd(0.05, 0.9)},
      {"sgd dampening", {.lr = 0.05, .weight_decay = 0.01, .momentum = 0.9, .dampening = 0.5}},
      {"sgd nesterov", sgd(0.05, 0.9, 0.01, true)},
      {"sgd maximize", {.lr = 0.01, .weight_decay = 0.1, .momentum = 0.5, .maximize = true}},
      {"adam", adam(0.01)},
      {"adam options",
       {.kind = Kind::adam,
        .lr = 0.02,
        .weight_decay = 0.05,
        .beta1 = 0.8,
        .beta2 = 0.95,
        .eps = 1e-6}},
      {"adam amsgrad", {.kind = Kind::adam, .lr = 0.02, .amsgrad = true}},
      {"adamw", adamw(0.01)},
      {"adamw amsgrad", {.kind = Kind::adamw, .lr = 0.02, .weight_decay = 0.1, .amsgrad = true}},
      {"adamw maximize", {.kind = Kind::adamw, .lr = 0.01, .weight_decay = 0.1, .maximize = true}},
      {"rmsprop", rmsprop(0.01)},
      {"rmsprop momentum",
       {.kind = Kind::rmsprop, .lr = 0.002, .weight_decay = 0.01, .momentum = 0.8, .alpha = 0.9}},
      {"rmsprop centered",
       {.kind = Kind::rmsprop, .lr = 0.01, .alpha = 0.9, .centered = true, .eps = 1e-2}},
      {"groups", sgd(0.05, 0.9, 0.1)},
      {"clip norm", sgd(0.1, 0.9)},
      {"clip value", adam(0.01)},
      {"one_cycle", adamw(0.05)}};
  EXPECT_TRUE(optimizers.contains(name)) << name;
  o.optimizer = optimizers[name];
  if (name == "groups") o.rules = {{.pattern = "weight", .lr = 0.2, .weight_decay = 0.0}};
  if (name == "clip norm") o.clip_norm = 0.1;
  if (name == "clip value") o.clip_value = 0.02;
  if (name == "one_cycle") o.schedule = {.kind = Schedule::Kind::one_cycle, .total = 100};
  return o;
}

TEST(Optimizers, EqualPyTorchsOver100Steps) {
  std::vector<float> x, target;
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 3; ++j) x.push_back(static_cast<float>(std::sin(1.7 * i + 0.9 * j)));
    for (int k = 0; k < 2; ++k) target.push_back(static_cast<float>(std::cos(0.6 * i + k)));
  }
  const ConstTensor inputs[] = {view(x, {8, 3})}, targets[] = {view(target, {8, 2})};
  ASSERT_EQ(kOptimizerAnswers.size(), 18u);
  for (const Answers& answers : kOptimizerAnswers) {
    Trainer trainer = must(Trainer::create(network(), options_of(answers.name)));
    size_t at = 0;
    for (int step = 1; step <= 100; ++step) {
      must(trainer.step(inputs, targets));
      if (step > 3 && step != 10 && step != 50 && step != 100) continue;
      for (const char* name : {"weight", "bias"}) {
        const Tensor t = *trainer.session().value(name);
        for (int64_t i = 0; i < t.count(); ++i, ++at)
          ASSERT_NEAR(t.as<float>()[i], answers.numbers[at], 2e-6)
              << answers.name << ", step " << step << ", " << name << "[" << i << "]";
      }
    }
    EXPECT_EQ(at, answers.numbers.size());
  }
}

TEST(Schedules, EqualPyTorchs) {
  using Kind = Schedule::Kind;
  const std::map<std::string, Schedule> schedules = {
      {"step", {.kind = Kind::step, .period = 7, .gamma = 0.3}},
      {"exponential", {.kind = Kind::exponential, .gamma = 0.9}},
      {"linear", {.kind = Kind::linear, .total = 20, .start = 0.25, .end = 0.75}},
      {"cosine", {.kind = Kind::cosine, .total = 40, .min_lr = 0.01}},
      {"one_cycle", {.kind = Kind::one_cycle, .total = 40}},
      {"one_cycle options",
       {.kind = Kind::one_cycle,
        .total = 40,
        .rise = 0.45,
        .div_factor = 10,
        .final_div_factor = 100}}};
  int seen = 0;
  for (const Answers& answers : kScheduleAnswers) {
    const auto found = schedules.find(answers.name);
    if (found == schedules.end()) continue;
    ++seen;
    for (size_t t = 0; t < answers.numbers.size(); ++t)
      EXPECT_NEAR(learning_rate(found->second, 0.5, static_cast<int64_t>(t)), answers.numbers[t],
                  1e-12)
          << answers.name << ", tick " << t;
  }
  EXPECT_EQ(seen, 6);
  // Warmup rises to the rate, and then the schedule begins.
  const Schedule warm = {.kind = Kind::linear, .warmup = 3, .total = 13, .start = 1, .end = 0};
  const double expected[] = {0.25, 0.5, 0.75, 1, 0.9};
  for (int t = 0; t < 5; ++t) EXPECT_NEAR(learning_rate(warm, 1, t), expected[t], 1e-12);
}

// fit() with a validation loss that follows plateau_loss() of make_answers.py. The loss is the
// data, and the model's only parameter does not change.
TEST(Schedules, PlateauEqualsPyTorchs) {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  const Value w = g.parameter("w", f32, {}, init::zeros());
  g.output("loss", mean(x + w * 0.0));
  TrainOptions o;
  o.losses = {{.kind = Loss::Kind::output}};
  o.optimizer = sgd(0.5);
  o.schedule = {
      .kind = Schedule::Kind::plateau, .gamma = 0.4, .min_lr = 0.02, .patience = 2, .cooldown = 1};
  o.session.threads = 1;
  Trainer trainer = must(Trainer::create(*Model::from_graph(std::move(g)), o));
  const auto answers = std::find_if(kScheduleAnswers.begin(), kScheduleAnswers.end(),
                                    [](const Answers& a) { return a.name == "plateau"; });
  ASSERT_NE(answers, kScheduleAnswers.end());
  std::vector<float> data = {0};
  const auto loss_of = [](int64_t epoch) {
    return static_cast<float>(1.0 / static_cast<double>(1 + std::min<int64_t>(epoch, 6)) +
                              (epoch > 20 ? 0.05 : 0.1));
  };
  data[0] = loss_of(0);
  std::vector<double> rates;
  const Status status =
      trainer.fit({{view(data, {1})}, {}}, {.epochs = 40, .on_progress = [&](const Progress& p) {
                                              if (p.is_epoch)
                                                data[0] = loss_of(p.epoch);
                                              else
                                                rates.push_back(p.lr);
                                              return true;
                                            }});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(rates.size(), answers->numbers.size());
  for (size_t t = 0; t < rates.size(); ++t)
    EXPECT_NEAR(rates[t], answers->numbers[t], 1e-7) << "epoch " << t;
}

// The same for mode="max": end_epoch() takes numbers that rise where plateau_loss() falls.
TEST(Schedules, PlateauOfAMaximumEqualsPyTorchs) {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  g.output("loss", mean(x + g.parameter("w", f32, {}, init::zeros()) * 0.0));
  TrainOptions o;
  o.losses = {{.kind = Loss::Kind::output}};
  o.optimizer = sgd(0.5);
  o.schedule = {.kind = Schedule::Kind::plateau,
                .gamma = 0.4,
                .min_lr = 0.02,
                .patience = 2,
                .cooldown = 1,
                .maximize = true};
  o.session.threads = 1;
  Result<Trainer> trainer = Trainer::create(*Model::from_graph(std::move(g)), o);
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  const auto answers = std::find_if(kScheduleAnswers.begin(), kScheduleAnswers.end(),
                                    [](const Answers& a) { return a.name == "plateau maximum"; });
  ASSERT_NE(answers, kScheduleAnswers.end());
  const std::vector<float> data = {0};
  const ConstTensor sample = view(data.data(), f32, {1});
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    ASSERT_TRUE(trainer->step({&sample, 1}, {}).ok());
    EXPECT_NEAR(trainer->lr(), answers->numbers[static_cast<size_t>(epoch)], 1e-7) << epoch;
    trainer->end_epoch(1 - 1.0 / static_cast<double>(1 + std::min<int64_t>(epoch, 6)) -
                       (epoch > 20 ? 0.05 : 0.1));
  }
  const Dataset all = {{sample}, {}};
  const Status no_metric = trainer->fit(all, {.validation = &all});
  EXPECT_NE(no_metric.message().find("there is no metric"), std::string_view::npos);
  EXPECT_NE(trainer->fit(all, {}).message().find("no validation data"), std::string_view::npos);
}

// Devices without such a kernel run the expansion.
TEST(Optimizers, ExpansionsEqualKernels) {
  const struct {
    const char* op;
    int states;  // including x
    NamedAttrs attrs;
  } kCases[] = {
      {"sgd_step", 2, {{"momentum", 0.9}, {"nesterov", true}, {"weight_decay", 0.1}}},
      {"sgd_step", 2, {{"momentum", 0.9}, {"dampening", 0.5}, {"clip_value", 0.3}}},
      {"adam_step", 4, {{"weight_decay", 0.1}, {"maximize", true}}},
      {"adam_step", 4, {{"weight_decay", 0.1}, {"decoupled", true}, {"group", 1}}},
      {"rmsprop_step", 4, {{"momentum", 0.9}, {"weight_decay", 0.1}}},
  };
  for (const auto& c : kCases) {
    for (const int64_t step : {1, 5}) {
      for (const bool go : {true, false}) {
        Graph g;
        std::vector<Value> inputs;
        for (int i = 0; i < c.states + 2; ++i)  // states, accumulated gradient, gradient
          inputs.push_back(g.parameter(str_cat("in", i), f32, {300},
                                       i == 1 && c.op[0] != 's' ? init::uniform(-0.1, 0.1, 7)
                                       : i == c.states + 1 || i == 0
                                           ? init::uniform(-1, 1, uint64_t(i) + 1)
                                           : init::uniform(1, 2, uint64_t(i) + 1)));
        if (std::string(c.op) == "rmsprop_step") std::swap(inputs[1], inputs[2]);
        std::vector<float> rates = {0.1f, 0.01f};
        inputs.push_back(g.constant(*TensorData::copy_of(view(rates, {2}))));
        inputs.push_back(g.scalar(step, i64));
        inputs.push_back(g.scalar(0.5));
        inputs.push_back(g.scalar(int64_t{go}, boolean));
        const std::vector<Value> fused = g.calls(c.op, inputs, c.attrs);
        ASSERT_TRUE(g.status().ok()) << g.status().message();
        const Node node = g.nodes().back();
        const std::vector<Value> plain = must(GraphAccess::expand(g, node));
        ASSERT_EQ(plain.size(), fused.size());
        for (size_t k = 0; k < fused.size(); ++k) {
          g.output("", fused[k]);
          g.output("", plain[k]);
        }
        Session session = must(Session::create(*Model::from_graph(std::move(g)), {.threads = 1}));
        ASSERT_TRUE(session.run().ok());
        for (int k = 0; k < session.output_count(); k += 2) {
          const Tensor a = *session.output(k), b = *session.output(k + 1);
          for (int64_t i = 0; i < 300; ++i)
            ASSERT_NEAR(a.as<float>()[i], b.as<float>()[i], 4e-6)
                << c.op << ", output " << k / 2 << ", step " << step << ", go " << go;
        }
      }
    }
  }
}

// -- Gradients ----------------------------------------------------------------------------------

std::vector<float> run(Graph g, const std::vector<Value>& outputs) {
  for (const Value& value : outputs) g.output("", g.value(value.id()));
  Session session = *Session::create(*Model::from_graph(std::move(g)), {.threads = 1});
  EXPECT_TRUE(session.run().ok());
  std::vector<float> all;
  for (int k = 0; k < session.output_count(); ++k) {
    const Tensor t = *session.output(k);
    all.insert(all.end(), t.as<float>(), t.as<float>() + t.count());
  }
  return all;
}

TEST(Gradients, KnownAnswers) {
  {  // y = t + (t a) a, with t = a b
    Graph g;
    const Value a = g.parameter("a", f32, {}, init::constant(3));
    const Value b = g.parameter("b", f32, {}, init::constant(5));
    const Value t = a * b, y = t + (t * a) * a;
    EXPECT_EQ(run(g, grad(y, {a, b})), (std::vector<float>{140, 30}));
  }
  {  // the second derivative of a^3
    Graph g;
    const Value a = g.parameter("a", f32, {}, init::constant(3));
    const Value first = grad(a * a * a, {a})[0];
    EXPECT_EQ(run(g, grad(first, {a})), std::vector<float>{18});
  }
  {  // a x^2 + b x + c
    Graph g;
    const std::vector<float> points = {1, 2, 3, 4};
    const Value x = g.parameter("x", *TensorData::copy_of(view(points, {4})));
    const Value y = 2.0 * x * x + 8.0 * x - 1.0;
    const std::vector<Value> dx = grad(y, {x});
    EXPECT_EQ(run(g, {y, dx[0]}), (std::vector<float>{9, 23, 41, 63, 12, 16, 20, 24}));
  }
}

}  // namespace
}  // namespace hg
