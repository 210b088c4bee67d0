// SPDX-License-Identifier: Apache-2.0
// Sessions that share weights, pools of them, models in borrowed memory, and runs that are stopped.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "hg/hg.h"

namespace hg {
namespace {

using Floats = std::vector<float>;

Model model_of(Graph graph) {
  EXPECT_TRUE(graph.status().ok()) << graph.status().message();
  return *Model::from_graph(std::move(graph));
}

// Convolutions with batch norms that fold, products that pack, and a loop with a product inside.
Model network(const Dim& n) {
  Graph g;
  const Value x = g.input("x", f32, {n, 8, 12, 12});
  const auto channels = [&](const char* name, double low) {
    return g.parameter(name, f32, {16}, init::uniform(low, 1, 7));
  };
  Value y = conv(x, g.parameter("conv", f32, {16, 8, 3, 3}, init::kaiming_uniform(1)));
  y = relu(
      batch_norm(y, channels("g", 0.5), channels("b", -1), channels("m", -1), channels("v", 0.5))
          .y);
  y = linear(mean(y, {2, 3}), g.parameter("w", f32, {64, 16}, init::uniform(-1, 1, 2)));
  auto body = std::make_shared<Graph>();
  const Value state = body->input("", f32, {n, 64}), round = body->input("", i64, {});
  const Value w = body->parameter("inner", f32, {64, 64}, init::uniform(-0.1, 0.1, 5));
  const Value next = round + body->scalar(int64_t{1}, i64);
  body->output("", lt(next, body->scalar(int64_t{3}, i64)));
  body->output("", tanh(linear(state, w)));
  body->output("", next);
  const Value start[] = {g.constant(*TensorData::allocate(boolean, {})), y,
                         g.scalar(int64_t{0}, i64)};
  *g.constant_of(start[0].id())->tensor.as<bool>() = true;
  const Value looped = g.calls("while", start, {}, {body})[0];
  g.output("y", looped);
  return model_of(std::move(g));
}

Floats ramp(int64_t n, int seed) {
  Floats x(static_cast<size_t>(n * 8 * 12 * 12));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>((i * 37 + static_cast<size_t>(seed) * 101) % 97) / 48 - 1;
  return x;
}

Floats run(Session& session, const Floats& x, int64_t n) {
  EXPECT_TRUE(session.set_input("x", view(x, {n, 8, 12, 12})).ok());
  const Status status = session.run();
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok()) return {};
  const Tensor y = *session.output("y");
  Floats values(static_cast<size_t>(y.count()));
  copy_elements(y, view(values, y.shape));
  return values;
}

TEST(Share, OneCopyOfPackedWeightsAndTheSameBits) {
  for (const bool fixed : {true, false}) {
    const Model model = network(fixed ? Dim(2) : Dim("n"));
    Session first = *Session::create(model, {.threads = 1});
    const Floats x = ramp(2, 1);
    if (!fixed) {  // from before anything is packed
      Session early = *first.share();
      EXPECT_EQ(run(early, x, 2).size(), 128u);
    }
    const Floats expected = run(first, x, 2);
    const int64_t packed = first.memory()->packed_bytes;
    EXPECT_GT(packed, 0);
    std::vector<Session> others;
    for (int i = 0; i < 3; ++i) others.push_back(*first.share());
    for (Session& other : others) EXPECT_EQ(run(other, x, 2), expected);
    EXPECT_EQ(first.memory()->packed_bytes, packed);
    for (Session& other : others) EXPECT_EQ(other.memory()->packed_bytes, packed);
    Session last = *others[2].share();
    first = *Session::create(model, {.threads = 1});  // the first of them is gone
    others.clear();
    EXPECT_EQ(run(last, x, 2), expected);
    EXPECT_EQ(run(first, x, 2), expected);
  }
}

TEST(Share, StatesAreEachSessionsOwn) {
  Graph g;
  const Value total = g.buffer("total", *TensorData::allocate(f32, {1}));
  const Value next = total + g.input("x", f32, {1});
  g.assign(total, next);
  g.output("y", next);
  Session first = *Session::create(model_of(std::move(g)));
  const float one = 1;
  const auto add = [&](Session& session) {
    EXPECT_TRUE(session.set_input("x", view(&one, f32, {1})).ok());
    EXPECT_TRUE(session.run().ok());
    return *session.output("y")->as<float>();
  };
  EXPECT_EQ(add(first), 1);
  Session second = *first.share();
  EXPECT_EQ(add(first), 2);
  EXPECT_EQ(add(first), 3);
  EXPECT_EQ(add(second), 2);
  EXPECT_EQ(*second.value("total")->as<float>(), 2);
}

TEST(SessionPool, ServesManyThreads) {
  const Model model = network("n");
  SessionPool pool = *SessionPool::create(model, {.threads = 1}, 3);
  std::vector<Floats> expected;
  Session alone = *Session::create(model, {.threads = 1});
  for (int i = 0; i < 6; ++i) expected.push_back(run(alone, ramp(1 + i % 3, i), 1 + i % 3));
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < 8; ++k) {
        const int i = (t + k) % 6;
        SessionPool::Lease session = pool.acquire();
        right += run(*session, ramp(1 + i % 3, i), 1 + i % 3) == expected[static_cast<size_t>(i)];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 48);
  SessionPool::Lease session = pool.acquire();
  EXPECT_EQ(session->run().message(), "input 'x' is not set");
  EXPECT_FALSE(SessionPool::create(model, {}, 0).ok());
}

