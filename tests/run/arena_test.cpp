// SPDX-License-Identifier: Apache-2.0
// When sessions allocate and free their arenas, which hooks are called, step-by-step runs, and
// plans that sessions adopt from each other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "hg/create.h"
#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {
namespace {

// The arenas that exist now, and how many were reported as allocated and freed.
struct Watch {
  std::map<void*, size_t> live;
  int allocated = 0, freed = 0;

  ArenaObserver observer() {
    return {[](void* host, void* memory, size_t bytes) {
              auto& watch = *static_cast<Watch*>(host);
              ++watch.allocated;
              EXPECT_TRUE(watch.live.emplace(memory, bytes).second);
            },
            [](void* host, void* memory, size_t bytes) {
              auto& watch = *static_cast<Watch*>(host);
              ++watch.freed;
              const auto found = watch.live.find(memory);
              ASSERT_NE(found, watch.live.end());
              EXPECT_EQ(found->second, bytes);
              watch.live.erase(found);
            },
            this};
  }
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& [memory, bytes] : live) sum += bytes;
    return sum;
  }
};

// A product, an activation, and a second part whose size depends on data.
Model network() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 8});
  const Value w = g.parameter("w", f32, {8, 8}, init::uniform(-1, 1, 3));
  const Value hidden = softmax(linear(x, w), 1);
  const Value places = g.call("nonzero", {gt(hidden, g.scalar(0.125))});
  g.output("hidden", tanh(linear(hidden, w)));
  g.output("places", places + g.scalar(int64_t{1}, i64));
  return must(Model::from_graph(std::move(g)));
}

TensorData numbers(int64_t rows) { return *randn({rows, 8}, static_cast<uint64_t>(rows))->data(); }

std::vector<std::byte> bytes_of(const Session& session) {
  std::vector<std::byte> all;
  for (int i = 0; i < session.output_count(); ++i) {
    const TensorData copy = *TensorData::copy_of(*session.output(i));
    const auto* const begin = copy.tensor.as<std::byte>();
    all.insert(all.end(), begin, begin + copy.tensor.bytes());
  }
  return all;
}

TEST(Arenas, AreToldOfWhenTheyComeAndGo) {
  Watch watch;
  {
    Session session = *Session::create(
        network(), {.threads = 1, .arena_observer = watch.observer(), .dims = {{"n", 4}}});
    EXPECT_GT(watch.bytes(), 0u);
    const TensorData x = numbers(4), larger = numbers(400);
    ASSERT_TRUE(session.set_input("x", x.tensor).ok());
    ASSERT_TRUE(session.run().ok());
    EXPECT_EQ(watch.bytes(), static_cast<size_t>(session.memory()->arena_bytes + 63) / 64 * 64);
    const auto first = bytes_of(session);
    const int told = watch.allocated;
    ASSERT_TRUE(session.run().ok());
    EXPECT_EQ(watch.allocated, told);  // a run allocates nothing
    session.release_memory();
    EXPECT_TRUE(watch.live.empty());
    EXPECT_FALSE(session.output(0).ok());
    ASSERT_TRUE(session.run().ok());  // with the existing plans
    EXPECT_EQ(bytes_of(session), first);
    ASSERT_TRUE(session.set_input("x", larger.tensor).ok());
    ASSERT_TRUE(session.run().ok());
    EXPECT_GT(watch.freed, 0);
  }
  EXPECT_TRUE(watch.live.empty());
  EXPECT_EQ(watch.allocated, watch.freed);
}

