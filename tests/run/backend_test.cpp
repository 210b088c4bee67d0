// SPDX-License-Identifier: Apache-2.0
// A device of the application's own (hg/backend.h): results as on the CPU, counted transfers, calls
// that it does not have, and errors that it returns.
#include "lib/device/backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "hg/create.h"
#include "hg/executor.h"
#include "hg/hg.h"
#include "hg/ops.h"
#include "hg/session_pool.h"
#include "hg/train.h"
#include "samples/backend/counting_backend.h"
#include "tests/run/backend_on.h"
#include "tests/support/must.h"

namespace hg::test {
namespace {

using sample::CountingBackend;

// softmax(conv, batch_norm, max_pool, attention-like products, layer_norm, linear) of n images.
Graph network(Dim batch = "n") {
  Graph g;
  const auto buffer = [&](const char* name, float value) {
    const std::vector<float> values(8, value);
    return g.buffer(name, *TensorData::copy_of(view(values, {8})));
  };
  const Value x = g.input("x", f32, {batch, 3, 8, 8});
  Value y =
      g.call("conv", {x, g.parameter("conv.weight", f32, {8, 3, 3, 3}, init::kaiming_uniform(1))},
             {{"padding", std::vector<Dim>{1, 1}}});
  y = batch_norm(y, g.parameter("norm.weight", f32, {8}, init::ones()),
                 g.parameter("norm.bias", f32, {8}), buffer("norm.mean", 0.1f),
                 buffer("norm.var", 2), false)
          .y;
  y = g.call("max_pool", {relu(y)}, {{"kernel_size", std::vector<Dim>{2, 2}}});
  y = permute(reshape(y, {batch, 8, 16}), {0, 2, 1});
  y = matmul(softmax(matmul(y, permute(y, {0, 2, 1})), -1), y);
  y = layer_norm(reshape(y, {batch, 128}), {128},
                 g.parameter("ln.weight", f32, {128}, init::ones()),
                 g.parameter("ln.bias", f32, {128}));
  y = g.call("linear", {gelu(y), g.parameter("fc.weight", f32, {3, 128}, init::kaiming_uniform(2)),
                        g.parameter("fc.bias", f32, {3})});
  g.output("scores", y);
  return g;
}

Result<std::vector<float>> scores(Session& session, const std::vector<float>& x, int64_t n) {
  HG_TRY(session.set_input("x", view(x, {n, 3, 8, 8})));
  HG_TRY(session.run());
  HG_TRY_ASSIGN(const Tensor y, session.output("scores"));
  return std::vector<float>(y.as<float>(), y.as<float>() + y.count());
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << i;
}

TEST(Backend, ComputesOpenSizesAsTheCpuDoes) {
  const auto backend = std::make_shared<CountingBackend>();
  const Gpu gpu = must(Gpu::open_backend(backend));
  EXPECT_EQ(gpu.info().name, "counting");
  {
    const Model model = must(Model::from_graph(network()));
    Session there = must(Session::create(model, on(gpu)));
    Session here = must(Session::create(model, {}));
    for (const int64_t n : {1, 5, 0, 2, 5}) {
      const std::vector<float> x = numbers(n * 3 * 64);
      expect_near(must(scores(there, x, n)), must(scores(here, x, n)));
    }
    EXPECT_EQ(there.report().find("runs on the CPU"), std::string::npos) << there.report();
    // A run uploads the input and downloads the result.
    const GpuCounters before = gpu.counters();
    must(scores(there, numbers(5 * 3 * 64), 5));
    const GpuCounters after = gpu.counters();
    EXPECT_EQ(after.uploads - before.uploads, 1);
    EXPECT_EQ(after.upload_bytes - before.upload_bytes, 5 * 3 * 64 * 4);
    EXPECT_EQ(after.downloads - before.downloads, 1);
    EXPECT_EQ(after.download_bytes - before.download_bytes, 5 * 3 * 4);
    EXPECT_EQ(after.submits - before.submits, 1);
    EXPECT_GT(after.dispatches - before.dispatches, 5);
  }
  EXPECT_EQ(backend->counts().live_bytes, 0);
}

// Random ops and ops whose sizes depend on data run on the CPU even if the backend has rows.
TEST(Backend, RandomAndDataDependentOpsRunOnTheCpu) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  g.output("noise", g.call("dropout", {x}, {{"p", 0.5}, {"training", true}}) * 2.0);
  g.output("where", nonzero(relu(x)));
  const Model model = must(Model::from_graph(std::move(g)));
  Session there = must(Session::create(model, on(gpu)));
  Session here = must(Session::create(model, {}));
  const std::vector<float> values = {-1, 2, 3, -4, 5, 6, 7, 8};
  for (Session* session : {&there, &here}) {
    must(session->set_input("x", view(values, {8})));
    must(session->run());
  }
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(there.output("noise")->as<float>()[i], here.output("noise")->as<float>()[i]);
  ASSERT_EQ(there.output("where")->count(), 6);
  const int64_t expected[] = {1, 2, 4, 5, 6, 7};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(there.output("where")->as<int64_t>()[i], expected[i]);
}

TEST(Backend, ErrorsOfDataNameTheNode) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  Graph g;
  g.output("y", embedding(g.parameter("table", f32, {3, 2}), g.input("i", i64, {2})));
  const Model model = must(Model::from_graph(std::move(g)));
  Session there = must(Session::create(model, on(gpu)));
  Session here = must(Session::create(model, {}));
  const int64_t bad[] = {1, 3}, good[] = {1, 2};
  std::string messages[2];
  for (Session* session : {&there, &here}) {
    must(session->set_input("i", view(bad, i64, {2})));
    const Status status = session->run();
    EXPECT_EQ(status.code(), Code::invalid_argument);
    messages[session == &here] = std::string(status.message());
    must(session->set_input("i", view(good, i64, {2})));
    must(session->run());
  }
  EXPECT_EQ(messages[0], messages[1]);
}

