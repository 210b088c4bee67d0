// SPDX-License-Identifier: Apache-2.0
// Sessions on a Vulkan device: what stays on it, what is counted, and failures as values.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <thread>

#include "lib/device/backend.h"
#include "lib/run/self_test.h"
#include "tests/support/must.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace hg::test {
namespace {

TEST_F(Vulkan, AChainOfModelsUploadsOnceAndDownloadsOnce) {
  SessionOptions kept = options();
  kept.device_outputs = true;
  Session first = must(session(layer(), kept)), second = must(session(layer(), kept));
  const std::vector<float> x = numbers(32);
  const GpuCounters before = gpu_.counters();
  const DeviceTensor on_device = must(gpu_.upload(view(x, {4, 8})));
  Status status = first.set_input("x", on_device);
  ASSERT_TRUE(status.ok()) << status.message();
  Result<TensorData> y = not_found("");
  for (int round = 0; round < 3; ++round) {
    status = first.run();
    ASSERT_TRUE(status.ok()) << status.message();
    const DeviceTensor middle = must(first.device_output(0));
    ASSERT_TRUE(second.set_input("x", middle).ok());
    status = second.run();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  const DeviceTensor last = must(second.device_output("y"));
  const GpuCounters ran = gpu_.counters();
  y = gpu_.download(last);
  ASSERT_TRUE(y.ok());
  const GpuCounters after = gpu_.counters();
  // The recordings upload their tables of parameters; x is the only tensor that moves.
  EXPECT_EQ(ran.downloads, before.downloads);
  EXPECT_EQ(after.downloads, before.downloads + 1);
  EXPECT_EQ(after.download_bytes - before.download_bytes, 4 * 8 * 4);
  EXPECT_EQ(ran.submits - before.submits - (ran.uploads - before.uploads), 6)
      << "one submit per run";

  SessionOptions on_cpu;
  Result<Session> a = session(layer(), on_cpu), b = session(layer(), on_cpu);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE(a->set_input("x", view(x, {4, 8})).ok() && a->run().ok());
  ASSERT_TRUE(b->set_input("x", *a->output(0)).ok() && b->run().ok());
  for (int i = 0; i < 32; ++i)
    EXPECT_NEAR(y->tensor.as<float>()[i], b->output(0)->as<float>()[i], 1e-5) << i;
}

TEST_F(Vulkan, StatesStayOnTheDevice) {
  Graph g;
  const Value x = g.input("x", f32, {16});
  const Result<TensorData> zeros = TensorData::allocate(f32, {16});
  const Value sum = g.buffer("sum", *zeros);
  const Value next = sum + x;
  g.assign(sum, next);
  g.output("twice", next * 2.0);
  Session s = must(session(g, options()));
  const std::vector<float> values = numbers(16);
  ASSERT_TRUE(s.set_input("x", view(values, {16})).ok());
  must(s.run());
  const GpuCounters before = gpu_.counters();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(s.run().ok());
  const GpuCounters after = gpu_.counters();
  EXPECT_EQ(after.uploads - before.uploads, 4) << "x, once in each run";
  EXPECT_EQ(after.downloads - before.downloads, 4) << "the output";
  const Tensor state = must(s.value("sum"));
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(state.as<float>()[i], 5 * values[i], 1e-5);
    EXPECT_NEAR(s.output(0)->as<float>()[i], 10 * values[i], 1e-5);
  }
  ASSERT_TRUE(s.set_value("sum", view(values, {16})).ok());
  ASSERT_TRUE(s.run().ok());
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(s.output(0)->as<float>()[i], 4 * values[i], 1e-5);
}

// In a file, an empty weight has the same offset as the next weight.
TEST_F(Vulkan, AnEmptyWeightHidesNoOther) {
  Graph g;
  const Value x = g.input("x", f32, {2, 3});
  const Value none = g.parameter("none", f32, {0, 3}), w = g.parameter("w", f32, {3}, init::ones());
  g.output("all", g.call("concat", {none, x}, {{"dim", 0}}));
  g.output("y", x + w);
  const std::vector<std::byte> bytes = must(Model::from_graph(std::move(g))->serialize());
  Session s = must(Session::create(*Model::read(bytes), options()));
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(s.set_input("x", view(numbers, {2, 3})).ok());
  ASSERT_TRUE(s.run().ok());
  const Tensor y = *s.output("y");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y.as<float>()[i], numbers[i] + 1);
}