TEST(Arenas, LazyOnesComeWithTheFirstRun) {
  Watch watch;
  Session session = *Session::create(network(), {.threads = 1,
                                                 .arena_observer = watch.observer(),
                                                 .lazy_allocation = true,
                                                 .dims = {{"n", 4}}});
  EXPECT_EQ(watch.allocated, 0);
  EXPECT_GT(session.memory()->arena_bytes, 0);
  const TensorData x = numbers(4);
  ASSERT_TRUE(session.set_input("x", x.tensor).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_GT(watch.bytes(), 0u);
  Session plain = *Session::create(network(), {.threads = 1});
  ASSERT_TRUE(plain.set_input("x", x.tensor).ok());
  ASSERT_TRUE(plain.run().ok());
  EXPECT_EQ(bytes_of(session), bytes_of(plain));
}

TEST(Arenas, NothingIsAllocatedBeforeALimitFails) {
  Watch watch;
  const Status status = Session::create(network(), {.threads = 1,
                                                    .arena_observer = watch.observer(),
                                                    .memory_limit = 64,
                                                    .dims = {{"n", 64}}})
                            .status();
  EXPECT_EQ(status.code(), Code::out_of_memory);
  EXPECT_NE(status.message().find(" 64 bytes"), std::string::npos) << status.message();
  EXPECT_EQ(watch.allocated, 0);
}

TEST(Steps, MakeTheRunThatRunMakes) {
  const Model model = network();
  for (const int threads : {1, 3}) {
    Session whole = *Session::create(model, {.threads = threads});
    Session single = *Session::create(model, {.threads = threads, .keep_all_values = true});
    for (const int64_t rows : {5, 1, 0, 9}) {
      const TensorData x = numbers(rows);
      ASSERT_TRUE(whole.set_input("x", x.tensor).ok());
      ASSERT_TRUE(single.set_input("x", x.tensor).ok());
      ASSERT_TRUE(whole.run().ok());
      std::set<std::string> ops;
      int values = 0;
      for (;;) {
        const std::optional<StepRow> row = must(single.step());
        if (!row.has_value()) break;
        ops.insert(row->op);
        EXPECT_FALSE(row->node.empty());
        EXPECT_GE(row->ms, 0);
        for (const auto& [name, tensor] : row->outputs) values += !name.empty();
      }
      EXPECT_TRUE(ops.contains("softmax")) << threads;
      EXPECT_TRUE(ops.contains("nonzero"));
      EXPECT_GE(values, 4);
      const auto a = bytes_of(whole), b = bytes_of(single);
      ASSERT_EQ(a.size(), b.size());
      const size_t floats = static_cast<size_t>(rows) * 8;
      std::vector<float> left(floats), right(floats);
      std::memcpy(left.data(), a.data(), floats * 4);
      std::memcpy(right.data(), b.data(), floats * 4);
      for (size_t i = 0; i < floats; ++i) EXPECT_NEAR(left[i], right[i], 1e-6);
      EXPECT_TRUE(std::equal(a.begin() + ptrdiff_t(floats) * 4, a.end(),
                             b.begin() + ptrdiff_t(floats) * 4));
    }
  }
}

TEST(Steps, EndAsARunDoes) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value sum = g.buffer("sum", *TensorData::allocate(f32, {4}));
  g.assign(sum, sum + tanh(x));
  g.output("y", exp(softmax(x, 0)));
  Session session = *Session::create(*Model::from_graph(std::move(g)), {.threads = 1});
  const std::vector<float> ones(4, 1);
  ASSERT_TRUE(session.set_input("x", view(ones, {4})).ok());
  const auto step_to_the_end = [&] {
    while (true) {
      const std::optional<StepRow> row = must(session.step());
      if (!row.has_value()) return;
      EXPECT_FALSE(session.output(0).ok());  // it is not computed yet
    }
  };
  step_to_the_end();
  EXPECT_FLOAT_EQ(session.value("sum")->as<float>()[0], std::tanh(1.0f));
  EXPECT_FLOAT_EQ(session.output(0)->as<float>()[0], std::exp(0.25f));
  ASSERT_TRUE((*session.step()).has_value());
  ASSERT_TRUE(session.run().ok());  // starts a new run
  EXPECT_FLOAT_EQ(session.output(0)->as<float>()[0], std::exp(0.25f));
  ASSERT_TRUE((*session.step()).has_value());
  ASSERT_TRUE(session.set_input("x", view(ones, {4})).ok());  // the next step also starts a new run
  step_to_the_end();
  EXPECT_FLOAT_EQ(session.output(0)->as<float>()[0], std::exp(0.25f));
}

// A view of a tensor that is not contiguous reads a copy, and the copy is a step of its own.
TEST(Steps, ShowViewsOfCopiesOnceTheseAreMade) {
  Graph g;
  const Value x = g.input("x", f32, {4, 6});
  const Value flat = reshape(slice(tanh(x), 1, 1, 5, 2), {8});
  g.output("y", exp(flat));
  const std::string name = flat.name();
  Session session = *Session::create(*Model::from_graph(std::move(g)), {.threads = 1});
  for (const float given : {0.5f, -0.25f}) {
    const std::vector<float> all(24, given);
    ASSERT_TRUE(session.set_input("x", view(all, {4, 6})).ok());
    int seen = 0;
    for (;;) {
      const std::optional<StepRow> row = must(session.step());
      if (!row.has_value()) break;
      for (const auto& [value, tensor] : row->outputs) {
        if (value != name) continue;
        ++seen;
        EXPECT_FLOAT_EQ(tensor.as<float>()[7], std::tanh(given));
      }
    }
    EXPECT_EQ(seen, 1);
  }
}

TEST(Plans, OfEqualSessionsAreTakenOver) {
  const Model model = network();
  const TensorData x = numbers(6), other = numbers(7);
  std::vector<std::byte> first;
  std::vector<Session> sessions;
  for (int i = 0; i < 3; ++i) {
    Session session = *Session::create(model, {.threads = 1});
    for (const TensorData* given : {&other, &x}) {
      ASSERT_TRUE(session.set_input("x", given->tensor).ok());
      ASSERT_TRUE(session.run().ok());
    }
    if (i == 0) first = bytes_of(session);
    EXPECT_EQ(bytes_of(session), first);
    EXPECT_EQ(session.memory()->arena_bytes,
              i == 0 ? session.memory()->arena_bytes : sessions[0].memory()->arena_bytes);
    sessions.push_back(std::move(session));
  }
}

TEST(Passes, AreAllLeftOutByAStar) {
  const Model model = network();
  const Session none = *Session::create(model, {.threads = 1, .disabled_passes = {"*"}});
  const Session all = *Session::create(model, {.threads = 1});
  EXPECT_EQ(none.compiled_graph().nodes().size(), model.graph().nodes().size());
  EXPECT_LT(all.compiled_graph().nodes().size(), none.compiled_graph().nodes().size());
}

}  // namespace
}  // namespace hg
