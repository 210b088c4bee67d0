// SPDX-License-Identifier: Apache-2.0
// Times single ops at shapes of real models, through a session with one thread.
#include <benchmark/benchmark.h>

#include <vector>

#include "hg/hg.h"

namespace {

using namespace hg;

Value random_parameter(Graph& g, const char* name, const Sizes& shape) {
  return g.parameter(name, f32, shape, init::uniform(-1, 1, 7));
}

void run_graph(benchmark::State& state, Graph graph, const Sizes& input) {
  Result<Model> model = Model::from_graph(std::move(graph));
  if (!model.ok()) return state.SkipWithError(std::string(model.status().message()).c_str());
  Options options;
  options.threads = 1;
  Result<Session> session = Session::create(*model, options);
  if (!session.ok()) return state.SkipWithError(std::string(session.status().message()).c_str());
  std::vector<float> x(static_cast<size_t>(input.count()), 0.5f);
  const Status set = session->set_input(0, view(x, input));
  if (!set.ok()) return state.SkipWithError(std::string(set.message()).c_str());
  for (auto _ : state) {
    const Status ran = session->run();
    if (!ran.ok()) return state.SkipWithError(std::string(ran.message()).c_str());
  }
  state.counters["flops"] =
      benchmark::Counter(session->flops(), benchmark::Counter::kIsIterationInvariantRate);
}

void linear(benchmark::State& state) {  // rows, in, out
  const Sizes x = {state.range(0), state.range(1)};
  Graph g;
  const Value w = random_parameter(g, "w", {state.range(2), state.range(1)});
  const Value b = random_parameter(g, "b", {state.range(2)});
  g.output("y", hg::linear(g.input("x", f32, to_shape(x)), w, b));
  run_graph(state, std::move(g), x);
}
BENCHMARK(linear)
    ->Args({1, 2048, 1000})
    ->Args({1, 4096, 4096})
    ->Args({32, 256, 128})
    ->Args({128, 384, 1536})
    ->Args({197, 768, 3072})
    ->Args({1024, 1024, 1024});

void conv(benchmark::State& state) {  // c, size, o, kernel, stride, groups
  const int64_t c = state.range(0), size = state.range(1), kernel = state.range(3);
  const Sizes x = {1, c, size, size};
  Graph g;
  const Value w = random_parameter(g, "w", {state.range(2), c / state.range(5), kernel, kernel});
  const ConvOptions options = {
      .stride = {state.range(4)}, .padding = {kernel / 2}, .groups = state.range(5)};
  g.output("y", hg::conv(g.input("x", f32, to_shape(x)), w, {}, options));
  run_graph(state, std::move(g), x);
}
BENCHMARK(conv)
    ->Args({3, 224, 64, 7, 2, 1})
    ->Args({64, 56, 64, 3, 1, 1})
    ->Args({64, 56, 128, 3, 2, 1})
    ->Args({256, 14, 256, 3, 1, 1})
    ->Args({512, 7, 512, 3, 1, 1})
    ->Args({64, 56, 256, 1, 1, 1})
    ->Args({16, 112, 96, 1, 1, 1})
    ->Args({96, 14, 576, 1, 1, 1})
    ->Args({160, 7, 960, 1, 1, 1})
    ->Args({960, 7, 160, 1, 1, 1})
    ->Args({144, 56, 144, 3, 1, 144})
    ->Args({144, 56, 144, 3, 2, 144})
    ->Args({960, 7, 960, 3, 1, 960});

}  // namespace