TEST_F(Vulkan, PrewarmMakesKernelsReady) {
  const Model model = *Model::from_graph(layer());
  SessionOptions o = options();
  o.gpu = {};
  EXPECT_EQ(Session::prewarm(model, o).code(), Code::invalid_argument);
  Gpu fresh = must(Gpu::open({.name = gpu_.info().name}));
  o.gpu = fresh;
  must(Session::prewarm(model, o));
  const int64_t before = fresh.counters().pipelines;
  EXPECT_GT(before, 0);
  Session s = must(session(layer(), o));
  const std::vector<float> x = numbers(32);
  ASSERT_TRUE(s.set_input("x", view(x, {4, 8})).ok() && s.run().ok());
  EXPECT_EQ(fresh.counters().pipelines, before);
}

TEST_F(Vulkan, WhatTheDeviceLacksRunsOnTheCpuAndIsReported) {
  Graph g;
  const Value x = g.input("x", f32, {64});
  g.output("y", g.call("lgamma", {exp(x)}) + 1.0);
  Session s = must(session(g, options()));
  const std::vector<float> values = numbers(64);
  ASSERT_TRUE(s.set_input("x", view(values, {64})).ok());
  must(s.run());
  for (size_t i = 0; i < 64; ++i)
    EXPECT_NEAR(s.output(0)->as<float>()[i], std::lgamma(std::exp(values[i])) + 1, 1e-5);
  EXPECT_NE(s.report().find("runs on the CPU"), std::string::npos) << s.report();
  EXPECT_NE(s.report().find("download"), std::string::npos) << s.report();
}

TEST_F(Vulkan, RecurrencesRunOnTheCpu) {
  Graph g;
  const Value gates = g.input("gates", f32, {9, 2, 8}), h = g.input("h", f32, {2, 8});
  const Value w = g.parameter("w", f32, {8, 8}, init::uniform(-1, 1, 1));
  g.output("y", relu(g.calls("rnn_scan", {gates, h, w, {}}, {})[0]));
  const std::vector<float> xs = numbers(9 * 2 * 8), hs = numbers(16);
  const Both both = must(run_both(g, {view(xs, {9, 2, 8}), view(hs, {2, 8})}));
  EXPECT_NE(both.report.find("rnn_scan"), std::string::npos) << both.report;
  EXPECT_NE(both.report.find("runs on the CPU"), std::string::npos) << both.report;
  EXPECT_EQ(both.cpu, both.device);
}

TEST_F(Vulkan, AWrongIndexFailsTheRun) {
  Graph g;
  const Value x = g.input("x", f32, {4, 3});
  const Value index = g.input("index", i64, {2});
  g.output("y", g.call("index_select", {x, index}, {{"dim", 0}}));
  Session s = must(session(g, options()));
  const std::vector<float> values = numbers(12);
  std::vector<int64_t> rows = {3, 4};
  ASSERT_TRUE(s.set_input("x", view(values, {4, 3})).ok());
  ASSERT_TRUE(s.set_input("index", view(rows, {2})).ok());
  const Status wrong = s.run();
  EXPECT_EQ(wrong.code(), Code::invalid_argument);
  EXPECT_NE(wrong.message().find("out of range"), std::string_view::npos) << wrong.message();
  rows = {3, 0};
  must(s.run());
  EXPECT_EQ(s.output(0)->as<float>()[0], values[9]);
}

// No shader can report the error, so the CPU computes the op.
TEST_F(Vulkan, ANumberThatNoIntegerHasFailsTheRun) {
  for (const bool read : {true, false}) {
    Graph g;
    const Value x = g.input("x", f32, {3});
    const Value whole = g.call("to_integer", {x * 2.0});
    g.output("y", read ? whole : x + 1.0);
    Session s = must(session(g, options()));
    std::vector<float> numbers = {1.5f, -2.25f, 3e9f};
    ASSERT_TRUE(s.set_input("x", view(numbers, {3})).ok());
    ASSERT_TRUE(s.run().ok());
    if (read) {
      EXPECT_EQ(s.output("y")->as<int64_t>()[2], 6000000000);
    }
    numbers[2] = 3e19f;
    const Status status = s.run();
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("too large for i64"), std::string_view::npos)
        << status.message();
  }
}

TEST_F(Vulkan, TwoSessionsOnTwoThreads) {
  const auto work = [&](float offset, bool* same) {
    Result<Session> s = session(layer(), options());
    if (!s.ok()) return;
    std::vector<float> x = numbers(32);
    for (float& value : x) value += offset;
    if (!s->set_input("x", view(x, {4, 8})).ok() || !s->run().ok()) return;
    const Result<Tensor> y = s->output(0);
    const std::vector<float> first(y->as<float>(), y->as<float>() + 32);
    for (int i = 0; i < 20; ++i) {
      if (!s->run().ok()) return;
      for (size_t k = 0; k < 32; ++k)
        if (s->output(0)->as<float>()[k] != first[k]) return;
    }
    *same = true;
  };
  bool same[2] = {false, false};
  std::thread other(work, 0.5f, &same[0]);
  work(-0.5f, &same[1]);
  other.join();
  EXPECT_TRUE(same[0] && same[1]);
}

