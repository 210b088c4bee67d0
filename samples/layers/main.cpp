// SPDX-License-Identifier: Apache-2.0
// A network of layers: printed, trained as a graph, and called eagerly with the trained weights.
#include <cstdio>
#include <string>

#include "hg/create.h"
#include "hg/executor.h"
#include "hg/hg.h"
#include "hg/nn.h"

namespace {

constexpr int64_t kSamples = 256;

hg::Status train() {
  namespace nn = hg::nn;
  nn::Sequential net = {nn::Linear(2, 32), nn::Tanh(), nn::Linear(32, 32), nn::Tanh(),
                        nn::Linear(32, 2)};
  HG_TRY(net.initialise(1));
  std::printf("%s\n", net.text().c_str());

  // Points in the plane, and whether they are inside a ring.
  HG_TRY_ASSIGN(hg::Executor ex, hg::Executor::create());
  HG_TRY_ASSIGN(const hg::Array points, hg::randn({kSamples, 2}, 2));
  HG_TRY_ASSIGN(const hg::Array radius, ex.sqrt(ex.sum(ex.mul(points, points), {1})));
  HG_TRY_ASSIGN(const hg::Array is_inside, ex.logical_and(ex.gt(radius, 0.7), ex.lt(radius, 1.5)));
  HG_TRY_ASSIGN(const hg::Array labels, ex.cast(is_inside, hg::i64));

  hg::Graph graph;
  graph.output("scores", net(graph.input("point", hg::f32, {"n", 2})));
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  hg::TrainOptions options;
  options.losses = {{.kind = hg::Loss::Kind::cross_entropy}};
  options.optimizer = hg::adam(1e-2);
  options.session.threads = 1;  // a small network is faster on one thread
  HG_TRY_ASSIGN(hg::Trainer trainer, hg::Trainer::create(model, options));
  HG_TRY(trainer.fit({{points}, {labels}}, {.epochs = 60}));
  HG_TRY_ASSIGN(const hg::Model trained, trainer.model());
  HG_TRY(net.load(trained.graph()));

  net.eval();
  HG_TRY_ASSIGN(const hg::Array answers, ex.argmax(net(ex, points), 1));
  HG_TRY_ASSIGN(const hg::Array right, ex.sum(ex.cast(ex.eq(answers, labels), hg::i64)));
  std::printf("%lld of %lld points are told rightly\n",
              static_cast<long long>(*right.as<int64_t>()), static_cast<long long>(kSamples));
  return {};
}

}  // namespace

int main() {
  const hg::Status status = train();
  if (!status.ok()) std::fprintf(stderr, "layers: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
