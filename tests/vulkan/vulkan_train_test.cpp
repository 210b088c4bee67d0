// SPDX-License-Identifier: Apache-2.0
// Training on a Vulkan device: the same loss curves and models as on the CPU, while all data stay
// on the device.
#include "hg/train.h"
#include "lib/device/backend.h"
#include "tests/support/must.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace hg::test {
namespace {

constexpr int64_t kBatch = 16;

// A convolution with batch_norm, pooling, and a classifier, on images of 3x8x8.
Model network() {
  Graph g;
  const auto buffer = [&](const char* name, float value) {
    const std::vector<float> values(8, value);
    return g.buffer(name, *TensorData::copy_of(view(values, {8})));
  };
  const Value x = g.input("x", f32, {"n", 3, 8, 8});
  const Value w = g.parameter("conv.weight", f32, {8, 3, 3, 3}, init::kaiming_uniform(1));
  Value y = g.call("conv", {x, w}, {{"padding", std::vector<Dim>{1, 1}}});
  y = batch_norm(y, g.parameter("norm.weight", f32, {8}, init::ones()),
                 g.parameter("norm.bias", f32, {8}), buffer("norm.mean", 0), buffer("norm.var", 1),
                 false)
          .y;
  y = g.call("max_pool", {relu(y)}, {{"kernel_size", std::vector<Dim>{2, 2}}});
  y = reshape(y, {"n", 128});
  y = layer_norm(y, {128}, g.parameter("ln.weight", f32, {128}, init::ones()),
                 g.parameter("ln.bias", f32, {128}));
  y = g.call("linear", {y, g.parameter("fc1.weight", f32, {32, 128}, init::kaiming_uniform(2)),
                        g.parameter("fc1.bias", f32, {32})});
  y = g.call("linear", {gelu(y), g.parameter("fc2.weight", f32, {3, 32}, init::kaiming_uniform(3)),
                        g.parameter("fc2.bias", f32, {3})});
  g.output("scores", y);
  return must(Model::from_graph(std::move(g)));
}

struct Batch {
  std::vector<float> x = numbers(kBatch * 3 * 64);
  std::vector<int64_t> y;
  std::vector<ConstTensor> inputs, targets;
  Batch() {
    for (int64_t i = 0; i < kBatch; ++i) y.push_back(i * 7 % 3);
    inputs = {view(x, {kBatch, 3, 8, 8})};
    targets = {view(y, {kBatch})};
  }
};

TrainOptions classify(const Optimizer& optimizer) {
  TrainOptions options;
  options.losses = {{.kind = Loss::Kind::cross_entropy}};
  options.optimizer = optimizer;
  options.session.threads = 1;
  return options;
}

std::vector<double> losses(Trainer& trainer, const Batch& batch, int steps) {
  std::vector<double> all;
  for (int i = 0; i < steps; ++i) {
    const Result<double> loss = trainer.step(batch.inputs, batch.targets);
    EXPECT_TRUE(loss.ok()) << loss.status().message();
    all.push_back(loss.ok() ? *loss : NAN);
  }
  return all;
}

std::vector<float> floats(const Trainer& trainer, const std::string& name) {
  const Tensor t = *trainer.session().value(name);
  return std::vector<float>(t.as<float>(), t.as<float>() + t.count());
}

class VulkanTrain : public Vulkan {
 protected:
  Trainer make(const Model& model, TrainOptions options, Device device) const {
    options.session.device = device;
    if (device != Device::cpu) options.session.gpu = gpu_;
    return must(Trainer::create(model, std::move(options)));
  }
};

TEST_F(VulkanTrain, CurvesEqualTheCpus) {
  const Batch batch;
  Optimizer amsgrad = adam(2e-3, 0.01);
  amsgrad.amsgrad = true;
  Optimizer centered = rmsprop(1e-3, 0.5);
  centered.centered = true;
  const Optimizer optimizers[] = {sgd(0.05, 0.9, 1e-3, true), sgd(0.1), adamw(2e-3), amsgrad,
                                  centered};
  for (const Optimizer& optimizer : optimizers) {
    TrainOptions options = classify(optimizer);
    if (optimizer.kind == Optimizer::Kind::sgd) options.clip_norm = 1;
    Trainer there = make(network(), options, Device::vulkan);
    Trainer here = make(network(), options, Device::cpu);
    const std::vector<double> got = losses(there, batch, 12), expected = losses(here, batch, 12);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 1e-3 * std::abs(expected[i])) << i;
    EXPECT_LT(got.back(), 0.9 * got.front());
    for (const char* name : {"conv.weight", "fc2.bias", "norm.mean"}) {
      const std::vector<float> a = floats(there, name), b = floats(here, name);
      for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-3) << name << " " << i;
    }
  }
}

