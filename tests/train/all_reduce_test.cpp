// SPDX-License-Identifier: Apache-2.0
// TrainOptions::all_reduce: ranks in threads train as one rank with all their samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/must.h"
#include "tests/support/noise.h"

namespace hg {
namespace {

using test::noise;

// Adds up the gradients of a test's ranks: once all ranks wait, their sum is made in f64.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks), begun_(ranks), names(ranks), barrier_(ranks) {}
  AllReduce of(int rank) {
    return {.ranks = ranks_,
            .begin =
                [this, rank](std::string_view name, const Tensor& data) {
                  begun_[rank].push_back(data);
                  names[rank].emplace_back(name);
                  return Status();
                },
            .wait =
                [this, rank] {
                  barrier_.arrive_and_wait();
                  if (rank == 0) sum();
                  barrier_.arrive_and_wait();
                  begun_[rank].clear();
                  return Status();
                }};
  }

 private:
  void sum() {
    for (size_t k = 0; k < begun_[0].size(); ++k)
      for (int64_t i = 0; i < begun_[0][k].count(); ++i) {
        double total = 0;
        for (const auto& of_rank : begun_) total += of_rank[k].as<float>()[i];
        for (const auto& of_rank : begun_) of_rank[k].as<float>()[i] = static_cast<float>(total);
      }
  }
  int ranks_;
  std::vector<std::vector<Tensor>> begun_;

 public:
  std::vector<std::vector<std::string>> names;  // by rank, from all batches

 private:
  std::barrier<> barrier_;
};

// 5 numbers to 3; one weight is used twice, and one gradient is that of two parameters.
Model small_network() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 5});
  const Value w1 = g.parameter("w1", f32, {7, 5}, init::kaiming_uniform(1));
  const Value b1 = g.parameter("b1", f32, {7}), c1 = g.parameter("c1", f32, {7});
  const Value square = g.parameter("square", f32, {7, 7}, init::kaiming_uniform(2));
  const Value w2 = g.parameter("w2", f32, {3, 7}, init::kaiming_uniform(3));
  Value y = tanh(g.call("linear", {x, w1, b1 + c1}));
  y = tanh(g.call("linear", {tanh(g.call("linear", {y, square})), square}));
  g.output("y", g.call("linear", {y, w2}));
  return *Model::from_graph(std::move(g));
}

struct Data {
  std::vector<float> x, y;
  Data(int64_t count, uint64_t seed) : x(noise(count * 5, seed)), y(noise(count * 3, seed + 1)) {}
  // Trains on `rows` samples, beginning with sample `first`.
  Result<double> step(Trainer& trainer, int64_t first, int64_t rows,
                      std::stop_token stop = {}) const {
    const ConstTensor input = view(x.data() + first * 5, f32, {rows, 5});
    const ConstTensor target = view(y.data() + first * 3, f32, {rows, 3});
    return trainer.step(std::span(&input, 1), std::span(&target, 1), std::move(stop));
  }
};

std::vector<float> weights(const Trainer& trainer) {
  std::vector<float> all;
  for (const std::string& name : trainer.trained()) {
    const Tensor t = *trainer.session().value(name);
    all.insert(all.end(), t.as<float>(), t.as<float>() + t.count());
  }
  return all;
}

// The number of values that were summed.
size_t names_in(const std::vector<std::string>& sums) {
  size_t count = sums.size();
  for (const std::string& sum : sums) count += std::count(sum.begin(), sum.end(), ',');
  return count;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<float> weights;
};

void train(const TrainOptions& options, const Data& data, int64_t rows, int64_t each, int64_t steps,
           int64_t first, Outcome& out) {
  Trainer trainer = must(Trainer::create(small_network(), options));
  for (int64_t i = 0; i < steps; ++i) {
    const double loss = must(data.step(trainer, i * each + first, rows));
    out.losses.push_back(loss);
  }
  out.weights = weights(trainer);
}

