// SPDX-License-Identifier: Apache-2.0
// Plans for ranges of sizes: which sizes share a plan, how much memory it needs, and when sizes
// have their own plans. open_sizes_random_test compares their results.
#include <gtest/gtest.h>

#include <list>
#include <numeric>

#include "hg/hg.h"
#include "hg/stateful.h"
#include "tests/support/allocation_count.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using Floats = std::vector<float>;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// y = two products that widen x [n, 8] and narrow it again, and the sum of x.
Model two_layers() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 8});
  const Value up = g.parameter("up", f32, {64, 8}, init::uniform(-1, 1, 1)),
              down = g.parameter("down", f32, {8, 64}, init::uniform(-1, 1, 2));
  g.output("y", linear(relu(linear(x, up)), down));
  g.output("total", sum(x, {0, 1}));
  return *Model::from_graph(std::move(g));
}

std::list<Floats> inputs_of_sessions;  // sessions borrow them

Floats run_at(Session& session, int64_t n) {
  Floats& x = *inputs_of_sessions.emplace(inputs_of_sessions.end(), n * 8);
  std::iota(x.begin(), x.end(), 0.5f);
  EXPECT_TRUE(session.set_input("x", view(x, {n, 8})).ok());
  must(session.run());
  const Tensor y = *session.output("y");
  return {y.as<float>(), y.as<float>() + y.count()};
}

Floats fresh_at(const Model& model, int64_t n) {
  Session session = *Session::create(model, {.threads = 1});
  return run_at(session, n);
}

TEST(SizeRanges, BeginWithTheSecondSizeOfASymbol) {
  const Model model = two_layers();
  Session session = *Session::create(model, {.threads = 1});
  EXPECT_EQ(run_at(session, 40), fresh_at(model, 40));
  EXPECT_FALSE(contains(session.report(), "planned for n"));
  for (const int64_t n : {41, 64, 33, 50}) {
    EXPECT_EQ(run_at(session, n), fresh_at(model, n));
    EXPECT_TRUE(contains(session.report(), "planned for n from 33 to 64\n")) << session.report();
  }
  EXPECT_EQ(run_at(session, 65), fresh_at(model, 65));
  EXPECT_TRUE(contains(session.report(), "planned for n from 65 to 128\n"));
  for (const int64_t n : {2, 1, 0}) {
    EXPECT_EQ(run_at(session, n), fresh_at(model, n));
    EXPECT_FALSE(contains(session.report(), "planned for n")) << n;
  }
  EXPECT_EQ(run_at(session, 40), fresh_at(model, 40));
}

TEST(SizeRanges, EndWhereTheGraphAllowsNoLargerSize) {
  Model model = two_layers();
  model.graph().guard(Dim("n") + 3, Relation::le, 50, "the test");
  Session session = *Session::create(model, {.threads = 1});
  for (const int64_t n : {40, 41, 47, 33}) EXPECT_EQ(run_at(session, n), fresh_at(model, n));
  EXPECT_TRUE(contains(session.report(), "planned for n from 33 to 47\n")) << session.report();
}

TEST(SizeRanges, OfTheHostArePlannedAtCreationForTheirHighestSize) {
  const Model model = two_layers();
  Session session = *Session::create(model, {.threads = 1, .ranges = {{"n", 0, 100}}});
  Session highest = *Session::create(model, {.threads = 1, .dims = {{"n", 100}}});
  const int64_t arena = highest.memory()->arena_bytes;
  EXPECT_GT(arena, 100 * 64 * 4);
  EXPECT_EQ(session.memory()->arena_bytes, arena);
  const void* at = nullptr;
  for (const int64_t n : {100, 1, 0, 57, 99}) {
    EXPECT_EQ(run_at(session, n), fresh_at(model, n));
    EXPECT_TRUE(contains(session.report(), "planned for n from 0 to 100\n")) << session.report();
    EXPECT_EQ(session.memory()->arena_bytes, arena);
    const Tensor y = *session.output("y");
    EXPECT_EQ(y.shape, (Sizes{n, 8}));
    if (n == 100) at = y.data;
    if (n > 0) {
      EXPECT_EQ(y.data, at) << "the arena moves";
    }
  }
  EXPECT_EQ(run_at(session, 101), fresh_at(model, 101)) << "sizes beyond a range remain valid";
}

TEST(SizeRanges, GiveWayToALimitOfMemory) {
  const Model model = two_layers();
  Session exact = *Session::create(model, {.threads = 1, .dims = {{"n", 40}}});
  const int64_t limit = exact.memory()->peak_bytes + 256;
  Session session = *Session::create(model, {.threads = 1, .memory_limit = limit});
  for (const int64_t n : {39, 40, 38}) {  // 64 would exceed the limit
    EXPECT_EQ(run_at(session, n), fresh_at(model, n));
    EXPECT_FALSE(contains(session.report(), "planned for n"));
    EXPECT_LE(session.memory()->peak_bytes, limit);
  }
  const Result<Session> over =
      Session::create(model, {.threads = 1, .memory_limit = limit, .ranges = {{"n", 0, 64}}});
  ASSERT_FALSE(over.ok());
  EXPECT_TRUE(contains(over.status().message(), "limit")) << over.status().message();
}

