// SPDX-License-Identifier: Apache-2.0
// Sessions that share weights, pools of sessions, models in borrowed memory, and runs that are
// observed and stopped.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "hg/session_pool.h"
#include "hg/train.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/must.h"
#include "tests/support/shared_network.h"
#include "tests/support/temporary_file.h"

namespace hg {
namespace {

using Floats = std::vector<float>;

Model model_of(Graph graph) { return must(Model::from_graph(std::move(graph))); }

Floats run(Session& session, const Floats& x, int64_t n) {
  EXPECT_TRUE(
      session.set_input("x", view(x, {n, kNetworkChannels, kNetworkSize, kNetworkSize})).ok());
  const Status status = session.run();
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok()) return {};
  const Tensor y = *session.output("y");
  Floats values(y.count());
  copy_elements(y, view(values, y.shape));
  return values;
}

// The host's memory, with a count of bytes.
struct Counted {
  std::atomic<int64_t> live{0};
  Allocator allocator() {
    return {[](void* host, size_t bytes) -> void* {
              static_cast<Counted*>(host)->live += static_cast<int64_t>(bytes);
              return std::aligned_alloc(64, bytes);
            },
            [](void* host, void* memory, size_t bytes) {
              static_cast<Counted*>(host)->live -= static_cast<int64_t>(bytes);
              std::free(memory);
            },
            this};
  }
};

TEST(Share, OneCopyOfPackedWeightsAndTheSameBits) {
  for (const bool fixed : {true, false}) {
    const Model model = shared_network(fixed ? Dim(2) : Dim("n"));
    const Floats x = network_input(2, 1);
    Counted memory;
    const SessionOptions options = {.threads = 1, .allocator = memory.allocator()};
    std::vector<Session> sessions;
    sessions.push_back(*Session::create(model, options));
    const Floats expected = run(sessions[0], x, 2);
    const int64_t packed = sessions[0].memory()->packed_bytes;
    const int64_t first = memory.live;
    EXPECT_GT(packed, 0);
    for (int i = 0; i < 3; ++i) {
      sessions.push_back(*Session::create(model, options));
      EXPECT_EQ(run(sessions.back(), x, 2), expected);
      EXPECT_EQ(sessions.back().memory()->packed_bytes, packed);
    }
    // Weights that are packed both in the loop's body and outside of it exist once.
    const int64_t other = (memory.live - first) / 3;
    EXPECT_LE(other, first - packed);
    EXPECT_EQ(memory.live, first + 3 * other);
    Session copied = *Session::create(Model(model), options);
    EXPECT_EQ(run(copied, x, 2), expected);
    EXPECT_EQ(memory.live, first + 4 * other);
    sessions.erase(sessions.begin(), sessions.begin() + 3);  // those that packed are gone
    EXPECT_EQ(run(sessions.back(), x, 2), expected);
    sessions.push_back(*Session::create(model, options));
    EXPECT_EQ(run(sessions.back(), x, 2), expected);
    EXPECT_EQ(memory.live, first + 2 * other);
    sessions.clear();
    EXPECT_EQ(run(copied, x, 2), expected);
    copied = *Session::create(model, {.threads = 1});
    EXPECT_EQ(memory.live, 0);
    EXPECT_EQ(run(copied, x, 2), expected);
  }
}

TEST(Share, PackedWeightsOfAFile) {
  constexpr int64_t kSamples = 32, kProductBytes = 64 * 16 * 4;
  const test::TemporaryFile file("share");
  std::string said;
  const SessionOptions options = {.threads = 1,
                                  .packed = file.path(),
                                  .log = {[](void* host, LogLevel level, const char* message) {
                                            if (level == LogLevel::warning)
                                              *static_cast<std::string*>(host) += message;
                                          },
                                          &said}};
  const Floats x = network_input(kSamples, 1);
  const auto plain = [&](const Model& model) {
    Session session = must(Session::create(model, {.threads = 1}));
    EXPECT_EQ(session.save_packed().code(), Code::invalid_argument);
    return run(session, x, kSamples);
  };
  const auto mapped = [&](const Model& model) {
    const Floats wanted = plain(model);
    Session session = must(Session::create(model, options));
    EXPECT_EQ(run(session, x, kSamples), wanted);
    const Status saved = session.save_packed();
    EXPECT_TRUE(saved.ok()) << saved.message();
    return session.memory()->mapped_bytes;
  };
  EXPECT_EQ(mapped(shared_network(kSamples)), 0);
  const std::string bytes = file.content();
  EXPECT_EQ(said, "");  // a missing file is no news
  const int64_t all = mapped(shared_network(kSamples));
  EXPECT_GT(all, kProductBytes);
  EXPECT_EQ(file.content(), bytes);  // not written again

  // Other weights and another graph; the file is replaced.
  EXPECT_EQ(mapped(shared_network(kSamples, 3)), all - kProductBytes);
  EXPECT_EQ(mapped(shared_network(kSamples, 3)), all);
  EXPECT_EQ(mapped(shared_network("n")), 0);
  EXPECT_EQ(said, "");

  limit_isa(Isa::baseline);
  EXPECT_EQ(mapped(shared_network(kSamples)), 0);
  limit_isa(kBestIsa);
  EXPECT_EQ(said, str_cat("packed weights of '", file.path(),
                          "' are not used: another build of the library, or other instruction "
                          "sets, wrote them"));

  for (size_t i = 30; i < bytes.size(); i += 331) {
    std::string damaged = bytes;
    damaged[i] ^= static_cast<char>(1 << i % 8);
    file.set_content(damaged);
    EXPECT_LE(mapped(shared_network(kSamples)), all);
  }
  for (size_t length = 100; length < bytes.size(); length += 2003) {
    file.set_content(bytes.substr(0, length));
    EXPECT_EQ(mapped(shared_network(kSamples)), 0) << length;
  }

  file.set_content("a file that somebody needs");
  Session session = must(Session::create(shared_network(kSamples), options));
  run(session, x, kSamples);
  EXPECT_EQ(session.save_packed().message(),
            str_cat("'", file.path(), "' is not a file of packed weights; it was left unchanged"));
  EXPECT_EQ(file.content(), "a file that somebody needs");
  std::filesystem::remove(file.path());
  ASSERT_EQ(mkfifo(file.path().c_str(), 0600), 0);
  Session other = must(Session::create(shared_network(kSamples, 4), options));  // does not wait
  run(other, x, kSamples);
  EXPECT_EQ(other.save_packed().code(), Code::invalid_argument);
}

// A start with packs does not read weights whose checksum the model's file records, but packs of
// damaged weights are not those of sound ones.
TEST(Share, PackedWeightsOfAModelFile) {
  constexpr int64_t kSamples = 32;
  const test::TemporaryFile file("share_model"), packed("share_packs");
  const Floats x = network_input(kSamples, 1);
  Floats y;
  const auto mapped = [&](const std::string& content) {
    file.set_content(content);
    const Model model = must(Model::load(file.path()));
    Session session = must(Session::create(model, {.threads = 1, .packed = packed.path()}));
    y = run(session, x, kSamples);
    must(session.save_packed());
    return session.memory()->mapped_bytes;
  };
  const Model model = shared_network(kSamples);
  must(model.save(file.path()));
  const std::string sound = file.content();
  std::string damaged = sound;
  for (const State& state : model.graph().states()) {
    if (state.name != "w") continue;
    const Tensor& w = state.data.tensor;
    const std::string_view bytes(w.as<const char>(), static_cast<size_t>(w.bytes()));
    const size_t at = sound.find(bytes);
    ASSERT_NE(at, std::string::npos);
    damaged[at + 3] ^= 1 << 6;  // in the exponent
  }
  file.set_content(damaged);
  EXPECT_EQ(
      Model::load(file.path(), Registry::built_in(), {.verify_weights = true}).status().code(),
      Code::corrupt_model);

  Session session = must(Session::create(model, {.threads = 1}));
  const Floats expected = run(session, x, kSamples);
  EXPECT_EQ(mapped(damaged), 0);
  EXPECT_NE(y, expected);
  const int64_t others = mapped(sound);
  EXPECT_EQ(y, expected);
  const int64_t all = mapped(sound);
  EXPECT_EQ(y, expected);
  EXPECT_LT(others, all);
  EXPECT_EQ(mapped(damaged), all);
  EXPECT_EQ(y, expected);
}

TEST(Share, NotWithOtherOptions) {
  const Model model = shared_network("n");
  Counted memory;
  SessionOptions options = {.threads = 1, .allocator = memory.allocator(), .dims = {{"n", 3}}};
  Session first = *Session::create(model, options);
  const int64_t one = memory.live;
  options.seed = 7;
  options.first_run = 3;
  options.dims = {{"n", 2}};
  Session like = *Session::create(model, options);
  EXPECT_LE(memory.live - one, one - first.memory()->packed_bytes);
  const int64_t two = memory.live;
  options.profile = true;
  options.dims = {{"n", 3}};
  Session other = *Session::create(model, options);
  EXPECT_EQ(memory.live, two + one);
  EXPECT_EQ(run(like, network_input(2, 1), 2), run(other, network_input(2, 1), 2));
}

TEST(Share, NotWithAModelThatHasChanged) {
  Graph g;
  const Value x = g.input("x", f32, {1}), y = x + x;
  g.output("y", y);
  Model model = model_of(std::move(g));
  Model copy = model;
  Session first = *Session::create(model, {.threads = 1}),
          of_copy = *Session::create(copy, {.threads = 1});
  Graph& changed = model.graph();
  changed.output("z", y * 3);
  Session second = *Session::create(model, {.threads = 1});
  changed.output("w", y);  // a change that adds no node
  Session third = *Session::create(model, {.threads = 1}),
          last = *Session::create(copy, {.threads = 1});
  const auto outputs = [](const Session& session) { return session.output_count(); };
  EXPECT_EQ(outputs(first), 1);
  EXPECT_EQ(outputs(of_copy), 1);
  EXPECT_EQ(outputs(second), 2);
  EXPECT_EQ(outputs(third), 3);
  EXPECT_EQ(outputs(last), 1);
  const float two = 2;
  ASSERT_TRUE(third.set_input("x", view(&two, f32, {1})).ok() && third.run().ok());
  EXPECT_EQ(*third.output("w")->as<float>(), 4);
}

// Sessions of one compiled model plan for sizes in any order.
TEST(Share, WhateverSizesEachPlansFor) {
  const Model model = shared_network("n");
  std::vector<Floats> expected;
  for (int n = 1; n <= 5; ++n) {
    Session alone = *Session::create(model, {.threads = 1});
    expected.push_back(run(alone, network_input(n, n), n));
  }
  std::vector<Session> sessions;
  for (int i = 0; i < 5; ++i) sessions.push_back(*Session::create(model, {.threads = 1}));
  for (int round = 0; round < 5; ++round)
    for (int i = 0; i < 5; ++i) {
      const int n = 1 + (i + 2 * round) % 5;
      EXPECT_EQ(run(sessions[i], network_input(n, n), n), expected[n - 1]);
    }
}

TEST(Share, StatesAreEachSessionsOwn) {
  Graph g;
  const Value total = g.buffer("total", *TensorData::allocate(f32, {1}));
  const Value next = total + g.input("x", f32, {1});
  g.assign(total, next);
  g.output("y", next);
  const Model model = model_of(std::move(g));
  Session first = *Session::create(model);
  const float one = 1;
  const auto add = [&](Session& session) {
    EXPECT_TRUE(session.set_input("x", view(&one, f32, {1})).ok());
    EXPECT_TRUE(session.run().ok());
    return *session.output("y")->as<float>();
  };
  EXPECT_EQ(add(first), 1);
  Session second = *Session::create(model);
  EXPECT_EQ(add(first), 2);
  EXPECT_EQ(add(first), 3);
  EXPECT_EQ(add(second), 1);
  EXPECT_EQ(*second.value("total")->as<float>(), 1);
}

TEST(SessionPool, ServesManyThreads) {
  const Model model = shared_network("n");
  SessionPool pool = *SessionPool::create(model, {.threads = 1}, 3);
  std::vector<Floats> expected;
  Session alone = *Session::create(model, {.threads = 1});
  for (int i = 0; i < 6; ++i)
    expected.push_back(run(alone, network_input(1 + i % 3, i), 1 + i % 3));
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < 8; ++k) {
        const int i = (t + k) % 6;
        SessionPool::Lease session = pool.acquire();
        right += run(*session, network_input(1 + i % 3, i), 1 + i % 3) == expected[i];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 48);
  SessionPool::Lease session = pool.acquire();
  EXPECT_EQ(session->run().message(), "input 'x' is not set");
  EXPECT_FALSE(SessionPool::create(model, {}, 0).ok());
}