TEST(AllReduce, RanksTrainAsOneWithAllSamples) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(str_cat("case ", static_cast<int64_t>(seed)));
    std::mt19937 random(seed);
    const auto any = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int ranks = 1 + any(4);
    const int64_t rows = 1 + any(4), steps = 4;
    TrainOptions options;
    const Optimizer all[] = {sgd(0.05), sgd(0.05, 0.9), adam(0.01), adamw(0.01), rmsprop(0.003)};
    options.optimizer = all[any(5)];
    // Adam may divide by a number as small as rounding errors.
    options.optimizer.eps = 1e-3;
    options.losses[0].kind = any(2) ? Loss::Kind::mse : Loss::Kind::smooth_l1;
    if (any(3) == 0) {
      options.losses[0].reduction = Reduction::sum;
      options.losses[0].weight = 0.1;
    }
    if (any(2)) options.penalties = {{.pattern = "w*", .l1 = 1e-3, .l2 = 1e-2}};
    if (any(2)) options.clip_norm = 0.5;
    if (any(3) == 0) options.clip_value = 0.02;
    options.accumulate = 1 + any(2);
    options.session.threads = 1;
    const int64_t all_buckets[] = {0, 1, 29, 100, 197, 1 << 20};  // a weight has 84 to 196 bytes
    const int64_t bucket_bytes = all_buckets[any(6)];
    const Data data(ranks * rows * steps, seed);
    Outcome alone;
    train(options, data, ranks * rows, ranks * rows, steps, 0, alone);
    Meeting meeting(ranks);
    std::vector<Outcome> outcomes(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        TrainOptions own = options;
        own.all_reduce = meeting.of(rank);
        own.all_reduce.bucket_bytes = bucket_bytes;
        train(own, data, rows, ranks * rows, steps, rank * rows, outcomes[rank]);
      });
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(outcomes[rank].weights, outcomes[0].weights);
      ASSERT_EQ(meeting.names[rank], meeting.names[0]);
      // One sum for the loss and one for each of the five parameters.
      const size_t sums = bucket_bytes <= 1 ? 6 : bucket_bytes == 1 << 20 ? 1 : 0;
      if (sums > 0) {
        ASSERT_EQ(meeting.names[rank].size(), sums * steps);
      }
      ASSERT_EQ(names_in(meeting.names[rank]), 6u * steps);
    }
    for (int64_t i = 0; i < steps; ++i)
      EXPECT_NEAR(outcomes[0].losses[i], alone.losses[i], 1e-5 * (1 + alone.losses[i]));
    ASSERT_EQ(outcomes[0].weights.size(), alone.weights.size());
    for (size_t i = 0; i < alone.weights.size(); ++i)
      ASSERT_NEAR(outcomes[0].weights[i], alone.weights[i], 2e-5) << "weight " << i;
  }
}

TEST(AllReduce, BeginsBeforeTheBackwardPassEnds) {
  TrainOptions options;
  Meeting meeting(1);
  options.all_reduce = meeting.of(0);
  options.all_reduce.bucket_bytes = 0;
  Trainer trainer = must(Trainer::create(small_network(), options));
  ASSERT_TRUE(Data(4, 1).step(trainer, 0, 4).ok());
  // The gradients of the parameters that the model uses last are ready first.
  EXPECT_EQ(meeting.names[0][0], "loss");
  EXPECT_EQ(meeting.names[0][1], "w2");
  size_t first = 0, last = 0, wait = 0;
  const std::vector<Node>& nodes = trainer.session().compiled_graph().nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string_view op = nodes[i].op->name();
    if (op == "train.all_reduce_begin" && first == 0) first = i;
    if (op == "matmul") last = i;
    if (op == "train.all_reduce_wait") wait = i;
  }
  EXPECT_LT(first, last);
  EXPECT_LT(last, wait);
}

