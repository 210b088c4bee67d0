// SPDX-License-Identifier: Apache-2.0
// Finds 128 weights from examples: the smallest program that trains. It needs no file and no
// Python.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"

namespace {

constexpr int64_t kSize = 128, kSamples = 1024, kSteps = 20000;

// Numbers in [-1, 1), the same on every machine.
std::vector<float> noise(int64_t count, uint64_t state) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    state *= 0xf1357aea2e62a9c5u;
    values.push_back(static_cast<float>(static_cast<int64_t>(state >> 32)) / 2147483648.0f - 1);
  }
  return values;
}

hg::Status learn() {
  const std::vector<float> reference = noise(kSize, 7);
  const std::vector<float> x = noise(kSamples * kSize, 1);
  std::vector<float> y;
  for (int64_t i = 0; i < kSamples; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < kSize; ++k) sum += double{x[i * kSize + k]} * reference[k];
    y.push_back(static_cast<float>(sum));
  }

  hg::Graph graph;
  const hg::Value input = graph.input("x", hg::f32, {"n", kSize});
  const hg::Value w = graph.parameter("w", hg::f32, {1, kSize});  // zeros
  graph.output("y", graph.call("linear", {input, w}));
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));

  hg::TrainOptions options;  // the loss is mse
  options.optimizer = hg::sgd(0.1);
  options.session.threads = 1;
  HG_TRY_ASSIGN(hg::Trainer trainer, hg::Trainer::create(model, options));
  constexpr int64_t kBatch = 128, kBatches = kSamples / kBatch;
  const auto show = [](const hg::Progress& p) {
    if (p.is_epoch && p.step % 4000 == 0)
      std::printf("step %5lld  loss %.3g\n", static_cast<long long>(p.step), p.loss);
    return true;
  };
  HG_TRY(trainer.fit({{hg::view(x, {kSamples, kSize})}, {hg::view(y, {kSamples, 1})}},
                     {.epochs = kSteps / kBatches, .batch = kBatch, .on_progress = show}));

  HG_TRY_ASSIGN(const hg::Tensor found, trainer.session().value("w"));
  double error = 0;
  for (int64_t k = 0; k < kSize; ++k)
    error = std::fmax(error, std::fabs(found.as<float>()[k] - reference[k]));
  std::printf("after %lld steps the largest error of %lld weights is %.1g: %s\n",
              static_cast<long long>(kSteps), static_cast<long long>(kSize), error,
              error < 1e-5 ? "converged" : "not converged");
  return {};
}

}  // namespace

int main() {
  const hg::Status status = learn();
  if (!status.ok())
    std::fprintf(stderr, "linear_regression: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
