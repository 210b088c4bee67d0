// SPDX-License-Identifier: Apache-2.0
// Each memory allocation fails in turn: bulk memory from the C library (weights, arena, packs,
// tables) and operator new. Meanwhile a model is built and loaded, a session is created, planned
// and run, a trainer takes a step, and a file is written. The result is out_of_memory, every block
// is freed, and existing objects continue with the same bits.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>

#include "hg/hg.h"
#include "hg/quantize.h"
#include "hg/train.h"
#include "lib/platform/checked_memory.h"
#include "tests/support/failing_allocation.h"
#include "tests/support/must.h"

namespace {

std::atomic<int64_t> live_news{0}, news_left{-1};
std::atomic<bool> news_failed{false};

// Returns null if this call must fail.
void* take(size_t bytes, size_t alignment) {
  if (news_left.load() >= 0 && news_left.fetch_sub(1) == 0) {
    news_failed = true;
    return nullptr;
  }
  ++live_news;
  return alignment > 16
             ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
             : std::malloc(bytes > 0 ? bytes : 1);
}
void* take_or_throw(size_t bytes, size_t alignment) {
  void* const memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void give(void* memory) {
  if (memory == nullptr) return;
  --live_news;
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return take_or_throw(bytes, 1); }
void* operator new[](size_t bytes) { return take_or_throw(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t at) { return take_or_throw(bytes, size_t(at)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 1); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 1); }
void operator delete(void* memory) noexcept { give(memory); }
void operator delete[](void* memory) noexcept { give(memory); }
void operator delete(void* memory, size_t) noexcept { give(memory); }
void operator delete[](void* memory, size_t) noexcept { give(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { give(memory); }

namespace hg::test {
namespace {

// The kind of request of which the k-th one fails.
struct Fault {
  const char* name;
  void (*begin)(int64_t k);
  bool (*end)();  // stops failing, and returns whether a request failed
};
const Fault kBulk = {"memory in bulk", fail_allocation, end_failing};
const Fault kNew = {"operator new",
                    [](int64_t k) {
                      news_failed = false;
                      news_left = k;
                    },
                    []() -> bool {
                      news_left = -1;
                      return news_failed;
                    }};

// Calls `call` with the k-th request failing, for k = 0, 1, ... until no request is left to fail;
// returns how many failed. `call` returns its status and keeps nothing. `prepare` runs before each.
int64_t fail_each(const std::function<Status()>& call, const Fault& fault,
                  const std::function<void()>& prepare) {
  for (int64_t k = 0;; ++k) {
    prepare();
    Status status;
    bool threw = false;
    fault.begin(k);
    try {
      status = call();
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    const bool failed = fault.end();
    EXPECT_FALSE(threw) << fault.name << " " << k << ": std::bad_alloc left the library";
    if (!failed) {
      EXPECT_TRUE(status.ok()) << status.message();
      return k;
    }
    // The library may continue without memory for an attempt, such as measuring a kernel.
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::out_of_memory)
          << fault.name << " " << k << ": " << status.message();
    }
    if (testing::Test::HasFailure()) return k;
  }
}

Graph network() {
  Graph graph;
  const Value x = graph.input("x", f32, {"n", 3, 8, 8});
  const Value w = graph.parameter("conv", f32, {4, 3, 3, 3}, init::kaiming_uniform(1));
  const Value v = graph.parameter("head", f32, {5, 256}, init::kaiming_uniform(2));
  const Value b = graph.parameter("bias", f32, {5});
  const Value y = relu(graph.call("conv", {x, w, Value()}, {{"padding", {1, 1}}}));
  const Value flat = graph.call("reshape", {y}, {{"shape", {Dim("n"), 256}}});
  graph.output("y", graph.call("softmax", {linear(flat, v, b)}, {{"dim", -1}}));
  return graph;
}

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    auto model = must(Model::from_graph(network()));
    auto bytes = model.serialize();
    ASSERT_TRUE(bytes.ok());
    bytes_ = *bytes;
    path_ = testing::TempDir() + "faults_test.hgm";
    ASSERT_TRUE(model.save(path_).ok());
    x_.resize(2 * 3 * 64);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = float(i % 13) / 7 - 1;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  // Repeated calls of `call` do not use more and more memory.
  void expect_flat(
      const std::function<Status()>& call, bool takes_bulk = true,
      const std::function<void()>& prepare = [] {}) {
    for (const Fault& fault : {kBulk, kNew}) {
      const bool is_bulk = fault.begin == kBulk.begin;
      if (is_bulk && kChecksViews) continue;  // pages, which these functions do not allocate
      prepare();
      EXPECT_TRUE(call().ok());  // memory that is allocated once stays
      const int64_t news = live_news, blocks = live_blocks();
      const int64_t times = fail_each(call, fault, prepare);
      if (HasFailure()) return;
      EXPECT_EQ(times > 0, !is_bulk || takes_bulk) << fault.name;
      EXPECT_EQ(live_news, news) << fault.name;
      EXPECT_LE(live_blocks(), blocks) << fault.name;  // less: realpath() allocates uncounted
      std::printf("%s: failed %lld times\n", fault.name, static_cast<long long>(times));
    }
  }
  std::vector<std::byte> bytes_;
  std::vector<float> x_;
  std::string path_;
};

TEST_F(Faults, Load) {
  for (const bool map : {true, false})
    expect_flat(
        [&]() -> Status {
          return Model::load(path_, Registry::built_in(), {.verify_weights = true, .map = map})
              .status();
        },
        !map);  // a mapped file needs no bulk memory
}

TEST_F(Faults, Read) {
  expect_flat([&]() -> Status { return Model::read(bytes_).status(); });
}

TEST_F(Faults, CreatePlanAndRun) {
  auto model = Model::read(bytes_);
  ASSERT_TRUE(model.ok());
  const ConstTensor x = view(x_, {2, 3, 8, 8});
  const auto call = [&]() -> Status {
    HG_TRY_ASSIGN(Session session, Session::create(*model, {.threads = 1}));
    HG_TRY(session.set_input("x", x));
    HG_TRY(session.plan());
    HG_TRY(session.run());
    return session.output("y").status();
  };
  expect_flat(call);
}

TEST_F(Faults, ASessionGoesOn) {
  auto model = Model::read(bytes_);
  ASSERT_TRUE(model.ok());
  auto session = Session::create(*model, {.threads = 1});
  ASSERT_TRUE(session.ok());
  std::vector<float> expected;
  int64_t size = 1;
  const auto run = [&](int64_t n) -> Status {
    HG_TRY(session->set_input("x", view(x_.data(), f32, {n, 3, 8, 8})));
    return session->run();
  };
  ASSERT_TRUE(run(2).ok());
  auto y = session->output("y");
  expected.assign(y->as<float>(), y->as<float>() + 10);
  // New sizes are planned while an allocation fails; then the first size runs again.
  for (const Fault& fault : {kBulk, kNew}) {
    if (fault.begin == kBulk.begin && kChecksViews) continue;
    int refused = 0;
    for (int64_t k = 0; k < 120; ++k) {
      std::vector<float> zeros(static_cast<size_t>(++size + 2) * 192);
      const ConstTensor x = view(zeros, {size + 2, 3, 8, 8});
      fault.begin(fault.begin == kBulk.begin ? k % 6 : 3 * k);
      Status set = session->set_input("x", x);
      Status ran = set.ok() ? session->run() : std::move(set);
      (void)fault.end();
      refused += ran.ok() ? 0 : 1;
      EXPECT_EQ(session->output("y").ok(), ran.ok());
      EXPECT_TRUE(ran.ok() || ran.code() == Code::out_of_memory) << ran.message();
      ASSERT_TRUE(run(2).ok());
      y = session->output("y");
      ASSERT_TRUE(y.ok());
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), y->as<float>()))
          << fault.name << " " << k;
    }
    EXPECT_GT(refused, 0) << fault.name;
  }
}

TEST_F(Faults, AStep) {
  auto model = Model::read(bytes_);
  ASSERT_TRUE(model.ok());
  std::vector<float> target(10, 0.5f);
  TrainOptions options;
  options.optimizer = adamw(1e-3);
  options.session.threads = 1;
  const ConstTensor x = view(x_, {2, 3, 8, 8}), t = view(target, {2, 5});
  TrainOptions given;  // copies are made before the call
  const auto call = [&]() -> Status {
    HG_TRY_ASSIGN(Trainer trainer, Trainer::create(*model, std::move(given)));
    return trainer.step({&x, 1}, {&t, 1}).status();
  };
  expect_flat(call, true, [&] { given = options; });
}

TEST_F(Faults, Quantize) {
  auto model = Model::read(bytes_);
  ASSERT_TRUE(model.ok());
  for (const int bits : {8, 4})
    expect_flat([&, options = QuantizeOptions{.bits = bits, .group = 3, .least = 0}]() -> Status {
      return quantize(*model, options).status();
    });
}

TEST_F(Faults, Save) {
  auto model = Model::read(bytes_);
  ASSERT_TRUE(model.ok());
  expect_flat([&]() -> Status { return model->serialize().status(); }, false);
  expect_flat([&]() -> Status { return model->save(path_); }, false);  // it needs only small blocks
  must(Model::load(path_));
  // Nothing but the file itself is left in its folder.
  for (const auto& entry : std::filesystem::directory_iterator(testing::TempDir()))
    EXPECT_EQ(entry.path().string().find("faults_test.hgm.partial"), std::string::npos);
}

}  // namespace
}  // namespace hg::test