TEST(Model, BorrowsWhatTheHostHas) {
  const Model model = network(2);
  const std::vector<std::byte> bytes = *model.serialize();
  std::vector<std::byte> all(bytes.size() + 128);
  const size_t begin = 64 - reinterpret_cast<uintptr_t>(all.data()) % 64;
  std::memcpy(all.data() + begin, bytes.data(), bytes.size());
  const std::span<const std::byte> lent(all.data() + begin, bytes.size());
  const Result<Model> borrowed = Model::borrow(lent);
  ASSERT_TRUE(borrowed.ok()) << borrowed.status().message();
  for (const State& state : borrowed->graph().states()) {
    const auto* data = static_cast<const std::byte*>(state.data.tensor.data);
    EXPECT_TRUE(data >= lent.data() && data < lent.data() + lent.size()) << state.name;
  }
  Session session = *Session::create(*borrowed, {.threads = 1}),
          own = *Session::create(model, {.threads = 1});
  const Floats x = ramp(2, 3);
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

// y = x, which asks the run to stop at its `stop_at`-th call.
const OpDef kTick = {.name = "test.tick",
                     .signature = "test.tick(x) -> y",
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
      std::memcpy(c.out(0).data, c.in(0).data, static_cast<size_t>(c.in(0).bytes()));
    }};

TEST(Stop, ARunEndsAfterTheNodeAtWork) {
  Registry registry;
  ASSERT_TRUE(registry.add(kTick).ok() && registry.add(kTickKernel).ok());
  Graph g(registry);
  Value y = g.input("x", f32, {4});
  for (int i = 0; i < 10; ++i) y = g.call("test.tick", {y});
  g.output("y", y);
  Session session = *Session::create(model_of(std::move(g)), {.threads = 1});
  const Floats x(4, 1);
  ASSERT_TRUE(session.set_input("x", view(x, {4})).ok());
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

// A training that was stopped anywhere and went on has the same bits as one that was not.
TEST(Stop, AStoppedFitGoesOnExactly) {
  Registry registry;
  ASSERT_TRUE(registry.add(kTick).ok() && registry.add(kTickKernel).ok());
  const auto model = [&] {
    Graph g(registry);
    Value y = g.input("x", f32, {"n", 3});
    for (int i = 0; i < 3; ++i) {
      const std::string name = text("w", i);
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