TEST_F(Vulkan, TheCacheIsTakenBackAndDamageIsIgnored) {
  must(session(layer(), options()));
  std::vector<std::byte> cache = must(gpu_.cache());
  const std::string name = gpu_.info().name;
  EXPECT_TRUE(Gpu::open({.name = name, .cache = cache}).ok());
  cache.back() = static_cast<std::byte>(~static_cast<unsigned>(cache.back()));
  EXPECT_TRUE(Gpu::open({.name = name, .cache = cache}).ok());
  EXPECT_TRUE(Gpu::open({.name = name, .cache = std::span(cache).first(9)}).ok());
  EXPECT_EQ(Gpu::open({.name = "no such device"}).status().code(), Code::not_found);
}

// y = relu(x w) for x: [n, 96], w: [96, 96]: large enough for several threads.
Graph open_layer() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 96});
  g.output("y", relu(matmul(x, g.parameter("w", f32, {96, 96}, init::uniform(-1, 1, 3)))));
  return g;
}

std::vector<float> run_open_layer(Session& session) {
  const std::vector<float> x = numbers(200 * 96);
  EXPECT_TRUE(session.set_input("x", view(x, {200, 96})).ok());
  must(session.run());
  const Tensor y = must(session.output(0));
  return {y.as<float>(), y.as<float>() + y.count()};
}

TEST_F(Vulkan, AutomaticMeasuresAndKeepsTheFaster) {
  SessionOptions cpu;
  Session plain = must(session(open_layer(), cpu));
  const std::vector<float> expected = run_open_layer(plain);

  // If the host's threads are slow, the device computes.
  SessionOptions slow = options();
  slow.device = Device::automatic;
  slow.parallel_for.threads = 2;
  slow.parallel_for.run = [](void*, int64_t count, void (*task)(void*, int64_t), void* arg) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (int64_t i = 0; i < count; ++i) task(arg, i);
  };
  Result<Session> s = session(open_layer(), slow);
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_EQ(s->report().find("measured"), std::string::npos);  // n is not known yet
  const std::vector<float> y = run_open_layer(*s);
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-4) << i;
  EXPECT_EQ(s->report().rfind("on " + gpu_.info().name + ": measured ", 0), 0u) << s->report();
  EXPECT_TRUE(s->gpu());

  // The device and its cache remember measurements.
  const std::vector<std::byte> cache = must(gpu_.cache());
  Gpu again = must(Gpu::open({.name = gpu_.info().name, .cache = cache}));
  slow.gpu = again;
  slow.dims = {{"n", 200}};
  s = session(open_layer(), slow);
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_EQ(s->report().rfind("on " + gpu_.info().name + ": measured ", 0), 0u) << s->report();
  EXPECT_EQ(again.counters().dispatches, 0);
}

TEST_F(Vulkan, AutomaticKeepsWhatTheReportSaysIsFaster) {
  SessionOptions automatic = options();
  automatic.device = Device::automatic;
  const Session s = must(session(layer(), automatic));
  const std::string report = s.report(), measured = ": measured ";
  const size_t times = report.find(measured);
  ASSERT_NE(times, std::string::npos) << report;
  double cpu = 0, gpu = 0;
  ASSERT_EQ(std::sscanf(report.c_str() + times + measured.size(), "%lf ms on the CPU, %lf ms on",
                        &cpu, &gpu),
            2)
      << report;
  if (cpu != gpu) {  // equal within the report's digits
    EXPECT_EQ(static_cast<bool>(s.gpu()), gpu < cpu) << report;
  }
}

TEST_F(Vulkan, AutomaticGoesWhereAnInputLies) {
  SessionOptions automatic = options();
  automatic.device = Device::automatic;
  Session s = must(session(open_layer(), automatic));
  const std::vector<float> x = numbers(3 * 96);
  const DeviceTensor there = must(gpu_.upload(view(x, {3, 96})));
  must(s.set_input("x", there));
  ASSERT_TRUE(s.run().ok());
  EXPECT_TRUE(s.device_output(0).ok());
  EXPECT_NE(s.report().find("an input lies there"), std::string::npos) << s.report();
}

// A chain of layers whose values are all needed at the end.
Graph deep_network() {
  Graph g;
  Value x = g.input("x", f32, {64, 32});
  std::vector<Value> kept;
  for (int i = 0; i < 12; ++i) {
    kept.push_back(x);
    x = tanh(x * 0.9 + 0.1);
  }
  for (int i = 11; i >= 0; --i) x = x * 0.5 + kept[i];
  g.output("y", x);
  return g;
}