TEST(Backend, AutomaticChoosesByTime) {
  const auto backend = std::make_shared<CountingBackend>();
  const Gpu gpu = must(Gpu::open_backend(backend));
  const Model model = must(Model::from_graph(network()));
  SessionOptions options = on(gpu);
  options.device = Device::automatic;
  Session session = must(Session::create(model, options));
  Session here = must(Session::create(model, {}));
  const std::vector<float> x = numbers(2 * 3 * 64);
  expect_near(must(scores(session, x, 2)), must(scores(here, x, 2)));
  EXPECT_GT(backend->counts().runs, 0);  // measured
}

TEST(Backend, PlansOfARangeOfSizes) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  const Model model = must(Model::from_graph(network()));
  SessionOptions options = on(gpu);
  options.ranges = {{"n", 0, 6}};
  Session there = must(Session::create(model, options));
  Session here = must(Session::create(model, {}));
  for (const int64_t n : {6, 1, 3, 0, 3, 6}) {
    const std::vector<float> x = numbers(n * 3 * 64);
    expect_near(must(scores(there, x, n)), must(scores(here, x, n)));
  }
}

// Sessions of one model run at the same time.
TEST(Backend, ServesAPoolOfSessions) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  const Model model = must(Model::from_graph(network()));
  SessionPool pool = must(SessionPool::create(model, on(gpu), 3));
  Session here = must(Session::create(model, {}));
  const std::vector<float> x = numbers(2 * 3 * 64), expected = must(scores(here, x, 2));
  std::vector<std::vector<float>> got(6);
  std::vector<std::thread> threads;
  for (std::vector<float>& each : got)
    threads.emplace_back([&] {
      const SessionPool::Lease session = pool.acquire();
      each = must(scores(*session, x, 2));
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& each : got) expect_near(each, expected);
}

// Success without a result is an error that names the device.
TEST(Backend, MustReturnMemoryAndRecordings) {
  struct Empty : CountingBackend {
    bool has_memory = false;
    Result<std::shared_ptr<DeviceMemory>> allocate(int64_t bytes) override {
      return has_memory ? CountingBackend::allocate(bytes) : std::shared_ptr<DeviceMemory>();
    }
    Result<std::unique_ptr<Recording>> record(std::span<const DeviceWork>,
                                              DeviceConstants&) override {
      return std::unique_ptr<Recording>();
    }
  };
  const auto backend = std::make_shared<Empty>();
  const Gpu gpu = must(Gpu::open_backend(backend));
  const std::vector<float> x = numbers(2 * 3 * 64);
  EXPECT_EQ(gpu.upload(view(x, {2, 3, 8, 8})).status().message(),
            "the device 'counting' returned no memory");
  // Self-tests fail without a recording, so that the CPU computes the session.
  backend->has_memory = true;
  const Model model = must(Model::from_graph(network()));
  Session there = must(Session::create(model, on(gpu)));
  Session here = must(Session::create(model, {}));
  expect_near(must(scores(there, x, 2)), must(scores(here, x, 2)));
}

