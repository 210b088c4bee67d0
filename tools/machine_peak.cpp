// SPDX-License-Identifier: Apache-2.0
#include "tools/machine_peak.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "hg/hg.h"

namespace hg::tools {
namespace {

// The minimum time of `repeat` runs, in seconds.
Result<double> least_seconds(Graph graph, std::span<const Tensor> inputs, int threads, int repeat) {
  HG_TRY_ASSIGN(Model model, Model::from_graph(std::move(graph)));
  SessionOptions options;
  options.threads = threads;
  HG_TRY_ASSIGN(Session session, Session::create(model, std::move(options)));
  for (size_t i = 0; i < inputs.size(); ++i)
    HG_TRY(session.set_input(static_cast<int>(i), inputs[i]));
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repeat; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    HG_TRY(session.run());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (i > 0) least = std::min(least, seconds.count());
  }
  return least;
}

}  // namespace

Result<MachinePeak> measure_peak(int threads) {
  constexpr int64_t kSide = 384, kLong = int64_t{16} << 20;
  MachinePeak peak;
  {
    Graph g;
    HG_TRY_ASSIGN(TensorData x, TensorData::allocate(f32, {kSide, kSide}));
    std::fill_n(x.tensor.as<float>(), kSide * kSide, 0.5f);
    const Value w = g.parameter("w", f32, {kSide, kSide}, init::uniform(-1, 1, 7));
    g.output("y", linear(g.input("x", f32, {kSide, kSide}), w));
    HG_TRY_ASSIGN(const double seconds, least_seconds(std::move(g), {&x.tensor, 1}, threads, 20));
    peak.gflops = 2.0 * kSide * kSide * kSide / seconds * 1e-9;
  }
  Graph g;
  HG_TRY_ASSIGN(TensorData x, TensorData::allocate(f32, {kLong}));
  std::fill_n(x.tensor.as<float>(), kLong, 0.5f);
  g.output("y", relu(g.input("x", f32, {kLong})));
  HG_TRY_ASSIGN(const double seconds, least_seconds(std::move(g), {&x.tensor, 1}, threads, 5));
  peak.gbytes = 2.0 * 4 * kLong / seconds * 1e-9;
  return peak;
}

}  // namespace hg::tools
