// SPDX-License-Identifier: Apache-2.0
// Times the kernels of each family at shapes of real models, through a session, against the
// machine's peaks. `of_roof` is the time that the arithmetic or the memory traffic would take at
// the measured peaks, whichever is longer, divided by the measured time. Data in a cache moves
// faster than the memory peak, so the value may exceed 1.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "hg/hg.h"
#include "tools/inputs.h"
#include "tools/machine_peak.h"

namespace {

using namespace hg;
using Ints = std::vector<Dim>;

// Builds a case into an empty graph. All inputs get random numbers.
struct Nodes {
  Graph& g;
  int count = 0;
  Value x(const Sizes& shape, DType dtype = f32) {
    return g.input(str_cat("x", count++), dtype, to_shape(shape));
  }
  Value weight(const Sizes& shape) {
    return g.parameter(str_cat("w", count++), f32, shape, init::uniform(-1, 1, 7));
  }
  Value call(std::string_view op, std::vector<Value> inputs, NamedAttrs attrs = {}) {
    return g.calls(op, inputs, attrs)[0];
  }
};

struct Case {
  const char* name;
  Value (*build)(Nodes& n);
  const char* kernel = nullptr;  // "svd=jacobi": a row for this kernel; null: the selected kernel
};

Value linear(Nodes& n, int64_t rows, int64_t in, int64_t out) {
  return n.call("linear", {n.x({rows, in}), n.weight({out, in}), n.weight({out})});
}
Value conv(Nodes& n, int64_t c, int64_t size, int64_t o, int64_t kernel, int64_t stride,
           int64_t groups) {
  return n.call("conv", {n.x({1, c, size, size}), n.weight({o, c / groups, kernel, kernel})},
                {{"stride", Ints{stride}}, {"padding", Ints{kernel / 2}}, {"groups", groups}});
}
// f64 matrices. Their diagonals make them definite and keep them away from singularity.
Value decomposed(Nodes& n, std::string_view op, int64_t size, int64_t batch = 1) {
  const Value one = n.call("eye", {}, {{"n", size}, {"m", size}, {"dtype", f64}});
  const Value x = n.x({batch, size, size}, f64);
  const Value a = n.call("add", {x, n.call("mul", {one, n.g.scalar(double(size), f64)})});
  if (op != "solve") return n.call(op, {a});
  return n.call(op, {a, n.x({batch, size, size}, f64)});
}
Value product(Nodes& n, DType dtype, int64_t size) {
  return n.call("matmul", {n.x({size, size}, dtype), n.x({size, size}, dtype)});
}

// The same with LAPACK, if the build has it, and with the library's own loops.
#define HG_DECOMPOSED(op, loops, size)                                                    \
  {"linalg/" #op "_" #size, [](Nodes& n) { return decomposed(n, #op, size); }}, {         \
    "linalg/" #op "_" #size "=" loops, [](Nodes& n) { return decomposed(n, #op, size); }, \
        #op "=" loops                                                                     \
  }

constexpr Case kCases[] = {
    {"matmul/linear_1x2048x1000", [](Nodes& n) { return linear(n, 1, 2048, 1000); }},
    {"matmul/linear_1x4096x4096", [](Nodes& n) { return linear(n, 1, 4096, 4096); }},
    {"matmul/linear_32x256x128", [](Nodes& n) { return linear(n, 32, 256, 128); }},
    {"matmul/linear_128x384x1536", [](Nodes& n) { return linear(n, 128, 384, 1536); }},
    {"matmul/linear_197x768x3072", [](Nodes& n) { return linear(n, 197, 768, 3072); }},
    {"matmul/linear_1024x1024x1024", [](Nodes& n) { return linear(n, 1024, 1024, 1024); }},
    {"matmul/batched_12x128x64x128",
     [](Nodes& n) {
       return n.call("matmul", {n.x({12, 128, 64}), n.x({12, 64, 128})});
     }},
    {"matmul/f64_256", [](Nodes& n) { return product(n, f64, 256); }},
    {"matmul/f64_256=gemm_double", [](Nodes& n) { return product(n, f64, 256); },
     "matmul=gemm_double"},
    {"matmul/f64_1024", [](Nodes& n) { return product(n, f64, 1024); }},
    {"matmul/f64_1024=gemm_double", [](Nodes& n) { return product(n, f64, 1024); },
     "matmul=gemm_double"},
    {"matmul/f32_1024", [](Nodes& n) { return product(n, f32, 1024); }},
    {"matmul/f32_1024=openblas", [](Nodes& n) { return product(n, f32, 1024); }, "matmul=openblas"},
    {"conv/first_7x7_3x224x64", [](Nodes& n) { return conv(n, 3, 224, 64, 7, 2, 1); }},
    {"conv/first_3x3_3x224x64", [](Nodes& n) { return conv(n, 3, 224, 64, 3, 2, 1); }},
    {"conv/3x3_64x56x64", [](Nodes& n) { return conv(n, 64, 56, 64, 3, 1, 1); }},
    {"conv/3x3_step_64x56x128", [](Nodes& n) { return conv(n, 64, 56, 128, 3, 2, 1); }},
    {"conv/3x3_256x14x256", [](Nodes& n) { return conv(n, 256, 14, 256, 3, 1, 1); }},
    {"conv/3x3_512x7x512", [](Nodes& n) { return conv(n, 512, 7, 512, 3, 1, 1); }},
    {"conv/1x1_64x56x256", [](Nodes& n) { return conv(n, 64, 56, 256, 1, 1, 1); }},
    {"conv/1x1_16x112x96", [](Nodes& n) { return conv(n, 16, 112, 96, 1, 1, 1); }},
    {"conv/1x1_96x14x576", [](Nodes& n) { return conv(n, 96, 14, 576, 1, 1, 1); }},
    {"conv/1x1_160x7x960", [](Nodes& n) { return conv(n, 160, 7, 960, 1, 1, 1); }},
    {"conv/1x1_960x7x160", [](Nodes& n) { return conv(n, 960, 7, 160, 1, 1, 1); }},
    {"conv/depthwise_3x3_144x56", [](Nodes& n) { return conv(n, 144, 56, 144, 3, 1, 144); }},
    {"conv/depthwise_3x3_step_96x112", [](Nodes& n) { return conv(n, 96, 112, 96, 3, 2, 96); }},
    {"conv/depthwise_5x5_672x14", [](Nodes& n) { return conv(n, 672, 14, 672, 5, 1, 672); }},
    {"conv/depthwise_5x5_960x7", [](Nodes& n) { return conv(n, 960, 7, 960, 5, 1, 960); }},
    {"conv/transposed_4x4_step_64x32x32",
     [](Nodes& n) {
       return n.call("conv", {n.x({1, 64, 32, 32}), n.weight({64, 32, 4, 4})},
                     {{"stride", Ints{2}}, {"padding", Ints{1}}, {"transposed", true}});
     }},
    {"attention/12x197x64",
     [](Nodes& n) {
       return n.call("attention",
                     {n.x({1, 12, 197, 64}), n.x({1, 12, 197, 64}), n.x({1, 12, 197, 64})});
     }},
    {"attention/causal_12x128x64",
     [](Nodes& n) {
       return n.call("attention",
                     {n.x({1, 12, 128, 64}), n.x({1, 12, 128, 64}), n.x({1, 12, 128, 64})},
                     {{"causal", true}});
     }},
    {"norm/layer_norm_128x768",
     [](Nodes& n) {
       return n.call("layer_norm", {n.x({128, 768}), n.weight({768}), n.weight({768})},
                     {{"normalized_shape", Ints{768}}});
     }},
    {"norm/rms_norm_128x768",
     [](Nodes& n) {
       return n.call("rms_norm", {n.x({128, 768}), n.weight({768})},
                     {{"normalized_shape", Ints{768}}});
     }},
    {"norm/group_norm_256x32x32",
     [](Nodes& n) {
       return n.call("group_norm", {n.x({1, 256, 32, 32}), n.weight({256}), n.weight({256})},
                     {{"groups", 32}});
     }},
    {"norm/softmax_64x1000",
     [](Nodes& n) {
       return n.call("softmax", {n.x({64, 1000})});
     }},
    {"pool/max_3x3_step_64x112",
     [](Nodes& n) {
       return n.call("max_pool", {n.x({1, 64, 112, 112})},
                     {{"kernel_size", Ints{3}}, {"stride", Ints{2}}, {"padding", Ints{1}}});
     }},
    {"pool/avg_2x2_64x56",
     [](Nodes& n) {
       return n.call("avg_pool", {n.x({1, 64, 56, 56})}, {{"kernel_size", Ints{2}}});
     }},
    {"pool/means_960x7",
     [](Nodes& n) {
       return n.call("adaptive_avg_pool", {n.x({1, 960, 7, 7})}, {{"output_size", Ints{1}}});
     }},
    {"pointwise/add_10k",
     [](Nodes& n) {
       return n.call("add", {n.x({10000}), n.x({10000})});
     }},
    {"pointwise/add_broadcast_128x3072",
     [](Nodes& n) {
       return n.call("add", {n.x({128, 3072}), n.x({3072})});
     }},
    {"pointwise/gelu_128x3072",
     [](Nodes& n) {
       return n.call("gelu", {n.x({128, 3072})});
     }},
    {"pointwise/exp_1m", [](Nodes& n) { return n.call("exp", {n.x({1000000})}); }},
    {"pointwise/program_128x3072",
     [](Nodes& n) {
       const Value x = n.x({128, 3072}), y = n.x({128, 3072});
       return n.call("mul", {n.call("sigmoid", {n.call("add", {x, y})}), n.call("sub", {x, y})});
     }},
    {"reduce/sum_last_1000x1000",
     [](Nodes& n) {
       return n.call("sum", {n.x({1000, 1000})}, {{"dim", Ints{-1}}});
     }},
    {"reduce/sum_first_1000x1000",
     [](Nodes& n) {
       return n.call("sum", {n.x({1000, 1000})}, {{"dim", Ints{0}}});
     }},
    {"index/embedding_128x768",
     [](Nodes& n) {
       return n.call("embedding", {n.weight({1000, 768}), n.x({128}, i64)});
     }},
    {"index/permute_12x197x64",
     [](Nodes& n) {
       const Value y = n.call("permute", {n.x({1, 12, 197, 64})}, {{"dims", Ints{0, 2, 1, 3}}});
       return n.call("contiguous", {y});
     }},
    {"sort/sort_1000x100",
     [](Nodes& n) {
       return n.call("sort", {n.x({1000, 100})});
     }},
    {"sort/topk_10_of_100k",
     [](Nodes& n) {
       return n.call("topk", {n.x({100000})}, {{"k", 10}});
     }},
    HG_DECOMPOSED(solve, "lu", 64),
    HG_DECOMPOSED(solve, "lu", 256),
    HG_DECOMPOSED(solve, "lu", 1024),
    HG_DECOMPOSED(cholesky, "loop", 64),
    HG_DECOMPOSED(cholesky, "loop", 256),
    HG_DECOMPOSED(cholesky, "loop", 1024),
    HG_DECOMPOSED(qr, "householder", 64),
    HG_DECOMPOSED(qr, "householder", 256),
    HG_DECOMPOSED(qr, "householder", 1024),
    HG_DECOMPOSED(eigh, "jacobi", 64),
    HG_DECOMPOSED(eigh, "jacobi", 256),
    HG_DECOMPOSED(eigh, "jacobi", 1024),
    HG_DECOMPOSED(svd, "jacobi", 64),
    HG_DECOMPOSED(svd, "jacobi", 256),
    HG_DECOMPOSED(svd, "jacobi", 1024),
    HG_DECOMPOSED(lu, "loop", 64),
    HG_DECOMPOSED(lu, "loop", 256),
    HG_DECOMPOSED(lu, "loop", 1024),
    HG_DECOMPOSED(det, "lu", 64),
    HG_DECOMPOSED(det, "lu", 256),
    HG_DECOMPOSED(det, "lu", 1024),
    HG_DECOMPOSED(matrix_exp, "taylor", 64),
    HG_DECOMPOSED(matrix_exp, "taylor", 256),
    HG_DECOMPOSED(matrix_exp, "taylor", 1024),
    {"rnn/lstm_scan_50x1x128",
     [](Nodes& n) {
       return n.call("lstm_scan", {n.x({50, 1, 512}), n.x({1, 128}), n.x({1, 128}),
                                   n.weight({512, 128}), n.weight({512})});
     }},
};

int threads() {
  const char* const given = std::getenv("HG_THREADS");
  return given != nullptr ? std::max(1, std::atoi(given)) : 1;
}

const tools::MachinePeak& peak() {
  static const tools::MachinePeak measured = [] {
    const Result<tools::MachinePeak> peak = tools::measure_peak(threads());
    return peak.ok() ? *peak : tools::MachinePeak{1, 1};
  }();
  return measured;
}

void run(benchmark::State& state, const Case& row) {
  Graph graph;
  Nodes nodes{graph};
  graph.output("y", row.build(nodes));
  const auto fail = [&](std::string_view why) { state.SkipWithError(std::string(why).c_str()); };
  if (!graph.status().ok()) return fail(graph.status().message());
  const Result<Model> model = Model::from_graph(std::move(graph));
  if (!model.ok()) return fail(model.status().message());
  tools::InputArrays arrays;
  const tools::RandomInputs random{.fills_missing = true};
  const tools::Outcome made = tools::open_inputs(model->graph(), {}, &random, arrays);
  if (!made.ok()) return fail(made.message);
  using Clock = std::chrono::steady_clock;
  double flops = 0, bytes = 0, seconds = 0;
  // A profiled run counts the work. Timed runs are not profiled.
  for (const bool profile : {true, false}) {
    SessionOptions options;
    options.threads = threads();
    options.profile = profile;
    if (row.kernel != nullptr) options.kernels = {row.kernel};
    Result<Session> session = Session::create(*model, options);
    if (!session.ok()) return fail(session.status().message());
    if (const tools::Outcome set = tools::set_inputs(*session, arrays); !set.ok())
      return fail(set.message);
    if (const Status ran = session->run(); !ran.ok()) return fail(ran.message());
    for (const ProfileRow& node : session->profile()) {
      flops += node.flops;
      bytes += static_cast<double>(node.bytes);
    }
    if (profile) continue;
    const auto begin = Clock::now();
    for (auto _ : state)
      if (const Status ran = session->run(); !ran.ok()) return fail(ran.message());
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  using benchmark::Counter;
  const double roof = std::max(flops * 1e-9 / peak().gflops, bytes * 1e-9 / peak().gbytes);
  state.counters["flops"] = Counter(flops, Counter::kIsIterationInvariantRate);
  state.counters["bytes"] = Counter(bytes, Counter::kIsIterationInvariantRate);
  state.counters["of_roof"] = roof * static_cast<double>(state.iterations()) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const Case& row : kCases)
    benchmark::RegisterBenchmark(row.name, [&row](benchmark::State& state) {
      run(state, row);
    })->UseRealTime();
  benchmark::RunSpecifiedBenchmarks();
}