TEST(Model, BorrowsWhatTheHostHas) {
  const Model model = shared_network(2);
  const std::vector<std::byte> bytes = *model.serialize();
  std::vector<std::byte> all(bytes.size() + 128);
  const size_t begin = 64 - reinterpret_cast<uintptr_t>(all.data()) % 64;
  std::memcpy(all.data() + begin, bytes.data(), bytes.size());
  const std::span<const std::byte> lent(all.data() + begin, bytes.size());
  const Model borrowed = must(Model::borrow(lent));
  for (const State& state : borrowed.graph().states()) {
    const auto* data = static_cast<const std::byte*>(state.data.tensor.data);
    EXPECT_TRUE(data >= lent.data() && data < lent.data() + lent.size()) << state.name;
  }
  Session session = *Session::create(borrowed, {.threads = 1}),
          own = *Session::create(model, {.threads = 1});
  const Floats x = network_input(2, 3);
  EXPECT_EQ(run(session, x, 2), run(own, x, 2));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), lent.begin()));
  const Result<Model> odd = Model::borrow({all.data() + begin + 8, bytes.size()});
  EXPECT_EQ(odd.status().message(),
            "the model to borrow lies 8 bytes after a multiple of 64, where it must begin");
  EXPECT_EQ(Model::borrow(lent.first(100)).status().code(), Code::corrupt_model);
}

