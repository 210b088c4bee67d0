// SPDX-License-Identifier: Apache-2.0
// Ways through several parts of the library, as python/tests/test_walks.py has them for Python.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hg/expression.h"
#include "hg/hg.h"
#include "hg/named.h"
#include "hg/quantize.h"
#include "hg/train.h"
#include "hg/var.h"

namespace hg {
namespace {

std::vector<float> waves(int64_t count, float step) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::sin(step * static_cast<float>(i));
  return out;
}

std::vector<float> run(const Model& model, const ConstTensor& x) {
  Result<Session> session = Session::create(model);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  EXPECT_TRUE(session->set_input(0, x).ok());
  const Status ran = session->run();
  EXPECT_TRUE(ran.ok()) << ran.message();
  const Result<Tensor> y = session->output(0);
  if (!y.ok()) return {};
  return std::vector<float>(y->as<float>(), y->as<float>() + y->count());
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, float most) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], most) << i;
}

// Loss of the first and of the last step.
std::pair<double, double> train(Trainer& trainer, const ConstTensor& x, const ConstTensor& target,
                                int steps) {
  double first = 0, last = 0;
  for (int i = 0; i < steps; ++i) {
    const Result<double> loss = trainer.step({&x, 1}, {&target, 1});
    EXPECT_TRUE(loss.ok()) << loss.status().message();
    if (!loss.ok()) return {};
    (i == 0 ? first : last) = *loss;
  }
  return {first, last};
}

TEST(Walks, ANamedModelIsTrainedSavedRunAndQuantized) {
  const nn::Group model(
      {nn::Input("x", {"n", 32}), nn::Linear(64), nn::Tanh(), nn::Linear(1).output("y")});
  Result<nn::Program> program = nn::compile(model);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const Result<NamedArrays> start = program->initial_parameters(1);
  ASSERT_TRUE(start.ok());
  const Result<Model> untrained = program->model(*start);
  ASSERT_TRUE(untrained.ok()) << untrained.status().message();
  Result<Trainer> trainer = Trainer::create(*untrained, {.optimizer = adamw(1e-2)});
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  const std::vector<float> x = waves(16 * 32, 0.7f), target = waves(16, 1.3f);
  const auto [first, last] =
      train(*trainer, view(x.data(), f32, {16, 32}), view(target.data(), f32, {16, 1}), 100);
  EXPECT_LT(last, first / 4);
  const std::string path = testing::TempDir() + "walk_named.hgm";
  ASSERT_TRUE(trainer->save(path).ok());
  const Result<Model> saved = Model::load(path);
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  const std::vector<float> y = run(*saved, view(x.data(), f32, {16, 32}));
  double error = 0;
  for (size_t i = 0; i < y.size(); ++i) error += std::pow(y[i] - target[i], 2) / 16;
  EXPECT_LT(error, first / 4);
  const Result<Quantized> small = quantize(*saved, {.least = 1});
  ASSERT_TRUE(small.ok()) << small.status().message();
  expect_near(run(small->model, view(x.data(), f32, {16, 32})), y, 0.05f);
}

TEST(Walks, AnExpressionWithOpenSizesAndAKernelBecomesAModelWithItsGradient) {
  const Lazy lazy;
  const Var x = Var::variable("x", {f32, {"n", 3}}, lazy);
  Result<TextKernel> kernel = hg::kernel("swish", "x / (1 + exp(-gain*x))", {});
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const Result<std::vector<Var>> y = kernel->build({x, 2.0});
  ASSERT_TRUE(y.ok()) << y.status().message();
  const Var dx = grad((*y)[0], x);
  const std::pair<std::string, Var> outputs[] = {{"dx", dx}, {"y", (*y)[0]}};
  const Result<Model> model = to_model(outputs);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const std::string path = testing::TempDir() + "walk_lazy.hgm";
  ASSERT_TRUE(model->save(path).ok());
  const Result<Model> saved = Model::load(path);
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  for (const int64_t rows : {2, 5}) {
    const std::vector<float> data = waves(rows * 3, 0.9f);
    const std::vector<float> got = run(*saved, view(data.data(), f32, {rows, 3}));
    std::vector<float> want;
    for (const float v : data) {
      const double s = 1 / (1 + std::exp(-2.0 * v));
      want.push_back(static_cast<float>(s + v * 2 * s * (1 - s)));
    }
    expect_near(got, want, 1e-5f);
  }
}

