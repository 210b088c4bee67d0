// SPDX-License-Identifier: Apache-2.0
// Without NDEBUG, the next use of a view that outlived its memory is detected, without false
// alarms. This program compiles the library's memory as in such a build.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/must.h"
#include "tests/support/small_model.h"

namespace hg::test {
namespace {

std::optional<Session> session_of(const Model& model, SessionOptions options = {}) {
  options.threads = 1;  // so that death tests can fork
  return must(Session::create(model, std::move(options)));
}

void check(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

// y = relu(w x + x) for x of 16 columns.
Tensor run(Session& session, const std::vector<float>& x) {
  check(session.set_input("x", view(x, {static_cast<int64_t>(x.size()) / 16, 16})));
  check(session.run());
  return must(session.output("y"));
}

float sum(const ConstTensor& tensor) {
  volatile float sum = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) sum = sum + tensor.as<float>()[i];
  return sum;
}

#define EXPECT_GONE(tensor) EXPECT_DEATH(sum(tensor), "")

TEST(Views, EndWithTheSession) {
  const std::vector<float> x = ramp(32);
  auto session = session_of(small_model());
  const Tensor y = run(*session, x);
  const TensorData copy = must(TensorData::copy_of(y));
  EXPECT_EQ(sum(y), sum(copy.tensor));
  session.reset();
  EXPECT_GONE(y);
  // No other session gets the addresses of its memory.
  for (int i = 0; i < 100; ++i) {
    session = session_of(small_model());
    const Tensor other = run(*session, x);
    ASSERT_NE(other.data, y.data);
    ASSERT_EQ(sum(other), sum(copy.tensor));
  }
  EXPECT_GONE(y);
  EXPECT_DEATH(y.as<float>()[0] = 1, "");
}

TEST(Views, EndWhenTheArenaMoves) {
  const std::vector<float> x = ramp(32), larger = ramp(16 * 5000);
  auto session = session_of(small_model());
  const Tensor y = run(*session, x);
  const Tensor moved = run(*session, larger);
  EXPECT_GONE(y);
  EXPECT_GE(sum(moved), 0);
  // The plan is smaller again and fits into the memory of the larger one.
  const Tensor again = run(*session, x);
  EXPECT_GE(sum(again), 0);
  session->release_memory();
  EXPECT_GONE(again);
  EXPECT_GONE(moved);
}

TEST(Views, EndWithASessionThatAnotherReplaces) {
  const std::vector<float> x = ramp(32);
  auto session = session_of(small_model());
  const Tensor y = run(*session, x);
  *session = *session_of(small_model());
  EXPECT_GONE(y);
  EXPECT_GE(sum(run(*session, x)), 0);
}

// Memory that a session borrows as an input may end too.
TEST(Views, AreNotReadAsInputsOfAnotherSession) {
  const std::vector<float> x = ramp(32);
  auto first = session_of(small_model()), second = session_of(small_model());
  const Tensor y = run(*first, x);
  check(second->set_input("x", y));
  check(second->run());
  first.reset();
  EXPECT_DEATH(static_cast<void>(second->run()), "");
  second->forget_tensors();
  EXPECT_GE(sum(run(*second, x)), 0);
}

TEST(Views, OfWeightsEndWithTheModelAndItsSessions) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "hg_views_test.hgm";
  check(small_model().save(path.string()));
  for (const bool map : {false, true}) {
    std::optional<Model> model =
        must(Model::load(path.string(), Registry::built_in(), {.map = map}));
    auto session = session_of(*model, {.keep_all_values = true});
    const Tensor w = must(session->value("w"));
    const float before = sum(w);
    model.reset();
    EXPECT_EQ(sum(w), before);
    session.reset();
    EXPECT_GONE(w);
  }
  std::filesystem::remove(path);
}

TEST(Views, EndWithTheTrainer) {
  const std::vector<float> x = ramp(32), target(32);
  TrainOptions options;
  options.losses = {{.output = "y"}};
  options.session.threads = 1;
  std::optional<Trainer> trainer = must(Trainer::create(small_model(), options));
  const auto step = [&](int64_t n) {
    return trainer->step({{view(std::span(x).first(n * 16), {n, 16})}},
                         {{view(std::span(target).first(n * 16), {n, 16})}});
  };
  must(step(1));
  const Tensor w = must(trainer->session().value("w"));
  const Tensor loss = must(trainer->session().output(0));
  const float before = sum(w);
  must(step(2));
  EXPECT_NE(sum(w), before);  // training changes it in place
  const std::optional<Model> model = must(trainer->model());
  trainer.reset();
  EXPECT_GONE(w);
  EXPECT_GONE(loss);
  auto session = session_of(*model);
  EXPECT_GE(sum(run(*session, x)), 0);
}

// Memory from a host's allocator stays readable: the host gets it back filled with NaN.
TEST(Views, OfAHostsMemoryAreNotANumber) {
  struct Host {
    std::vector<std::pair<void*, size_t>> freed;
  } host;
  SessionOptions options;
  options.allocator = {
      [](void*, size_t bytes) { return operator new(bytes, std::align_val_t(64)); },
      [](void* h, void* memory, size_t bytes) {
        static_cast<Host*>(h)->freed.emplace_back(memory, bytes);
      },
      &host};
  const std::vector<float> x = ramp(32);
  auto session = session_of(small_model(), options);
  const Tensor y = run(*session, x);
  EXPECT_GE(sum(y), 0);
  session.reset();
  EXPECT_TRUE(std::isnan(y.as<float>()[0]));
  EXPECT_TRUE(std::isnan(y.as<float>()[31]));
  EXPECT_TRUE(std::isnan(*y.as<double>()));
  EXPECT_TRUE(std::isnan(static_cast<float>(*y.as<Half>())));
  EXPECT_TRUE(std::isnan(static_cast<float>(*y.as<BFloat16>())));
  ASSERT_FALSE(host.freed.empty());
  for (const auto& [memory, bytes] : host.freed) {
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(static_cast<uint8_t*>(memory)[i], 0xff);
    operator delete(memory, std::align_val_t(64));
  }
}

// Memory that comes and goes uses a bounded range of addresses.
TEST(Views, ThatEndAreNotKeptForever) {
  const std::vector<float> x = ramp(32);
  const auto regions = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) ++count;
    return count;
  };
  auto session = session_of(small_model());
  const float expected = sum(run(*session, x));
  int most = 0;
  for (int i = 0; i < 20000; ++i) {
    session->release_memory();
    ASSERT_EQ(sum(run(*session, x)), expected);
    if (i % 1000 == 0) most = std::max(most, regions());
  }
  EXPECT_LT(most, 10000);
}

}  // namespace
}  // namespace hg::test