// -- Stopping -------------------------------------------------------------------------------------

std::atomic<int> calls{0};
std::stop_source* to_stop = nullptr;
int stop_at = 0;

// y = x; the op asks the run to stop at its `stop_at`-th call.
const OpDef kTick = {.signature = "test.tick(x) -> y",
                     .infer = [](InferContext& c) -> Status {
                       c.out(0) = c.in(0);
                       return {};
                     },
                     .grad = [](GradContext& c) -> Status {
                       c.set_grad(0, c.dout(0));
                       return {};
                     }};
const KernelDef kTickKernel = {
    .op = "test.tick", .name = "plain", .run = [](const RunContext& c) noexcept {
      if (++calls == stop_at) to_stop->request_stop();
      std::memcpy(c.out(0).data, c.in(0).data, c.in(0).bytes());
    }};

// A session of ten such nodes, with this kernel.
Session ten_ticks(Registry& registry, const KernelDef& kernel, const Floats& x) {
  EXPECT_TRUE(registry.add(kTick).ok() && registry.add(kernel).ok());
  Graph g(registry);
  Value y = g.input("x", f32, {4});
  for (int i = 0; i < 10; ++i) y = g.call("test.tick", {y});
  g.output("y", y);
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  EXPECT_TRUE(session.set_input("x", view(x, {4})).ok());
  return session;
}