TEST(Backend, CpuComputesWhatTheDeviceLacks) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>(
      std::set<std::string, std::less<>>{"max_pool", "max_pool_with_indices"})));
  const Model model = must(Model::from_graph(network()));
  Session there = must(Session::create(model, on(gpu)));
  Session here = must(Session::create(model, {}));
  const std::vector<float> x = numbers(2 * 3 * 64);
  expect_near(must(scores(there, x, 2)), must(scores(here, x, 2)));
  EXPECT_NE(there.report().find("runs on the CPU: the device has no kernel for it"),
            std::string::npos)
      << there.report();
  const GpuCounters before = gpu.counters();
  must(scores(there, x, 2));
  const GpuCounters after = gpu.counters();
  EXPECT_EQ(after.uploads - before.uploads, 2);
  EXPECT_EQ(after.downloads - before.downloads, 2);
  EXPECT_EQ(after.submits - before.submits, 2);
}

// A device without `attention` computes its parts, if no pass forms it.
TEST(Backend, PassesCanBeDisabled) {
  const Gpu gpu = must(Gpu::open_backend(
      std::make_shared<CountingBackend>(std::set<std::string, std::less<>>{"attention"})));
  const Model model = must(Model::from_graph(network()));
  SessionOptions options = on(gpu);
  options.disabled_passes = {"attention"};
  Session there = must(Session::create(model, options));
  Session here = must(Session::create(model, {}));
  const std::vector<float> x = numbers(2 * 3 * 64);
  expect_near(must(scores(there, x, 2)), must(scores(here, x, 2)));
  EXPECT_EQ(there.report().find("runs on the CPU"), std::string::npos) << there.report();
}

TEST(Backend, ComputesAllDtypes) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  for (const DType dtype : {f32, f64, f16, bf16, i8, u8, i16, i32, i64}) {
    Graph g;
    const Value x = g.input("x", f32, {"n"});
    const Value a = cast(x, dtype);
    g.output("y", cast(where(gt(a, a * a), a + a, a * a), f32));
    g.output("any", any(gt(a, a * a)));
    const Model model = must(Model::from_graph(std::move(g)));
    Session there = must(Session::create(model, on(gpu)));
    Session here = must(Session::create(model, {}));
    for (const int64_t n : {3, 1, 0}) {
      const float values[] = {1, 2, 3};
      for (Session* session : {&there, &here}) {
        must(session->set_input("x", view(values, f32, {n})));
        must(session->run());
      }
      const Tensor y = *there.output("y"), expected = *here.output("y");
      ASSERT_EQ(y.count(), n);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(y.as<float>()[i], expected.as<float>()[i]) << to_string(dtype);
        EXPECT_EQ(y.as<float>()[i], (std::vector<float>{1, 4, 9})[i]) << to_string(dtype);
      }
      EXPECT_EQ(*there.output("any")->as<bool>(), false);
    }
  }
}

TEST(Backend, TensorsStayOnTheDevice) {
  const auto backend = std::make_shared<CountingBackend>();
  const Gpu gpu = must(Gpu::open_backend(backend));
  const Model model = must(Model::from_graph(network()));
  SessionOptions options = on(gpu);
  options.device_outputs = true;
  Session session = must(Session::create(model, options));
  const std::vector<float> x = numbers(3 * 64);
  const DeviceTensor input = must(gpu.upload(view(x, {1, 3, 8, 8})));
  must(session.set_input("x", input));
  must(session.run());
  const GpuCounters before = gpu.counters();
  must(session.run());
  EXPECT_EQ(gpu.counters().uploads, before.uploads);
  EXPECT_EQ(gpu.counters().downloads, before.downloads);
  Session here = must(Session::create(model, {}));
  const TensorData y = must(gpu.download(must(session.device_output("scores"))));
  expect_near(std::vector<float>(y.tensor.as<float>(), y.tensor.as<float>() + 3),
              must(scores(here, x, 1)));
  const DeviceTensor empty = must(gpu.upload(view(x, {0, 3, 8, 8})));
  EXPECT_GE(empty.memory->bytes(), 1);
  EXPECT_EQ(must(gpu.download(empty)).tensor.count(), 0);
  // Each device refuses the memory of another.
  const Gpu other = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  EXPECT_EQ(other.download(input).status().message(),
            "the tensor is on another device than counting");
  EXPECT_EQ(session.set_input("x", must(other.upload(view(x, {1, 3, 8, 8})))).message(),
            "input 'x' is given on another device than counting");
}

TEST(Backend, RunsCallsAndChainsOfArrays) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  Executor ex = must(Executor::create({.device = Device::vulkan, .gpu = gpu}));
  const Array a = must(arange(0, 6));
  const Array two = must(full({6}, 2));
  const auto chain = [&] { return must(ex.mul(must(ex.relu(must(ex.sub(a, two)))), a)); };
  chain();  // with self-tests of the kernels
  const GpuCounters before = gpu.counters();
  const Array b = chain();
  EXPECT_EQ(gpu.counters().uploads, before.uploads);
  EXPECT_EQ(gpu.counters().downloads, before.downloads);
  must(b.to_host());
  const Array y = must(Array::copy_of(b));
  EXPECT_EQ(std::vector<float>(y.as<float>(), y.as<float>() + 6),
            (std::vector<float>{0, 0, 0, 3, 8, 15}));
}

