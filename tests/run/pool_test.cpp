// SPDX-License-Identifier: Apache-2.0
// Requests from many threads get the same answers whether they run together or alone. A request
// that cannot be answered gets the reason, and none waits forever.
#include "hg/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using namespace std::chrono_literals;

Model model_of(Graph graph) { return must(Model::from_graph(std::move(graph))); }

// Each row depends on itself alone, and has the same bits in every batch. `table[i]` rejects
// indices that are out of range.
Model rowwise() {
  Graph g;
  const Value x = g.input("x", f32, {"n", "width"});
  const Value i = g.input("i", i64, {"n"});
  std::vector<float> table(10);
  for (int k = 0; k < 10; ++k) table[k] = 0.25f * k;
  const Value t = g.constant(*TensorData::copy_of(view(table, {10, 1})));
  const Value picked = g.call("index_select", {t, i}, {{"dim", 0}});
  g.output("y", sigmoid(x) * picked);
  g.output("i", i + i);
  return model_of(std::move(g));
}

// Each row depends on the other rows of its batch.
Model mixing() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  g.output("y", x - mean(x, {0}, true));
  return model_of(std::move(g));
}

// A while loop of `rounds`: runs that last until they are stopped.
Model slow() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 256});
  const Value rounds = g.input("rounds", i64, {});
  const std::vector<Value> out = while_loop(
      std::vector<Value>{rounds, x}, {},
      [](Graph& body, std::span<const Value> v) -> std::vector<Value> {
        return {body.call("gt", {v[0], body.scalar(int64_t{0}, i64)})};
      },
      [](Graph& body, std::span<const Value> v) -> std::vector<Value> {
        return {v[0] - body.scalar(int64_t{1}, i64), sigmoid(v[1])};
      });
  g.output("y", out.empty() ? Value() : out[1]);
  return model_of(std::move(g));
}

struct Sent {
  std::vector<float> x;
  std::vector<int64_t> i;
  Sizes shape;
  Pool::Request request() const { return {.inputs = {view(x, shape), view(i, {shape[0]})}}; }
};

Sent random_request(std::mt19937& random, int64_t most_rows) {
  Sent sent;
  const int64_t rows = 1 + static_cast<int64_t>(random() % most_rows);
  const int64_t width = random() % 4 == 0 ? 7 : 33;
  sent.shape = {rows, width};
  for (int64_t k = 0; k < rows * width; ++k)
    sent.x.push_back(static_cast<float>(random() % 2000) / 250 - 4);
  for (int64_t k = 0; k < rows; ++k) sent.i.push_back(static_cast<int64_t>(random() % 10));
  return sent;
}

std::vector<std::vector<std::byte>> bytes_of(std::span<const TensorData> outputs) {
  std::vector<std::vector<std::byte>> all;
  for (const TensorData& data : outputs) {
    const auto* from = static_cast<const std::byte*>(data.tensor.data);
    all.emplace_back(from, from + data.tensor.bytes());
  }
  return all;
}

std::vector<std::vector<std::byte>> alone(Session& session, const Sent& sent) {
  EXPECT_TRUE(session.set_input(0, view(sent.x, sent.shape)).ok());
  EXPECT_TRUE(session.set_input(1, view(sent.i, {sent.shape[0]})).ok());
  EXPECT_TRUE(session.run().ok());
  std::vector<TensorData> outputs;
  for (int i = 0; i < 2; ++i) outputs.push_back(*TensorData::copy_of(*session.output(i)));
  return bytes_of(outputs);
}

