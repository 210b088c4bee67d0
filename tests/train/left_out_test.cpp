// SPDX-License-Identifier: Apache-2.0
// What earlier training left out, or what a graph reads twice: parameters that are thawed later,
// tied parameters of several names, layers that run twice in a step, batches that are dropped, and
// steps whose rate is not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/must.h"
#include "tests/support/noise.h"

namespace hg {
namespace {

constexpr int64_t kBatch = 5, kWidth = 4;

// y = tanh(x a^T) b^T
Model two_layers() {
  Graph g;
  const Value x = g.input("x", f32, {"n", kWidth});
  const Value a = g.parameter("a.weight", f32, {kWidth, kWidth}, init::kaiming_uniform(1));
  const Value b = g.parameter("b.weight", f32, {kWidth, kWidth}, init::kaiming_uniform(2));
  g.output("y", linear(tanh(linear(x, a)), b));
  return must(Model::from_graph(std::move(g)));
}

struct Data {
  std::vector<float> x = test::noise(kBatch * kWidth, 1), y = test::noise(kBatch * kWidth, 2);
  std::vector<ConstTensor> inputs = {view(x, {kBatch, kWidth})},
                           targets = {view(y, {kBatch, kWidth})};
};

Trainer make(const Model& model, const Optimizer& optimizer,
             std::vector<ParameterRule> rules = {}) {
  TrainOptions options;
  options.optimizer = optimizer;
  options.rules = std::move(rules);
  options.session.threads = 1;
  return must(Trainer::create(model, options));
}

template <class T = float>
std::vector<T> values(const Trainer& trainer, const std::string& name) {
  const Tensor t = must(trainer.session().value(name));
  return std::vector<T>(t.as<T>(), t.as<T>() + t.shape.count());
}

void run(Trainer& trainer, const Data& data, int steps) {
  for (int i = 0; i < steps; ++i) must(trainer.step(data.inputs, data.targets));
}

// -- Resumed with other parameters or another optimizer -------------------------------------------

// A parameter that is thawed after some updates has moments of 0, so its bias corrections and its
// first step are those of its own first update.
TEST(LeftOut, AThawedParameterStartsAsInNewTraining) {
  const Data data;
  const Optimizer damped = {
      .kind = Optimizer::Kind::sgd, .lr = 0.01, .momentum = 0.9, .dampening = 0.5};
  for (const Optimizer& optimizer :
       {adam(0.01), adamw(0.01), damped, sgd(0.01, 0.9), rmsprop(0.01, 0.9)}) {
    SCOPED_TRACE(to_string(optimizer.kind));
    Trainer first = make(two_layers(), optimizer, {{.pattern = "a.*", .frozen = true}});
    run(first, data, 20);
    const Model model = must(first.model());
    Trainer resumed = make(model, optimizer);
    TrainOptions anew;
    anew.optimizer = optimizer;
    anew.resume = false;
    Trainer fresh = must(Trainer::create(model, anew));
    run(resumed, data, 1);
    run(fresh, data, 1);
    EXPECT_EQ(resumed.updates(), 21);
    EXPECT_EQ(values(resumed, "a.weight"), values(fresh, "a.weight"));
    EXPECT_NE(values(resumed, "b.weight"), values(fresh, "b.weight"));
    // Its count is saved.
    run(resumed, data, 2);
    Trainer again = make(must(resumed.model()), optimizer);
    run(resumed, data, 3);
    run(again, data, 3);
    EXPECT_EQ(values(resumed, "a.weight"), values(again, "a.weight"));
    EXPECT_EQ(values(resumed, "b.weight"), values(again, "b.weight"));
  }
}

TEST(LeftOut, AnotherOptimizerStartsAnewAfterPlainSgd) {
  const Data data;
  Trainer first = make(two_layers(), sgd(0.01));
  run(first, data, 50);
  const Model model = must(first.model());
  Trainer plain = make(model, sgd(0.01));
  EXPECT_EQ(plain.updates(), 50);
  EXPECT_TRUE(plain.notes().empty());
  for (const Optimizer& optimizer : {adam(0.01), rmsprop(0.01)}) {
    Trainer other = make(model, optimizer);
    EXPECT_EQ(other.updates(), 0);
    EXPECT_EQ(other.notes().size(), 1u);
  }
  // Momentum that begins later begins with the gradient, whatever the dampening.
  Optimizer damped = sgd(0.01, 0.9);
  damped.dampening = 0.5;
  Trainer late = make(model, damped);
  run(plain, data, 1);
  run(late, data, 1);
  EXPECT_EQ(late.updates(), 51);
  EXPECT_EQ(values(late, "a.weight"), values(plain, "a.weight"));
}

// -- Several names --------------------------------------------------------------------------------

// A rule or penalty that matches one name of a tied parameter applies to it, as in torch.
TEST(LeftOut, PatternsMatchEveryNameOfATiedParameter) {
  Graph g;
  const Value x = g.input("x", f32, {"n", kWidth});
  const Value w = g.parameter("enc.weight", f32, {kWidth, kWidth}, init::kaiming_uniform(1));
  g.add_alias(w, "dec.weight");
  const Value bias = g.parameter("dec.bias", f32, {kWidth});
  g.output("y", linear(tanh(linear(x, w)), w, bias));
  const Model model = must(Model::from_graph(std::move(g)));
  for (const char* pattern : {"enc.*", "dec.weight", "d*.w*"})
    EXPECT_EQ(make(model, sgd(), {{.pattern = pattern, .frozen = true}}).trained(),
              std::vector<std::string>{"dec.bias"})
        << pattern;
  EXPECT_FALSE(
      Trainer::create(model, {.rules = {{.pattern = "dec.*", .frozen = true}}}).ok());  // all
  const Data data;
  std::vector<std::vector<float>> trained[2];
  for (const char* pattern : {"enc.weight", "dec.weight"}) {
    Trainer by_rule = make(model, sgd(0.1), {{.pattern = pattern, .lr = 0.5, .weight_decay = 0.1}});
    TrainOptions options;
    options.penalties = {{.pattern = pattern, .l2 = 0.5}};
    Trainer by_penalty = must(Trainer::create(model, options));
    run(by_rule, data, 2);
    run(by_penalty, data, 2);
    trained[0].push_back(values(by_rule, "enc.weight"));
    trained[1].push_back(values(by_penalty, "enc.weight"));
  }
  for (const auto& each : trained) EXPECT_EQ(each[0], each[1]);
}

// -- Layers that run twice ------------------------------------------------------------------------

// The running statistics of a batch_norm that runs twice move twice, in the order of the runs, as
// in torch. In a graph of training mode the second run already reads those of the first.
TEST(LeftOut, ABatchNormThatRunsTwiceMovesItsStatisticsTwice) {
  for (const bool traced_training : {false, true}) {
    Graph g;
    const Value x = g.input("x", f32, {"n", 1});
    const std::vector<float> zero = {0}, one = {1};
    const Value mean = g.buffer("running_mean", must(TensorData::copy_of(view(zero, {1}))));
    const Value var = g.buffer("running_var", must(TensorData::copy_of(view(one, {1}))));
    const Value weight = g.parameter("weight", f32, {1}, init::ones());
    const Value bias = g.parameter("bias", f32, {1});
    const BatchNorm first = batch_norm(x, weight, bias, mean, var, traced_training, 0.25);
    const BatchNorm second =
        batch_norm(x * 2 + 1, weight, bias, traced_training ? detach(first.new_mean) : mean,
                   traced_training ? detach(first.new_var) : var, traced_training, 0.25);
    if (traced_training) {
      g.assign(mean, second.new_mean);
      g.assign(var, second.new_var);
    }
    g.output("y", first.y + second.y);
    const Model model = must(Model::from_graph(std::move(g)));
    Trainer trainer = make(model, sgd(0.01));
    EXPECT_TRUE(trainer.notes().empty());
    const std::vector<float> rows = {1, 2, 6}, y = {0, 0, 0};
    must(trainer.step({{view(rows, {3, 1})}}, {{view(y, {3, 1})}}));
    // Means 3 and 7, unbiased variances 7 and 28.
    EXPECT_FLOAT_EQ(values(trainer, "running_mean")[0], 0.75f * (0.25f * 3) + 0.25f * 7);
    EXPECT_FLOAT_EQ(values(trainer, "running_var")[0],
                    0.75f * (0.75f * 1 + 0.25f * 7) + 0.25f * 28);
    // Frozen, neither run moves them.
    Trainer frozen = make(model, sgd(0.01), {{.pattern = "weight", .frozen = true}});
    EXPECT_EQ(frozen.trained(), std::vector<std::string>{"bias"});
  }
}

// -- Dropped batches ------------------------------------------------------------------------------

// A batch whose loss is not finite changes no buffer of any dtype.
TEST(LeftOut, ADroppedBatchChangesNoBuffer) {
  Graph g;
  const Value x = g.input("x", f32, {"n", kWidth});
  const Value w = g.parameter("w", f32, {kWidth, kWidth}, init::kaiming_uniform(1));
  const Value seen = g.buffer("seen", must(TensorData::allocate(i64, {})));
  const Value turn = g.buffer("turn", must(TensorData::allocate(boolean, {})));
  g.assign(seen, seen + 1);
  g.assign(turn, logical_not(turn));
  g.output("y", linear(x, w));
  Trainer trainer = make(must(Model::from_graph(std::move(g))), sgd(0.01));
  Data data;
  run(trainer, data, 1);
  data.x[0] = NAN;
  EXPECT_FALSE(trainer.step(data.inputs, data.targets).ok());
  EXPECT_EQ(values<int64_t>(trainer, "seen")[0], 1);
  EXPECT_EQ(values<bool>(trainer, "turn")[0], true);
}

// -- Steps whose rate is not finite ---------------------------------------------------------------

TEST(LeftOut, RatesThatAreNotFiniteChangeNothing) {
  const Data data;
  TrainOptions options;
  options.rules = {{.pattern = "b.*", .lr = std::numeric_limits<double>::infinity()}};
  const Result<Trainer> refused = Trainer::create(two_layers(), options);
  EXPECT_NE(refused.status().message().find("must be finite"), std::string::npos);
  options.rules = {};
  options.schedule = {.kind = Schedule::Kind::one_cycle, .total = 10, .div_factor = 0};
  for (const double rate : {options.optimizer.lr, 1e39, std::nan("")}) {
    Trainer trainer = must(Trainer::create(two_layers(), options));
    if (rate != options.optimizer.lr) trainer.set_lr(rate);
    const std::vector<float> a = values(trainer, "a.weight"), b = values(trainer, "b.weight");
    const Status status = trainer.step(data.inputs, data.targets).status();
    EXPECT_NE(status.message().find("learning rate of this step"), std::string::npos) << rate;
    EXPECT_EQ(values(trainer, "a.weight"), a) << rate;
    EXPECT_EQ(values(trainer, "b.weight"), b) << rate;
  }
}

}  // namespace
}  // namespace hg