TEST(Stop, ARunEndsAfterTheNodeAtWork) {
  Registry registry;
  const Floats x(4, 1);
  Session session = ten_ticks(registry, kTickKernel, x);
  for (stop_at = 1; stop_at <= 10; ++stop_at) {
    std::stop_source source;
    to_stop = &source;
    calls = 0;
    const Status status = session.run(source.get_token());
    EXPECT_EQ(calls, stop_at);
    EXPECT_EQ(status.code(), stop_at < 10 ? Code::cancelled : Code::ok) << status.message();
    EXPECT_EQ(session.output("y").ok(), stop_at == 10);
  }
  std::stop_source source;
  source.request_stop();
  calls = 0;
  EXPECT_EQ(session.run(source.get_token()).code(), Code::cancelled);
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(session.run().ok());
}

TEST(Stop, ALoopWithoutEndEnds) {
  Graph g;
  const Value x = g.input("x", f32, {1});
  auto body = std::make_shared<Graph>();
  const Value v = body->input("", f32, {1});
  const Value yes = body->constant(*TensorData::allocate(boolean, {}));
  *body->constant_of(yes.id())->tensor.as<bool>() = true;
  body->output("", yes);
  body->output("", v + v);
  const Value go = g.constant(*TensorData::allocate(boolean, {}));
  *g.constant_of(go.id())->tensor.as<bool>() = true;
  const Value inputs[] = {go, x};
  g.output("y", g.calls("while", inputs, {}, {body})[0]);
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  const float one = 1;
  ASSERT_TRUE(session.set_input("x", view(&one, f32, {1})).ok());
  std::stop_source source;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    source.request_stop();
  });
  EXPECT_EQ(session.run(source.get_token()).code(), Code::cancelled);
  other.join();
}