TEST(Pool, ManyThreadsGetTheBitsOfSingleRuns) {
  const Model model = rowwise();
  for (const int sessions : {1, 3}) {
    Pool::Options options;
    options.sessions = sessions;
    options.most_rows = 8;
    options.longest_wait = 200us;
    auto pool = must(Pool::create(model, options));
    std::atomic<int64_t> wrong{0}, together{0}, sent_rows{0};
    constexpr int kThreads = 8, kEach = 150;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(100 * sessions + t));
        auto session = Session::create(model, {.threads = 1});
        for (int k = 0; k < kEach; ++k) {
          const Sent sent = random_request(random, k % 16 == 0 ? 11 : 3);
          sent_rows += sent.shape[0];
          const auto answer = pool.run(sent.request());
          if (!answer.ok() || answer->outputs[0].tensor.shape != sent.shape ||
              bytes_of(answer->outputs) != alone(*session, sent))
            ++wrong;
          else
            together += answer->batch_rows > sent.shape[0] ? 1 : 0;
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(together, 0);
    const Pool::Statistics counts = pool.statistics();
    EXPECT_EQ(counts.answered, kThreads * kEach);
    EXPECT_EQ(counts.rows, sent_rows);
    EXPECT_LT(counts.batches, counts.answered);
    EXPECT_EQ(counts.waiting + counts.running + counts.failed + counts.refused, 0);
    EXPECT_GT(counts.quantile(0.99), 0);
    EXPECT_LE(counts.quantile(0.5), counts.quantile(0.99));
  }
}

// A failing request does not affect others in its batch.
TEST(Pool, ABadRequestFailsForItself) {
  Pool::Options options;
  options.most_rows = 4;
  options.longest_wait = 1s;  // long enough to fill the batch
  auto pool = must(Pool::create(rowwise(), options));
  std::atomic<int> right{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Sent sent{{1, 2, 3}, {t == 2 ? 77 : t}, {1, 3}};
      const auto answer = pool.run(sent.request());
      if (t == 2)
        failed += answer.status().code() == Code::invalid_argument ? 1 : 0;
      else
        right += answer.ok() && answer->batch_rows == 4 ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 3);
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(pool.statistics().failed, 1);
  const Sent full{std::vector<float>(12), {1, 2, 3, 4}, {4, 3}};  // a full batch does not wait
  EXPECT_TRUE(pool.run(full.request()).ok());
}

TEST(Pool, WhatDoesNotFitIsRefusedByName) {
  auto pool = must(Pool::create(rowwise(), {.most_rows = 4}));
  const std::vector<float> x(6);
  const std::vector<int64_t> i(3);
  const auto refused = [&](std::vector<ConstTensor> inputs, std::string_view part) {
    const auto answer = pool.run({.inputs = std::move(inputs)});
    EXPECT_EQ(answer.status().code(), Code::invalid_argument);
    EXPECT_NE(answer.status().message().find(part), std::string_view::npos)
        << answer.status().message();
  };
  refused({view(x, {2, 3})}, "the request has 1 inputs; the model takes 2");
  refused({view(x, {2, 3}), view(i, {3})}, "input 1 of the request is i64[3], of a request of 2");
  refused({view(x, {6}), view(i, {3})}, "the model takes f32[n, width]");
  refused({view(i, {3, 1}), view(i, {3})}, "input 0 of the request is i64[3, 1]");
  refused({view(static_cast<const void*>(nullptr), f32, {2, 3}), view(i, {2})}, "null data");
  const auto none = must(pool.run({.inputs = {view(x, {0, 3}), view(i, {0})}}));
  EXPECT_EQ(none.outputs[0].tensor.shape, (Sizes{0, 3}));
  EXPECT_FALSE(Pool::create(rowwise(), {.sessions = 0}).ok());
  EXPECT_FALSE(Pool::create(rowwise(), {.most_rows = 0}).ok());
}

// A request without rows has none to pad with.
TEST(Pool, ARequestOfNoRowsIsNotPadded) {
  auto pool = must(Pool::create(rowwise(), {.most_rows = 2, .longest_wait = 10s}));
  std::vector<std::thread> threads;  // the first batch proves that rows are independent
  for (int64_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      const Sent sent{{1, 2, 3}, {t}, {1, 3}};
      EXPECT_TRUE(pool.run(sent.request()).ok());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.statistics().rows, 2);
  const Sent sent{{}, {}, {0, 3}};
  const auto none = must(pool.run(sent.request()));
  EXPECT_EQ(none.outputs[0].tensor.shape, (Sizes{0, 3}));
  EXPECT_EQ(pool.statistics().padded_rows, 0);
}