// A step uploads the batch, and downloads the loss and the number of updates.
TEST_F(VulkanTrain, ParametersStayOnTheDevice) {
  const Batch batch;
  Trainer trainer = make(network(), classify(adamw(1e-3)), Device::vulkan);
  losses(trainer, batch, 2);
  const GpuCounters before = gpu_.counters();
  losses(trainer, batch, 5);
  const GpuCounters after = gpu_.counters();
  EXPECT_EQ(after.submits - before.submits, 5) << trainer.session().report();
  EXPECT_EQ(after.upload_bytes - before.upload_bytes,
            5 * (kBatch * 3 * 64 * 4 + kBatch * 8 + 4 /* the learning rate */));
  EXPECT_EQ(after.download_bytes - before.download_bytes, 5 * (4 + 8));
  EXPECT_EQ(trainer.updates(), 7);
}

TEST_F(VulkanTrain, WhatIsSavedIsWhatTheDeviceHas) {
  const Batch batch;
  Trainer trainer = make(network(), classify(adamw(5e-3)), Device::vulkan);
  losses(trainer, batch, 5);
  const Evaluation evaluation = must(trainer.evaluate({batch.inputs, batch.targets}));
  const Model saved = must(trainer.model());
  const std::vector<double> ahead = losses(trainer, batch, 3);
  // Training continues on another device.
  Trainer resumed = make(saved, classify(adamw(5e-3)), Device::cpu);
  EXPECT_EQ(resumed.updates(), 5);
  const Evaluation again = must(resumed.evaluate({batch.inputs, batch.targets}));
  EXPECT_NEAR(evaluation.loss, again.loss, 1e-4);
  const std::vector<double> here = losses(resumed, batch, 3);
  for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(ahead[i], here[i], 1e-3 * here[i]) << i;
}

TEST_F(VulkanTrain, ALossThatIsNotFiniteChangesNothing) {
  Batch batch;
  TrainOptions options = classify(sgd(0.1, 0.9));
  options.accumulate = 2;
  Trainer trainer = make(network(), options, Device::vulkan);
  Trainer other = make(network(), options, Device::vulkan);
  losses(trainer, batch, 2);
  losses(other, batch, 2);
  const std::vector<float> before = floats(trainer, "conv.weight");
  const float kept = batch.x[5];
  batch.x[5] = NAN;
  const Result<double> bad = trainer.step(batch.inputs, batch.targets);
  EXPECT_EQ(bad.status().code(), Code::invalid_argument);
  EXPECT_EQ(floats(trainer, "conv.weight"), before);
  batch.x[5] = kept;
  EXPECT_EQ(losses(trainer, batch, 4), losses(other, batch, 4));
}

TEST_F(VulkanTrain, AutomaticTrainsWhereItIsFaster) {
  const Batch batch;
  Trainer trainer = make(network(), classify(sgd(0.05, 0.9)), Device::automatic);
  Trainer here = make(network(), classify(sgd(0.05, 0.9)), Device::cpu);
  const std::vector<double> got = losses(trainer, batch, 4), expected = losses(here, batch, 4);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-3 * std::abs(expected[i])) << i;
  EXPECT_NE(trainer.session().report().find("measured"), std::string::npos);
  const std::vector<float> a = floats(trainer, "conv.weight"), b = floats(here, "conv.weight");
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-3) << i;
  const Model saved = must(trainer.model());
  EXPECT_EQ(make(saved, classify(sgd(0.05, 0.9)), Device::cpu).updates(), 4);
}

}  // namespace
}  // namespace hg::test