TEST(AllReduce, SmallGradientsAreSummedTogether) {
  TrainOptions options;
  Meeting meeting(1);
  options.all_reduce = meeting.of(0);
  options.all_reduce.bucket_bytes = 150;  // square has 196 bytes, w1 140, w2 84, c1 and b1 28
  Trainer trainer = must(Trainer::create(small_network(), options));
  ASSERT_TRUE(Data(4, 1).step(trainer, 0, 4).ok());
  const std::vector<std::string>& names = meeting.names[0];
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0], "square");  // its sum begins before the bucket is full
  EXPECT_TRUE(names[1].starts_with("loss, w2, ")) << names[1];
  EXPECT_EQ(names_in(names), 6u);
  // The gradients of a bucket are computed as soon as they are ready, not after the backward pass.
  std::vector<size_t> packs;
  size_t last = 0;
  const std::vector<Node>& nodes = trainer.session().compiled_graph().nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op->name() == "train.all_reduce_pack") packs.push_back(i);
    if (nodes[i].op->name() == "matmul") last = i;
  }
  ASSERT_EQ(packs.size(), 5u);
  EXPECT_LT(packs[1], last);  // the gradient of w2
}

TEST(AllReduce, ALossThatIsNotFiniteStopsAllRanks) {
  constexpr int kRanks = 3;
  Meeting meeting(kRanks);
  Data data(2 * kRanks, 3);
  data.x[2 * 5] = std::numeric_limits<float>::quiet_NaN();  // a sample of rank 1
  std::vector<std::string> said(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      TrainOptions options;
      options.all_reduce = meeting.of(rank);
      options.session.threads = 1;
      Result<Trainer> trainer = Trainer::create(small_network(), options);
      const std::vector<float> before = weights(*trainer);
      const Result<double> loss = data.step(*trainer, rank * 2, 2);
      EXPECT_FALSE(loss.ok());
      said[rank] = loss.status().message();
      EXPECT_EQ(weights(*trainer), before);
      EXPECT_EQ(trainer->updates(), 0);
    });
  for (std::thread& thread : threads) thread.join();
  for (const int rank : {0, 2})
    EXPECT_NE(said[rank].find("it is finite here, and not on another rank"), std::string::npos)
        << said[rank];
  EXPECT_NE(said[1].find("the data of 'x' is not finite"), std::string::npos) << said[1];
}

TEST(AllReduce, WhatTheHostRefusesEndsTheStep) {
  for (const bool at_wait : {false, true}) {
    TrainOptions options;
    bool fails = true;
    options.all_reduce.ranks = 2;
    options.all_reduce.bucket_bytes = 0;
    options.all_reduce.begin = [&](std::string_view name, const Tensor&) {
      return fails && !at_wait && name == "square" ? not_found("rank 1 is gone") : Status();
    };
    options.all_reduce.wait = [&] { return fails ? not_found("rank 1 is gone") : Status(); };
    Trainer trainer = must(Trainer::create(small_network(), options));
    const std::vector<float> before = weights(trainer);
    const Data data(2, 9);
    const Result<double> loss = data.step(trainer, 0, 2);
    ASSERT_FALSE(loss.ok());
    EXPECT_EQ(loss.status().code(), Code::not_found);
    EXPECT_EQ(loss.status().message(), "rank 1 is gone");
    EXPECT_EQ(weights(trainer), before);
    fails = false;
    EXPECT_TRUE(data.step(trainer, 0, 2).ok());
    EXPECT_NE(weights(trainer), before);
  }
}

// However a step ends, no sum continues to write to its memory.
TEST(AllReduce, AStepThatFailsWaitsForItsSums) {
  for (const bool is_stopped : {false, true}) {
    TrainOptions options;
    std::vector<std::string> begun;
    int waits = 0;
    std::stop_source stop;
    options.all_reduce.ranks = 2;
    options.all_reduce.bucket_bytes = 0;
    options.all_reduce.begin = [&](std::string_view name, const Tensor&) -> Status {
      if (!is_stopped && begun.size() == 2) return not_found("rank 1 is gone");
      begun.emplace_back(name);
      if (is_stopped) stop.request_stop();
      return {};
    };
    options.all_reduce.wait = [&]() -> Status {
      begun.clear();
      ++waits;
      return {};
    };
    Trainer trainer = must(Trainer::create(small_network(), options));
    const std::vector<float> before = weights(trainer);
    const Data data(2, 9);
    const Result<double> loss = data.step(trainer, 0, 2, stop.get_token());
    ASSERT_FALSE(loss.ok());
    EXPECT_EQ(loss.status().code(), is_stopped ? Code::cancelled : Code::not_found);
    EXPECT_TRUE(begun.empty());
    EXPECT_EQ(waits, 1);
    EXPECT_EQ(weights(trainer), before);
  }
}