TEST(Backend, TrainsAsTheCpuDoes) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  const std::vector<float> x = numbers(8 * 3 * 64);
  const std::vector<int64_t> labels = {0, 1, 2, 0, 1, 2, 0, 1};
  const std::vector<ConstTensor> inputs = {view(x, {8, 3, 8, 8})}, targets = {view(labels, {8})};
  std::vector<double> losses[2];
  for (const bool there : {true, false}) {
    TrainOptions options;
    options.losses = {{.kind = Loss::Kind::cross_entropy}};
    options.optimizer = adamw(2e-3);
    if (there) options.session = on(gpu);
    Trainer trainer = must(Trainer::create(must(Model::from_graph(network())), options));
    for (int i = 0; i < 5; ++i) losses[there].push_back(must(trainer.step(inputs, targets)));
  }
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 1e-4 * losses[0][i]);
  EXPECT_LT(losses[1].back(), losses[1].front());
}

// Fails the call number `at` of a kind.
class Failing final : public CountingBackend {
 public:
  enum class Kind { allocate, upload, download, record, run };
  Kind kind = Kind::allocate;
  int at = -1;

  Result<std::shared_ptr<DeviceMemory>> allocate(int64_t bytes) override {
    HG_TRY(fail(Kind::allocate));
    return CountingBackend::allocate(bytes);
  }
  Status upload(const DeviceSpan& to, const void* from) override {
    HG_TRY(fail(Kind::upload));
    return CountingBackend::upload(to, from);
  }
  Status download(void* to, const DeviceSpan& from) override {
    HG_TRY(fail(Kind::download));
    return CountingBackend::download(to, from);
  }
  Result<std::unique_ptr<Recording>> record(std::span<const DeviceWork> work,
                                            DeviceConstants& constants) override {
    HG_TRY(fail(Kind::record));
    HG_TRY_ASSIGN(std::unique_ptr<Recording> inner, CountingBackend::record(work, constants));
    return std::unique_ptr<Recording>(std::make_unique<Each>(*this, std::move(inner)));
  }

  Status fail(Kind what) {
    if (what != kind || at < 0 || at-- > 0) return {};
    return Status(Code::device_lost, "the link is down");
  }

 private:
  struct Each final : Recording {
    Each(Failing& backend, std::unique_ptr<Recording> inner)
        : backend(backend), inner(std::move(inner)) {}
    Status run(std::span<void* const> host) override {
      HG_TRY(backend.fail(Kind::run));
      return inner->run(host);
    }
    Failing& backend;
    std::unique_ptr<Recording> inner;
  };
};

TEST(Backend, ErrorsReachTheCaller) {
  const Model model = must(Model::from_graph(network()));
  const std::vector<float> x = numbers(3 * 64);
  Session here = must(Session::create(model, {}));
  const std::vector<float> expected = must(scores(here, x, 1));
  for (const auto kind : {Failing::Kind::allocate, Failing::Kind::upload, Failing::Kind::record,
                          Failing::Kind::run}) {
    const auto backend = std::make_shared<Failing>();
    const Gpu gpu = must(Gpu::open_backend(backend));
    {  // self-tests of kernels
      Session session = must(Session::create(model, on(gpu)));
      must(scores(session, x, 1));
    }
    EXPECT_EQ(backend->counts().live_bytes, 0);
    int failures = 0;
    for (int at = 0;; ++at) {
      backend->kind = kind;
      backend->at = at;
      Result<Session> session = Session::create(model, on(gpu));
      Result<std::vector<float>> got =
          session.ok() ? scores(*session, x, 1) : Result<std::vector<float>>(session.status());
      const bool failed = backend->at < 0;
      backend->at = -1;
      if (!failed) {
        expect_near(must(std::move(got)), expected);
        break;
      }
      ++failures;
      ASSERT_FALSE(got.ok()) << static_cast<int>(kind) << " " << at;
      EXPECT_EQ(got.status().code(), Code::device_lost);
      EXPECT_NE(got.status().message().find("the link is down"), std::string::npos);
      // The session works again when the device does.
      if (session.ok()) expect_near(must(scores(*session, x, 1)), expected);
      session = Result<Session>(Status(Code::internal, "gone"));
      EXPECT_EQ(backend->counts().live_bytes, 0);
    }
    EXPECT_GT(failures, 0) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace hg::test