TEST(Pool, WaitsForAFullBatchForEver) {
  auto pool = must(
      Pool::create(rowwise(), {.most_rows = 2, .longest_wait = std::chrono::microseconds::max()}));
  const Sent sent{{1, 2, 3}, {0}, {1, 3}};
  std::thread first([&] {
    const auto answer = must(pool.run(sent.request()));
    EXPECT_EQ(answer.batch_rows, 2);
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(pool.run(sent.request()).ok());
  first.join();
}

TEST(Pool, CountsEachRequestOnce) {
  auto pool = must(Pool::create(rowwise(), {.most_rows = 2}));
  const Sent sent{{1, 2, 3}, {0}, {1, 3}};
  EXPECT_TRUE(pool.run(sent.request()).ok());
  EXPECT_FALSE(pool.run({}).ok());
  pool.close();
  EXPECT_EQ(pool.run(sent.request()).status().code(), Code::cancelled);
  const Pool::Statistics counts = pool.statistics();
  EXPECT_EQ(counts.answered, 1);
  EXPECT_EQ(counts.failed, 1);
  EXPECT_EQ(counts.cancelled, 1);
  EXPECT_EQ(counts.refused, 0);
}

// Requests are stopped before, during and after a batch, and the pool is closed in between. All
// answers have the right numbers, and each is counted. Sanitizers find more.
TEST(Pool, IsStoppedAtAnyTime) {
  const Model model = rowwise();
  for (uint32_t round = 0; round < 20; ++round) {
    std::mt19937 random(round);
    const int64_t most_rows = 1 + static_cast<int64_t>(random() % 8);
    auto pool = must(Pool::create(model, {.sessions = 2, .most_rows = most_rows}));
    auto session = Session::create(model, {.threads = 1});
    std::vector<Sent> sent;
    std::vector<std::vector<std::vector<std::byte>>> expected;
    for (int k = 0; k < 8; ++k) {
      sent.push_back(random_request(random, 4));
      expected.push_back(alone(*session, sent.back()));
    }
    std::atomic<int> answered{0}, cancelled{0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        std::mt19937 mine(round * 4 + t);
        for (int i = 0; i < 20; ++i) {
          const size_t k = mine() % sent.size();
          std::stop_source stop;
          std::thread stopping([&, wait = std::chrono::microseconds(mine() % 300)] {
            std::this_thread::sleep_for(wait);
            stop.request_stop();
          });
          Pool::Request request = sent[k].request();
          request.stop = stop.get_token();
          const auto answer = pool.run(std::move(request));
          stopping.join();
          if (answer.ok())
            EXPECT_EQ(bytes_of(answer->outputs), expected[k]);
          else
            EXPECT_EQ(answer.status().code(), Code::cancelled) << answer.status().message();
          ++(answer.ok() ? answered : cancelled);
        }
      });
    if (round % 2 == 1) pool.close();
    for (std::thread& thread : threads) thread.join();
    const Pool::Statistics counts = pool.statistics();
    EXPECT_EQ(counts.answered, answered);
    EXPECT_EQ(counts.cancelled, cancelled);
    EXPECT_EQ(counts.failed + counts.refused + counts.waiting + counts.running, 0);
  }
}

TEST(Pool, ModelsThatCannotRunTogetherAreRefused) {
  Graph fixed;
  fixed.output("y", sigmoid(fixed.input("x", f32, {2, 3})));
  const Model of_two = model_of(std::move(fixed));
  const Status status = Pool::create(of_two, {.most_rows = 2}).status();
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_NE(status.message().find("input 'x' is f32[2, 3]"), std::string_view::npos);
  EXPECT_TRUE(Pool::create(of_two, {.most_rows = 1}).ok());

  Graph counting;
  const Value count = counting.buffer("count", *TensorData::allocate(f32, {}));
  const Value x = counting.input("x", f32, {"n"});
  counting.assign(count, count + counting.scalar(1.0));
  counting.output("y", x + count);
  EXPECT_EQ(Pool::create(model_of(std::move(counting)), {}).status().code(), Code::unsupported);

  // Only a run shows it: the first batch also runs as single requests. Equal rows would not show
  // that they depend on each other.
  for (const float step : {0.0f, 1.0f}) {
    auto pool = must(Pool::create(mixing(), {.most_rows = 2, .longest_wait = 1s}));
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        const std::vector<float> row(4, 1.0f + step * static_cast<float>(t));
        const Status told = pool.run({.inputs = {view(row, {1, 4})}}).status();
        refused += told.code() == Code::unsupported &&
                   told.message().find("each row from its own row alone") != std::string_view::npos;
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(refused, 2);
    const std::vector<float> row(4);
    EXPECT_EQ(pool.run({.inputs = {view(row, {1, 4})}}).status().code(), Code::unsupported);
  }
  const std::vector<float> row(4);
  auto single = must(Pool::create(mixing(), {.most_rows = 1}));
  EXPECT_TRUE(single.run({.inputs = {view(row, {1, 4})}}).ok());
}

// A long request, with others waiting behind it.
class Busy : public testing::Test {
 protected:
  void SetUp() override {
    Pool::Options options;
    options.most_rows = 1;
    options.most_waiting = 2;
    auto made = must(Pool::create(slow(), options));
    pool_ = std::make_unique<Pool>(std::move(made));
    first_ = std::thread([this] { first_status_ = send({.stop = stop_.get_token()}, kEndless); });
    while (pool_->statistics().running == 0) std::this_thread::yield();
  }
  void TearDown() override {
    stop_.request_stop();
    if (first_.joinable()) first_.join();
  }
  static constexpr int64_t kEndless = int64_t{1} << 60;
  Status send(Pool::Request request, int64_t rounds = 1) {
    const std::vector<float> x(256, 0.5f);
    request.inputs = {view(x, {1, 256}), view(std::span<const int64_t>(&rounds, 1), {})};
    return pool_->run(std::move(request)).status();
  }
  void wait_for(int64_t waiting) {
    while (pool_->statistics().waiting < waiting) std::this_thread::yield();
  }
  std::unique_ptr<Pool> pool_;
  std::stop_source stop_;
  std::thread first_;
  Status first_status_;
};

TEST_F(Busy, DeadlinesStopsAndAFullQueue) {
  const auto late =
      send({.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20)});
  EXPECT_EQ(late.code(), Code::cancelled);
  EXPECT_NE(late.message().find("deadline"), std::string_view::npos);
  EXPECT_EQ(send({.deadline = std::chrono::steady_clock::now()}).code(), Code::cancelled);

  std::stop_source stop;
  Status stopped, waited;
  std::thread second([&] { stopped = send({.stop = stop.get_token()}); });
  std::thread third([&] { waited = send({}); });
  wait_for(2);
  EXPECT_EQ(send({}).code(), Code::busy);
  stop.request_stop();
  second.join();
  EXPECT_EQ(stopped.code(), Code::cancelled);
  stop_.request_stop();  // the running batch: all its requests are stopped
  first_.join();
  EXPECT_EQ(first_status_.code(), Code::cancelled) << first_status_.message();
  third.join();
  EXPECT_TRUE(waited.ok()) << waited.message();
  const Pool::Statistics counts = pool_->statistics();
  EXPECT_EQ(counts.refused, 1);
  EXPECT_EQ(counts.cancelled, 4);
  EXPECT_EQ(counts.answered, 1);
}

TEST_F(Busy, ClosingEndsWhatWaits) {
  Status second_status, third_status;
  std::thread second([&] { second_status = send({}); });
  std::thread third([&] { third_status = send({}); });
  wait_for(2);
  std::thread closing([&] { pool_->close(); });
  second.join();
  third.join();
  EXPECT_EQ(second_status.code(), Code::cancelled);
  EXPECT_EQ(third_status.code(), Code::cancelled);
  EXPECT_EQ(send({}).code(), Code::cancelled);
  stop_.request_stop();
  closing.join();
  EXPECT_EQ(pool_->statistics().running, 0);
}

}  // namespace
}  // namespace hg