// -- Progress -------------------------------------------------------------------------------------

RunProgress* looked_at = nullptr;
std::vector<std::pair<int64_t, int64_t>> looks;

const KernelDef kLookKernel = {
    .op = "test.tick", .name = "look", .run = [](const RunContext& c) noexcept {
      looks.emplace_back(looked_at->done(), looked_at->known());
      std::memcpy(c.out(0).data, c.in(0).data, c.in(0).bytes());
    }};

TEST(Progress, CountsEachNodeAndEachRound) {
  Registry registry;
  ASSERT_TRUE(registry.add(kTick).ok() && registry.add(kLookKernel).ok());
  Graph g(registry);
  Value y = g.input("x", f32, {4});
  for (int i = 0; i < 5; ++i) y = g.call("test.tick", {y});
  const auto below = [](Graph& b, std::span<const Value> xs) {
    return std::vector<Value>{lt(xs[1], b.scalar(int64_t{3}, i64))};
  };
  y = while_loop({y, g.scalar(int64_t{0}, i64)}, {}, below,
                 [](Graph& b, std::span<const Value> xs) {
                   return std::vector<Value>{b.call("test.tick", {xs[0]}), xs[1] + 1};
                 })
          .at(0);
  g.output("y", y);
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  const Floats x(4, 1);
  ASSERT_TRUE(session.set_input("x", view(x, {4})).ok());
  for (int again = 0; again < 2; ++again) {
    RunProgress progress;
    looked_at = &progress;
    looks.clear();
    ASSERT_TRUE(session.run({}, &progress).ok());
    ASSERT_EQ(looks.size(), 8u);
    EXPECT_EQ(looks[0].first, 0);
    for (size_t i = 1; i < looks.size(); ++i) {
      EXPECT_GT(looks[i].first, looks[i - 1].first);
      EXPECT_GE(looks[i].second, looks[i - 1].second);
      EXPECT_LT(looks[i].first, looks[i].second);
    }
    EXPECT_GT(looks[7].second, looks[4].second);  // each round of the loop adds its steps
    EXPECT_EQ(progress.done(), progress.known());
  }
  looks.reserve(100);
  RunProgress unused;
  looked_at = &unused;
  EXPECT_TRUE(session.run().ok());
  EXPECT_EQ(unused.known(), 0);
}