// A model with dropout, and with batch_norm, whose running statistics are states.
Model network_with_states() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 5});
  const Value w1 = g.parameter("w1", f32, {7, 5}, init::kaiming_uniform(1));
  const Value w2 = g.parameter("w2", f32, {3, 7}, init::kaiming_uniform(3));
  const Value mean = g.buffer("mean", *TensorData::allocate(f32, {7}));
  const Value variance = g.buffer("variance", *TensorData::allocate(f32, {7}));
  const BatchNorm norm =
      batch_norm(g.call("linear", {x, w1}), g.parameter("scale", f32, {7}, init::constant(1)),
                 g.parameter("shift", f32, {7}), mean, variance, true);
  g.assign(mean, norm.new_mean);
  g.assign(variance, norm.new_var);
  g.output("y", g.call("linear", {dropout(norm.y, 0.3, true), w2}));
  return *Model::from_graph(std::move(g));
}

TEST(AllReduce, AStepThatFailsChangesNothing) {
  int failed = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(str_cat("case ", static_cast<int64_t>(seed)));
    std::mt19937 random(seed);
    const auto any = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    TrainOptions options;
    options.optimizer = any(2) ? adam(0.01) : sgd(0.05, 0.9);
    options.accumulate = 1 + any(2);
    options.session.threads = 1 + any(2);
    const int64_t buckets[] = {0, 100, 1 << 20};
    options.all_reduce.bucket_bytes = buckets[any(3)];
    int calls_left = 0;  // 0: no call of begin() or wait() fails
    std::stop_source stop;
    const bool stops = any(3) == 0;
    const auto call = [&]() -> Status {
      if (calls_left == 0 || --calls_left > 0) return {};
      if (!stops) return not_found("rank 1 is gone");
      stop.request_stop();
      return {};
    };
    options.all_reduce.begin = [&](std::string_view, const Tensor&) { return call(); };
    options.all_reduce.wait = call;
    Result<Trainer> whole = Trainer::create(network_with_states(), options);
    Result<Trainer> failing = Trainer::create(network_with_states(), options);
    ASSERT_TRUE(whole.ok() && failing.ok()) << whole.status().message();
    const Data data(40, seed);
    for (int64_t step = 0; step < 6; ++step) {
      const int64_t rows = 2 + any(4);
      const double loss = must(data.step(*whole, step * 5, rows));
      calls_left = any(6);
      stop = std::stop_source();
      Result<double> other = data.step(*failing, step * 5, rows, stop.get_token());
      calls_left = 0;
      failed += !other.ok();
      if (!other.ok()) other = data.step(*failing, step * 5, rows);
      ASSERT_TRUE(other.ok()) << other.status().message();
      EXPECT_EQ(loss, *other) << "step " << step;
    }
    EXPECT_EQ(weights(*whole), weights(*failing));
    for (const char* name : {"mean", "variance"}) {
      const Tensor a = *whole->session().value(name), b = *failing->session().value(name);
      EXPECT_TRUE(std::equal(a.as<float>(), a.as<float>() + 7, b.as<float>())) << name;
    }
  }
  EXPECT_GT(failed, 40);
}

TEST(AllReduce, RefusesRanksWithoutAFunction) {
  TrainOptions options;
  options.all_reduce.ranks = 2;
  EXPECT_EQ(Trainer::create(small_network(), options).status().message(),
            "all_reduce has 2 ranks, but no function begin");
  options.all_reduce.ranks = 0;
  EXPECT_EQ(Trainer::create(small_network(), options).status().message(),
            "all_reduce: ranks is 0, but must be 1 or more");
  options.all_reduce.ranks = 1;
  options.all_reduce.bucket_bytes = -1;
  EXPECT_EQ(Trainer::create(small_network(), options).status().message(),
            "all_reduce: bucket_bytes is -1, but must be 0 or more");
}

}  // namespace
}  // namespace hg