// y = x + gain * sin(x)
Status infer_wave(InferContext& c) {
  c.out(0) = c.in(0);
  return {};
}
Status grad_wave(GradContext& c) {
  c.set_grad(0, c.dout(0) * (c.attrs().real("gain") * cos(c.in(0)) + 1.0));
  return {};
}
Status prepare_wave(PrepareContext& c) {
  c.make_state(static_cast<float>(c.attrs().real("gain")));
  return {};
}
void run_wave(const RunContext& c) noexcept {
  const float gain = c.state<float>();
  for (int64_t i = 0; i < c.out(0).count(); ++i)
    c.out(0).as<float>()[i] = c.in(0).as<float>()[i] + gain * std::sin(c.in(0).as<float>()[i]);
}
constexpr OpDef kWave = {
    .signature = "walk.wave(x, gain: float) -> y", .infer = infer_wave, .grad = grad_wave};
constexpr KernelDef kWaveKernel = {
    .op = "walk.wave", .name = "plain", .prepare = prepare_wave, .run = run_wave};

TEST(Walks, AnOwnOpIsTrainedSavedAndProfiled) {
  Registry registry;
  ASSERT_TRUE(registry.add(kWave).ok());
  ASSERT_TRUE(registry.add(kWaveKernel).ok());
  Graph g(registry);
  const Value x = g.input("x", f32, {"n", 4});
  const Value hidden = linear(x, g.parameter("w", f32, {8, 4}, init::uniform(-1, 1, 1)));
  const Value waved = g.call("walk.wave", {hidden}, {{"gain", 0.25}});
  g.output("y", linear(waved, g.parameter("v", f32, {1, 8}, init::uniform(-1, 1, 2))));
  const Result<Model> model = Model::from_graph(std::move(g));
  ASSERT_TRUE(model.ok()) << model.status().message();
  TrainOptions options = {.optimizer = adamw(2e-2)};
  Result<Trainer> trainer = Trainer::create(*model, options);
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  const std::vector<float> data = waves(16 * 4, 0.7f);
  std::vector<float> target;
  for (size_t row = 0; row < 16; ++row) target.push_back(data[row * 4] - data[row * 4 + 1]);
  const ConstTensor inputs = view(data.data(), f32, {16, 4});
  const auto [first, last] = train(*trainer, inputs, view(target.data(), f32, {16, 1}), 200);
  EXPECT_LT(last, first / 4);
  const std::string path = testing::TempDir() + "walk_own.hgm";
  ASSERT_TRUE(trainer->save(path).ok());
  EXPECT_FALSE(Model::load(path).ok());  // the op is not built in
  const Result<Model> saved = Model::load(path, registry);
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  const auto weight = [&](std::string_view name) -> const float* {
    for (const State& state : saved->graph().states())
      if (state.name == name) return state.data.tensor.as<float>();
    return nullptr;
  };
  std::vector<float> want(16);
  for (int row = 0; row < 16; ++row)
    for (int h = 0; h < 8; ++h) {
      double sum = 0;
      for (int k = 0; k < 4; ++k) sum += data[row * 4 + k] * weight("w")[h * 4 + k];
      want[row] += static_cast<float>((sum + 0.25 * std::sin(sum)) * weight("v")[h]);
    }
  expect_near(run(*saved, inputs), want, 1e-4f);
  Result<Session> session = Session::create(*saved, {.profile = true});
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->set_input(0, inputs).ok() && session->run().ok());
  std::vector<std::string> ops;
  for (const ProfileRow& row : session->profile()) ops.push_back(row.op);
  EXPECT_NE(std::find(ops.begin(), ops.end(), "walk.wave"), ops.end());
}

}  // namespace
}  // namespace hg
