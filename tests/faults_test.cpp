// SPDX-License-Identifier: Apache-2.0
// Memory in bulk (weights, arena, packs, tables: what the library asks the C library for) fails at
// each call in turn, while a model is loaded, a session is created, planned and run, a trainer
// takes a step, and a file is written: the answer is out_of_memory, every block is freed again,
// those of operator new too, and what was there before goes on with the same bits.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <span>

#include "hg/hg.h"
#include "tests/failing_allocation.h"

namespace {

std::atomic<int64_t> live_news{0};

void* take(size_t bytes, size_t alignment) {
  ++live_news;
  return alignment > 16
             ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
             : std::malloc(bytes > 0 ? bytes : 1);
}
void give(void* memory) {
  if (memory == nullptr) return;
  --live_news;
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return take(bytes, 1); }
void* operator new[](size_t bytes) { return take(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t at) { return take(bytes, size_t(at)); }
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

// How often it failed: calls `call` with the k-th allocation failing, for k = 0, 1, ... until none
// is left to fail. It returns what it got, and holds nothing afterwards.
int64_t fail_each(const std::function<Status()>& call) {
  EXPECT_TRUE(call().ok());  // what is made once stays
  for (int64_t k = 0;; ++k) {
    fail_allocation(k);
    const Status status = call();
    if (!end_failing()) {
      EXPECT_TRUE(status.ok()) << status.message();
      return k;
    }
    // What is only an attempt, such as a kernel that is measured, may do without.
    if (!status.ok())
      EXPECT_EQ(status.code(), Code::out_of_memory) << k << ": " << status.message();
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
    auto model = Model::from_graph(network());
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto bytes = model->serialize();
    ASSERT_TRUE(bytes.ok());
    bytes_ = *bytes;
    path_ = testing::TempDir() + "faults_test.hgm";
    ASSERT_TRUE(model->save(path_).ok());
    x_.resize(2 * 3 * 64);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = float(i % 13) / 7 - 1;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  // With `call` repeated for ever, nothing grows.
  void expect_flat(const std::function<Status()>& call, bool fails = true) {
    (void)fail_each(call);
    const int64_t news = live_news, blocks = live_blocks();
    EXPECT_EQ(fail_each(call) > 0, fails);
    EXPECT_EQ(live_news, news);
    EXPECT_LE(live_blocks(), blocks);  // less: what realpath() gave was not counted
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
        !map);  // a mapped file needs no memory in bulk
}

TEST_F(Faults, Read) {
  expect_flat([&]() -> Status { return Model::read(bytes_).status(); });
}

TEST_F(Faults, CreatePlanAndRun) {
  auto model = Model::read(bytes_);
  ASSERT_TRUE(model.ok());
  expect_flat([&]() -> Status {
    HG_TRY_ASSIGN(Session session, Session::create(*model, {.threads = 1}));
    HG_TRY(session.set_input("x", view(x_, {2, 3, 8, 8})));
    HG_TRY(session.plan());
    HG_TRY(session.run());
    return session.output("y").status();
  });
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
  // Sizes that are planned for the first time, with an allocation failing; then the first size
  // again.
  int refused = 0;
  for (int64_t k = 0; k < 60; ++k) {
    std::vector<float> zeros(static_cast<size_t>(++size + 2) * 192);
    fail_allocation(k % 6);
    Status set = session->set_input("x", view(zeros, {size + 2, 3, 8, 8}));
    Status ran = set.ok() ? session->run() : std::move(set);
    (void)end_failing();
    refused += ran.ok() ? 0 : 1;
    EXPECT_EQ(session->output("y").ok(), ran.ok());
    EXPECT_TRUE(ran.ok() ? true : ran.code() == Code::out_of_memory) << ran.message();
    ASSERT_TRUE(run(2).ok());
    y = session->output("y");
    ASSERT_TRUE(y.ok());
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), y->as<float>())) << k;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(Faults, AStep) {
  auto model = Model::read(bytes_);
  ASSERT_TRUE(model.ok());
  std::vector<float> target(10, 0.5f);
  TrainOptions options;
  options.optimizer = adamw(1e-3);
  options.session.threads = 1;
  expect_flat([&]() -> Status {
    HG_TRY_ASSIGN(Trainer trainer, Trainer::create(*model, options));
    const ConstTensor x = view(x_, {2, 3, 8, 8}), t = view(target, {2, 5});
    return trainer.step({&x, 1}, {&t, 1}).status();
  });
}

TEST_F(Faults, Save) {
  auto model = Model::read(bytes_);
  ASSERT_TRUE(model.ok());
  expect_flat([&]() -> Status { return model->serialize().status(); }, false);
  expect_flat([&]() -> Status { return model->save(path_); }, false);  // small pieces alone
  auto again = Model::load(path_);
  ASSERT_TRUE(again.ok()) << again.status().message();
  // Nothing but the file itself is left in its folder.
  for (const auto& entry : std::filesystem::directory_iterator(testing::TempDir()))
    EXPECT_EQ(entry.path().string().find("faults_test.hgm.partial"), std::string::npos);
}

}  // namespace
}  // namespace hg::test