TEST(SizeRanges, ThatAreNoneAreRefused) {
  const Model model = two_layers();
  const auto message = [&](std::vector<SizeRange> ranges) {
    const Result<Session> made = Session::create(model, {.ranges = std::move(ranges)});
    return made.ok() ? "" : std::string(made.status().message());
  };
  EXPECT_EQ(message({{"m", 1, 2}}), "there is a range for the size 'm', but the sizes are n");
  EXPECT_EQ(message({{"n", 3, 2}}), "the range of the size 'n' is from 3 to 2");
  EXPECT_EQ(message({{"n", -1, 2}}), "the range of the size 'n' is from -1 to 2");
  EXPECT_EQ(message({{"n", 1, 2}, {"n", 3, 4}}), "the size 'n' has two ranges");
}

// A branch chosen by data, indices whose number data decides, and a buffer.
Model of_all_kinds() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 8});
  const Value seen = g.buffer("seen", *TensorData::allocate(f32, {}));
  const Value found = nonzero(gt(x, g.scalar(100.0)));
  const auto side = [](double factor) {
    auto body = std::make_shared<Graph>();
    body->output("", body->input("", f32, {"n", 8}) * factor);
    return body;
  };
  const Value total = sum(x, {0, 1});
  const Value inputs[] = {gt(total, g.scalar(1e4)), x};
  g.output("y", g.calls("if", inputs, {}, {side(2), side(3)})[0]);
  g.output("found", found * 2);
  g.output("seen", seen);
  g.assign(seen, seen + total);
  return *Model::from_graph(std::move(g));
}

TEST(SizeRanges, ServeBranchesStatesAndSizesOfData) {
  const Model model = of_all_kinds();
  Session session = *Session::create(model, {.threads = 2, .ranges = {{"n", 0, 40}}});
  float seen = 0;
  for (const int64_t n : {40, 3, 20, 0, 20, 12, 13, 40}) {
    Floats expected(static_cast<size_t>(n * 8));
    std::iota(expected.begin(), expected.end(), 0.5f);
    double total = 0;
    int64_t found = 0;
    for (const float x : expected) total += x;
    for (const float x : expected) found += x > 100;
    for (float& x : expected) x *= total > 1e4 ? 2 : 3;
    EXPECT_EQ(run_at(session, n), expected) << n;
    EXPECT_EQ(session.output("found")->shape, (Sizes{found, 2}));
    EXPECT_EQ(*session.output("seen")->as<float>(), seen);
    seen += static_cast<float>(total);
  }
}

// A decoder of three layers that reads one position x [1, 1, 8] after p others, which it keeps.
Model of_a_past() {
  Graph g;
  Value x = g.input("x", f32, {1, 1, 8});
  const Value mask = g.input("mask", boolean, {1, 1, 1, Dim("p") + 1});
  for (int i = 0; i < 3; ++i) {
    const std::string layer = std::to_string(i);
    const auto heads = [&](const std::string& name, uint64_t seed) {
      const Value w = g.parameter(name + layer, f32, {8, 8}, init::uniform(-1, 1, seed));
      return permute(reshape(linear(x, w), {1, 1, 2, 4}), {0, 2, 1, 3});
    };
    const auto carried = [&](const std::string& name, uint64_t seed) {
      const Value past = g.input("past_" + name + layer, f32, {1, 2, "p", 4});
      const Value all = concat({past, heads(name, seed)}, 2);
      g.output("present_" + name + layer, all);
      return all;
    };
    const Value keys = carried("key", 10 + i), values = carried("value", 20 + i);
    const Value y = attention(heads("query", 30 + i), keys, values, mask);
    x = x + reshape(permute(y, {0, 2, 1, 3}), {1, 1, 8});
  }
  g.output("y", x);
  return *make_stateful(*Model::from_graph(std::move(g)), {.capacity = 64});
}

TEST(SizeRanges, AllocateNothingForANewSizeOfThePast) {
  const Model model = of_a_past();
  Floats x(8, 0.5f);
  bool seen[64];
  for (int i = 0; i < 64; ++i) seen[i] = i % 7 != 4;
  const auto run = [&](Session& session, int64_t p) {
    x[0] = static_cast<float>(p);
    EXPECT_TRUE(session.set_input("x", view(x, {1, 1, 8})).ok());
    EXPECT_TRUE(session.set_input("mask", view(std::span(seen, p + 1), {1, 1, 1, p + 1})).ok());
    const int64_t before = test::allocation_count();
    const Status status = session.run();
    const int64_t allocated = test::allocation_count() - before;
    EXPECT_TRUE(status.ok()) << status.message();
    return allocated;
  };
  Session session = *Session::create(model, {.threads = 1, .ranges = {{"p", 0, 63}}});
  for (int64_t p = 0; p < 40; ++p) {
    Session exact = *Session::create(model, {.threads = 1});
    for (int i = 0; i < 3; ++i)
      for (const char* name : {"past_key", "past_value"}) {
        const std::string state = name + std::to_string(i);
        EXPECT_TRUE(exact.set_value(state, *session.value(state)).ok());
      }
    const int64_t allocated = run(session, p);
    if (p > 3) {
      EXPECT_EQ(allocated, 0) << p;
    }
    run(exact, p);
    const float *y = session.output("y")->as<float>(), *expected = exact.output("y")->as<float>();
    EXPECT_EQ(Floats(y, y + 8), Floats(expected, expected + 8)) << p;
  }
}

TEST(SizeRanges, AllocateNothingForASizeThatComesAgainAtOnce) {
  const Model model = two_layers();
  Session session = *Session::create(model, {.threads = 1, .ranges = {{"n", 1, 64}}});
  for (const int64_t n : {64, 5, 17}) {
    run_at(session, n);
    const int64_t before = test::allocation_count();
    for (int again = 0; again < 3; ++again) ASSERT_TRUE(session.run().ok());
    EXPECT_EQ(test::allocation_count() - before, 0) << n;
  }
}

}  // namespace
}  // namespace hg
