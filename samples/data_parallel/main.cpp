// SPDX-License-Identifier: Apache-2.0
// Several processes train one network over MPI: each uses its own samples, and gradients are summed
// during the backward pass. Run with `mpirun -n 2 data_parallel`.
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"

namespace {

hg::Result<hg::Model> network() {  // the seeds make the weights equal in every process
  hg::Graph g;
  const hg::Value x = g.input("x", hg::f32, {"n", 2});
  const auto layer = [&](const hg::Value& in, const std::string& name, int64_t from, int64_t to) {
    const auto start = hg::init::kaiming_uniform(static_cast<uint64_t>(to));
    const hg::Value w = g.parameter(name + ".weight", hg::f32, {to, from}, start);
    return g.call("linear", {in, w, g.parameter(name + ".bias", hg::f32, {to})});
  };
  g.output("y", layer(tanh(layer(tanh(layer(x, "a", 2, 32)), "b", 32, 24)), "c", 24, 1));
  return hg::Model::from_graph(std::move(g));
}

hg::AllReduce over_mpi(int ranks, std::vector<MPI_Request>& pending) {
  const auto begin = [&](std::string_view, const hg::Tensor& data) {
    MPI_Iallreduce(MPI_IN_PLACE, data.data, static_cast<int>(data.count()), MPI_FLOAT, MPI_SUM,
                   MPI_COMM_WORLD, &pending.emplace_back());
    return hg::Status();
  };
  const auto wait = [&] {
    MPI_Waitall(static_cast<int>(pending.size()), pending.data(), MPI_STATUSES_IGNORE);
    pending.clear();
    return hg::Status();
  };
  return {.ranks = ranks, .begin = begin, .wait = wait};
}

hg::Status train(int rank, int ranks) {
  constexpr int64_t kAll = 240, kSteps = 400;  // samples over all processes, and steps
  const int64_t rows = kAll / ranks;
  std::vector<float> x, y;  // z = sin 2a cos 3b
  for (int64_t i = rank * rows; i < (rank + 1) * rows; ++i) {
    const float a = static_cast<float>(i % 16) / 8 - 1, b = static_cast<float>(i / 16) / 7.5f - 1;
    x.insert(x.end(), {a, b});
    y.push_back(std::sin(2 * a) * std::cos(3 * b));
  }
  std::vector<MPI_Request> pending;
  hg::TrainOptions options;  // the loss is mse
  options.optimizer = hg::adam(0.01);
  options.all_reduce = over_mpi(ranks, pending);
  options.session.threads = 1;
  HG_TRY_ASSIGN(const hg::Model model, network());
  HG_TRY_ASSIGN(hg::Trainer trainer, hg::Trainer::create(model, options));
  const hg::ConstTensor inputs[] = {hg::view(x, {rows, 2})}, targets[] = {hg::view(y, {rows, 1})};
  for (int64_t step = 1; step <= kSteps; ++step) {
    HG_TRY_ASSIGN(const double loss, trainer.step(inputs, targets));  // over all samples
    if (rank == 0 && step % 100 == 0)
      std::printf("step %lld  loss %.4f\n", static_cast<long long>(step), loss);
  }
  return rank == 0 ? trainer.save("data_parallel.hgm") : hg::Status();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const hg::Status status = train(rank, ranks);
  if (!status.ok())
    std::fprintf(stderr, "rank %d: %s\n", rank, std::string(status.message()).c_str());
  if (!status.ok()) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Finalize();
  return 0;
}