TEST_F(Vulkan, AMemoryLimitIsKeptByComputingAgain) {
  const std::vector<float> x = numbers(64 * 32);
  std::vector<float> results[2];
  int64_t arenas[2] = {0, 0};
  for (const bool limited : {false, true}) {
    SessionOptions o = options();
    o.disabled_passes = {"programs"};
    if (limited) o.memory_limit = arenas[0] * 8 / 10;
    Session s = must(session(deep_network(), o));
    ASSERT_TRUE(s.set_input("x", view(x, {64, 32})).ok());
    for (int run = 0; run < 2; ++run) {
      must(s.run());
    }
    for (const ArenaBlock& block : s.arena_blocks())
      arenas[limited] = std::max(arenas[limited], block.offset + block.bytes);
    if (limited) {
      EXPECT_GT(s.memory()->extra_flops, 0);
    }
    const Tensor y = *s.output(0);
    results[limited].assign(y.as<float>(), y.as<float>() + y.count());
  }
  EXPECT_LE(arenas[1], arenas[0] * 8 / 10);
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(Vulkan, EveryKernelHasASelfTest) {
  const Registry& registry = Registry::built_in();
  for (const Op* op : registry.ops()) {
    if (registry.kernels(op->name(), Device::vulkan).empty()) continue;
    EXPECT_FALSE(self_test_cases(*op, f32, registry).empty()) << op->name();
  }
}

// Includes kernels for other devices, with every tile size.
TEST_F(Vulkan, EveryKernelIsRightOnItsCases) {
  const Registry& registry = Registry::built_in();
  for (const Op* op : registry.ops())
    for (const KernelDef* kernel : registry.kernels(op->name(), Device::vulkan)) {
      bool runs = (kernel->name == "cooperative" && !gpu_.info().cooperative_matrix) ||
                  (kernel->name == "dot" && !gpu_.info().integer_dot);
      for (const DType real : {f32, f16}) {
        const DeviceTimes times = must(judge(*kernel, *op, real, options(), registry));
        EXPECT_TRUE(std::isfinite(times.gpu_ms)) << op->name() << "=" << kernel->name;
        runs = runs || times.gpu_ms > 0;
      }
      EXPECT_TRUE(runs) << op->name() << "=" << kernel->name << " takes none of its cases";
    }
}

TEST_F(Vulkan, AKernelThatFailsItsSelfTestIsReplaced) {
  const auto run_layer = [&](const Gpu& gpu, std::string* report) {
    SessionOptions o = options();
    o.gpu = gpu;
    Session s = must(session(layer(), o));
    const std::vector<float> x = numbers(32);
    EXPECT_TRUE(s.set_input("x", view(x, {4, 8})).ok() && s.run().ok());
    *report = s.report();
    const Tensor y = *s.output(0);
    return std::vector<float>(y.as<float>(), y.as<float>() + y.count());
  };
  std::string report;
  const std::vector<float> expected = run_layer(gpu_, &report);
  EXPECT_EQ(report.find("fails its self-test"), std::string::npos) << report;
  Gpu broken = must(Gpu::open({.name = gpu_.info().name}));
  for (const KernelDef* kernel : Registry::built_in().kernels("linear", Device::vulkan))
    backend_of(broken).records().fails_self_test.insert(str_cat(kernel->op, "=", kernel->name));
  std::vector<float> y = run_layer(broken, &report);
  EXPECT_NE(report.find("linear=tiles fails its self-test"), std::string::npos) << report;
  EXPECT_NE(report.find("runs on the CPU"), std::string::npos) << report;
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-5);
  // The cache holds the result of the self-test.
  const std::vector<std::byte> cache = must(broken.cache());
  const Gpu again = must(Gpu::open({.name = gpu_.info().name, .cache = cache}));
  y = run_layer(again, &report);
  EXPECT_NE(report.find("linear=tiles fails its self-test"), std::string::npos) << report;
}

int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident;
}

TEST_F(Vulkan, ManySessionsLeaveNothingBehind) {
  const std::vector<float> x = numbers(32);
  const auto once = [&] {
    Session s = must(session(layer(), options()));
    ASSERT_TRUE(s.set_input("x", view(x, {4, 8})).ok() && s.run().ok());
  };
  for (int i = 0; i < 100; ++i) once();
  const int64_t before = resident_pages();
  for (int i = 0; i < 900; ++i) once();
  EXPECT_LT(resident_pages() - before, 1024) << "pages of 4 KiB";
}

}  // namespace
}  // namespace hg::test