// Another thread observes a run's progress and asks it to stop. No node begins after the current
// one.
std::atomic<int> begun{0};
std::atomic<bool> may_go_on{false};

const KernelDef kWaitKernel = {
    .op = "test.tick", .name = "wait", .run = [](const RunContext& c) noexcept {
      if (++begun == 4)
        while (!may_go_on) std::this_thread::yield();
      std::memcpy(c.out(0).data, c.in(0).data, c.in(0).bytes());
    }};

TEST(Progress, AnotherThreadSeesItAndStopsTheRunWithinANode) {
  Registry registry;
  const Floats x(4, 1);
  Session session = ten_ticks(registry, kWaitKernel, x);
  RunProgress progress;
  std::stop_source source;
  begun = 0;
  may_go_on = false;
  std::thread other([&] {
    while (begun < 4) std::this_thread::yield();
    EXPECT_EQ(progress.done(), 3);
    EXPECT_EQ(progress.known(), 10);
    source.request_stop();
    may_go_on = true;
  });
  EXPECT_EQ(session.run(source.get_token(), &progress).code(), Code::cancelled);
  other.join();
  EXPECT_EQ(begun, 4);
  EXPECT_EQ(progress.done(), 4);
}

// A training may stop anywhere; after it continues, it has the same bits as without a stop.
TEST(Stop, AStoppedFitGoesOnExactly) {
  Registry registry;
  ASSERT_TRUE(registry.add(kTick).ok() && registry.add(kTickKernel).ok());
  const auto model = [&] {
    Graph g(registry);
    Value y = g.input("x", f32, {"n", 3});
    for (int i = 0; i < 3; ++i) {
      const std::string name = str_cat("w", i);
      y = tanh(linear(y, g.parameter(name, f32, {3, 3}, init::uniform(-1, 1, 5))));
      y = g.call("test.tick", {y});
    }
    g.output("y", y);
    return model_of(std::move(g));
  }();
  TrainOptions options;
  options.optimizer = adamw(0.05);
  options.session.threads = 1;
  Floats x(48), y(48);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) / 7, y[i] = x[i] * x[i];
  const Dataset data = {{view(x, {16, 3})}, {view(y, {16, 3})}};
  const auto weights = [](const Trainer& trainer) {
    Floats all;
    for (const char* name : {"w0", "w1", "w2"}) {
      const Tensor w = *trainer.session().value(name);
      all.insert(all.end(), w.as<float>(), w.as<float>() + w.count());
    }
    return all;
  };
  stop_at = -1;
  Trainer whole = *Trainer::create(model, options);
  ASSERT_TRUE(whole.fit(data, {.epochs = 3, .batch = 4}).ok());
  int stopped = 0;
  for (stop_at = 1; stop_at < 40; stop_at += 3) {
    Trainer trainer = *Trainer::create(model, options);
    std::stop_source source;
    to_stop = &source;
    calls = 0;
    const Status status = trainer.fit(data, {.epochs = 3, .batch = 4, .stop = source.get_token()});
    stopped += status.code() == Code::cancelled;
    if (!status.ok()) {
      ASSERT_TRUE(trainer.fit(data, {.epochs = 3, .batch = 4, .finish = true}).ok());
    }
    EXPECT_EQ(weights(trainer), weights(whole)) << "stopped at " << stop_at;
    EXPECT_EQ(trainer.updates(), whole.updates());
  }
  EXPECT_GT(stopped, 5);
}

}  // namespace
}  // namespace hg
