// SPDX-License-Identifier: Apache-2.0
// Sessions: results, sizes, plans, memory, threads, host hooks and state.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>

#include "hg/hg.h"
#include "lib/platform/memory.h"
#include "tests/support/allocation_count.h"
#include "tests/support/must.h"
#include "tests/support/small_model.h"

namespace hg {
namespace {

using test::copy_of;
using test::ramp;
using test::small_model;

std::vector<float> run(const Model& model, SessionOptions options, int64_t n) {
  Session session = must(Session::create(model, options));
  std::vector<float> x = ramp(n * 16);
  EXPECT_TRUE(session.set_input("x", view(x, {n, 16})).ok());
  must(session.run());
  std::vector<float> values = copy_of(*session.output("y"));
  for (const float z : copy_of(*session.output("z"))) values.push_back(z);
  return values;
}

TEST(Session, ComputesWhatTheGraphSays) {
  const Model model = small_model();
  const std::vector<float> got = run(model, {}, 3);
  const std::vector<float> x = ramp(3 * 16);
  const float* w = model.graph().states()[0].data.tensor.as<float>();
  for (size_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (size_t j = 0; j < 16; ++j) {
      double y = x[i * 16 + j];
      for (size_t k = 0; k < 16; ++k) y += double{x[i * 16 + k]} * w[j * 16 + k];
      y = std::max(y, 0.0);
      sum += 2 * y;
      EXPECT_NEAR(got[i * 16 + j], y, 1e-5);
    }
    EXPECT_NEAR(got[3 * 16 + i], sum, 1e-4);
  }
}

TEST(Session, GivesTheSameBitsWithAnyThreadsPassesAndPools) {
  const Model model = small_model();
  const std::vector<float> expected = run(model, {.threads = 1}, 100);
  EXPECT_EQ(run(model, {.threads = 2}, 100), expected);
  EXPECT_EQ(run(model, {.threads = 5}, 100), expected);
  SessionOptions options;
  options.parallel_for.threads = 3;
  options.parallel_for.run = [](void*, int64_t count, void (*task)(void*, int64_t), void* arg) {
    for (int64_t i = count; i-- > 0;) task(arg, i);  // in another order
  };
  EXPECT_EQ(run(model, options, 100), expected);
  options = {};
  options.keep_all_values = true;
  const std::vector<float> unfused = run(model, options, 100);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(unfused[i], expected[i], 1e-4);
}

TEST(Session, AutomaticWithoutADeviceIsTheCpu) {
  const Model model = small_model();
  SessionOptions options;
  options.device = Device::automatic;
  options.gpu_name = "no such device";
  const Session session = must(Session::create(model, options));
  EXPECT_EQ(session.report().rfind("on the CPU: ", 0), 0u) << session.report();
  EXPECT_EQ(run(model, options, 100), run(model, {}, 100));
}

TEST(Session, RunsEverySizeWithOneSession) {
  const Model model = small_model();
  Session session = *Session::create(model);
  for (const int64_t n : {1, 7, 0, 64, 1, 7}) {
    std::vector<float> x = ramp(n * 16);
    ASSERT_TRUE(session.set_input(0, view(x, {n, 16})).ok());
    must(session.run());
    EXPECT_EQ(session.output("z")->shape, Sizes{n});
    if (n > 0) {
      EXPECT_EQ(copy_of(*session.output("y")), [&] {
        std::vector<float> all = run(model, {}, n);
        all.resize(n * 16);
        return all;
      }());
    }
  }
}

// Views of one parameter: a factor, the transpose of a factor, and another part of it in each plan.
TEST(Session, PacksEveryUseOfAConstantForItself) {
  const std::vector<float> weights = ramp(32 * 16);
  std::vector<float> owned = weights;
  Graph g;
  const Value x = g.input("x", f32, {"n", 16});
  const Value w = g.parameter("w", *TensorData::copy_of(view(owned, {32, 16})));
  const Value square = g.call("slice", {w}, {{"dim", 0}, {"start", 4}, {"end", 20}});
  g.output("linear", g.call("linear", {x, square}));
  g.output("matmul", g.call("matmul", {x, square}));
  const Dim n("n");
  const Value part = g.call("slice", {w}, {{"dim", 0}, {"start", n}, {"end", n + Dim(8)}});
  g.output("part", g.call("linear", {x, part}));
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model, {});
  for (const int64_t rows : {3, 7, 3}) {
    std::vector<float> values = ramp(rows * 16);
    ASSERT_TRUE(session.set_input("x", view(values, {rows, 16})).ok());
    must(session.run());
    const auto expect = [&](const char* name, int64_t first, int64_t columns, bool transposed) {
      const std::vector<float> got = copy_of(*session.output(name));
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < 16; ++k) {
            const int64_t at = transposed ? (first + k) * 16 + j : (first + j) * 16 + k;
            sum += double{values[size_t(i * 16 + k)]} * weights[size_t(at)];
          }
          ASSERT_NEAR(got[size_t(i * columns + j)], sum, 1e-5) << name << " with n=" << rows;
        }
    };
    expect("linear", 4, 16, false);
    expect("matmul", 4, 16, true);
    expect("part", rows, 8, false);
  }
}

// Instruction sets without division approximate it, perhaps wrongly near the limits.
TEST(Session, QuotientsAndRootsHoldToTheEndsOfF32) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {3e38f, 1e38f, kInfinity, 1, -0.0f},
                           w = {2e38f, 3e38f, 9e37f, kInfinity, 3e38f};
  Graph g;
  const Value a = g.input("a", f32, {5}), b = g.input("b", f32, {5});
  g.output("quotient", a / b);
  g.output("root", sqrt(a));
  g.output("inverse", rsqrt(a));
  Session session = *Session::create(*Model::from_graph(std::move(g)));
  ASSERT_TRUE(session.set_input("a", view(x, {5})).ok());
  ASSERT_TRUE(session.set_input("b", view(w, {5})).ok());
  ASSERT_TRUE(session.run().ok());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(session.output("quotient")->as<float>()[i], x[i] / w[i]) << i;
    EXPECT_EQ(session.output("root")->as<float>()[i], std::sqrt(x[i])) << i;
    EXPECT_EQ(session.output("inverse")->as<float>()[i], 1 / std::sqrt(x[i])) << i;
  }
}

// The row that is compared with all rows has as many bytes as the result, and is read for each row.
TEST(Session, WritesNothingOverARowThatIsReadAgain) {
  constexpr int64_t kRows = 4, kColumns = 1000;
  Graph g;
  const Value x = g.input("x", f32, {kColumns}), rows = g.input("rows", f32, {kRows, kColumns});
  g.output("y", g.call("gt", {rows, g.call("cumsum", {x}, {{"dim", 0}})}));
  std::vector<float> numbers(kColumns), row(kRows * kColumns);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7 % 5) - 2;
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i * 11 % 7) - 3;
  const Model model = *Model::from_graph(std::move(g));
  for (const int threads : {1, 3}) {
    Session session = *Session::create(model, {.threads = threads});
    ASSERT_TRUE(session.set_input("x", view(numbers, {kColumns})).ok());
    ASSERT_TRUE(session.set_input("rows", view(row, {kRows, kColumns})).ok());
    ASSERT_TRUE(session.run().ok());
    const Tensor y = *session.output(0);
    int wrong = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      float sum = 0;
      for (int64_t i = 0; i < kColumns; ++i) {
        sum += numbers[i];
        wrong += y.as<bool>()[r * kColumns + i] != (row[r * kColumns + i] > sum) ? 1 : 0;
      }
    }
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Session, AllocatesNothingInRun) {
  const Model model = small_model();
  Session session = *Session::create(model, {.threads = 2});
  std::vector<float> x = ramp(33 * 16), other = ramp(33 * 16);
  ASSERT_TRUE(session.set_input(0, view(x, {33, 16})).ok());
  ASSERT_TRUE(session.run().ok());
  const Tensor next = view(other, {33, 16});
  const int64_t before = test::allocation_count();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(session.set_input(0, next).ok());
    ASSERT_TRUE(session.run().ok());
  }
  EXPECT_EQ(test::allocation_count() - before, 0);
}

TEST(Session, TellsItsMemoryBeforeTheFirstRun) {
  const Model model = small_model();
  Session session = *Session::create(model);
  EXPECT_FALSE(session.memory().ok());
  const std::pair<std::string, int64_t> dims[] = {{"n", 50}};
  ASSERT_TRUE(session.plan(dims).ok());
  const Memory planned = *session.memory();
  EXPECT_GT(planned.arena_bytes, 0);
  EXPECT_GE(planned.arena_bytes, planned.arena_lower_bound);
  EXPECT_EQ(planned.weights_bytes, 16 * 16 * 4 + 4);
  std::vector<float> x = ramp(50 * 16);
  ASSERT_TRUE(session.set_input(0, view(x, {50, 16})).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(session.memory()->peak_bytes, planned.peak_bytes);
  EXPECT_TRUE(Session::create(model, {.dims = {{"n", 50}}})->memory().ok());
}

TEST(Session, KeepsToTheMemoryLimitOrNamesBothNumbers) {
  const Model model = small_model();
  SessionOptions options;
  options.dims = {{"n", 1000}};
  options.memory_limit = 1000;
  const Status status = Session::create(model, options).status();
  EXPECT_EQ(status.code(), Code::out_of_memory);
  EXPECT_NE(status.message().find("the memory limit is 1000"), std::string::npos);
}

struct CountingHost {
  int64_t live = 0, total = 0, budget = 1 << 30;
};

TEST(Session, UsesTheHostsMemoryAndReportsWhenItIsShort) {
  const Model model = small_model();
  CountingHost host;
  SessionOptions options;
  options.dims = {{"n", 64}};
  options.allocator.host = &host;
  options.allocator.allocate = [](void* h, size_t bytes) -> void* {
    auto& counter = *static_cast<CountingHost*>(h);
    if (counter.live + static_cast<int64_t>(bytes) > counter.budget) return nullptr;
    counter.live += static_cast<int64_t>(bytes);
    counter.total += static_cast<int64_t>(bytes);
    return allocate_aligned(bytes);
  };
  options.allocator.free = [](void* h, void* memory, size_t bytes) {
    static_cast<CountingHost*>(h)->live -= static_cast<int64_t>(bytes);
    free_aligned(memory);
  };
  EXPECT_TRUE(Session::create(model, options).ok());
  EXPECT_GT(host.total, 0);
  EXPECT_EQ(host.live, 0);
  host.budget = 100;
  EXPECT_EQ(Session::create(model, options).status().code(), Code::out_of_memory);
  EXPECT_EQ(host.live, 0);
}

TEST(Session, TakesInputsOfAnyStrides) {
  const Model model = small_model();
  std::vector<float> x = ramp(5 * 16), transposed(5 * 16);
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 16; ++j) transposed[j * 5 + i] = x[i * 16 + j];
  Session session = *Session::create(model);
  Tensor strided = view(transposed, {5, 16});
  strided.strides = {1, 5};
  ASSERT_TRUE(session.set_input(0, strided).ok());
  ASSERT_TRUE(session.run().ok());
  std::vector<float> expected = run(model, {}, 5);
  expected.resize(5 * 16);
  EXPECT_EQ(copy_of(*session.output("y")), expected);
}

TEST(Session, AssignsStateAtTheEndOfARun) {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Value sum = g.buffer("sum", *TensorData::allocate(f32, {2}));
  const Value next = g.call("add", {sum, x});
  g.assign(sum, next);
  g.output("before", sum);
  g.output("after", next);
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model);
  std::vector<float> one = {1, 10};
  ASSERT_TRUE(session.set_input("x", view(one, {2})).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(copy_of(*session.output("before")), (std::vector<float>{2, 20}));
  EXPECT_EQ(copy_of(*session.output("after")), (std::vector<float>{3, 30}));
  EXPECT_EQ(copy_of(*session.value("sum")), (std::vector<float>{3, 30}));
  ASSERT_TRUE(session.set_value("sum", view(one, {2})).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(copy_of(*session.output("after")), (std::vector<float>{2, 20}));
  EXPECT_EQ(session.set_value("none", view(one, {2})).code(), Code::not_found);
  EXPECT_EQ(session.set_value("sum", view(one, {1, 2})).code(), Code::invalid_argument);
  // The model stays unchanged.
  Session fresh = *Session::create(model);
  EXPECT_EQ(copy_of(*fresh.value("sum")), (std::vector<float>{0, 0}));
}

TEST(Session, ProfilesEveryStep) {
  const Model model = small_model();
  Session session = *Session::create(model, {.dims = {{"n", 8}}, .profile = true});
  std::vector<float> x = ramp(8 * 16);
  ASSERT_TRUE(session.set_input(0, view(x, {8, 16})).ok());
  ASSERT_TRUE(session.run().ok());
  const std::vector<ProfileRow> rows = session.profile();
  ASSERT_FALSE(rows.empty());
  for (const ProfileRow& row : rows) {
    EXPECT_FALSE(row.op.empty());
    EXPECT_GE(row.ms, 0);
  }
  EXPECT_GE(session.flops(), 2.0 * 8 * 16 * 16);
}

// -- What a sample row cannot hold ----------------------------------------------------------------

std::shared_ptr<Graph> subgraph(const std::function<void(Graph&, Value)>& build) {
  auto graph = std::make_shared<Graph>();
  build(*graph, graph->input("v", f32, {"n"}));
  EXPECT_TRUE(graph->status().ok()) << graph->status().message();
  return graph;
}

// if cond: x + 1, else: x * x
TEST(Session, RunsTheBranchThatTheDataChooses) {
  Graph g;
  const Value cond = g.input("cond", boolean, {}), x = g.input("x", f32, {"n"});
  const auto yes = subgraph([](Graph& b, Value v) {
    b.output("", b.call("add", {v, b.scalar(1.0)}));
  });
  const auto no = subgraph([](Graph& b, Value v) { b.output("", b.call("mul", {v, v})); });
  const Value inputs[] = {cond, x};
  g.output("y", g.call("neg", {g.calls("if", inputs, {}, {yes, no})[0]}));
  const Model model = must(Model::from_graph(std::move(g)));
  Session session = *Session::create(model);
  for (const int64_t n : {2, 3}) {
    std::vector<float> values = {3, 4, 5};
    ASSERT_TRUE(session.set_input("x", view(values, {n})).ok());
    for (const bool choice : {true, false}) {
      ASSERT_TRUE(session.set_input("cond", view(&choice, boolean, {})).ok());
      must(session.run());
      const std::vector<float> y = copy_of(*session.output("y"));
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_EQ(y[i], choice ? -values[i] - 1 : -values[i] * values[i]);
      ASSERT_EQ(session.ways().size(), 1u);
      EXPECT_EQ(session.ways()[0].taken, (std::vector<int64_t>{n - 1, choice ? n - 2 : n - 1}));
    }
  }
}

// while sum(v) < 100: v = 2 v
TEST(Session, RunsALoopAsLongAsTheDataSays) {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  const auto below = [](Graph& b, Value v) {
    return b.call("lt", {b.call("sum", {v}), b.scalar(100.0)});
  };
  const auto body = subgraph([&](Graph& b, Value v) {
    const Value twice = b.call("mul", {v, b.scalar(2.0)});
    b.output("cond", below(b, twice));
    b.output("v", twice);
  });
  const Value inputs[] = {below(g, x), x};
  g.output("y", g.calls("while", inputs, {}, {body})[0]);
  const Model model = must(Model::from_graph(std::move(g)));
  Session session = *Session::create(model);
  std::vector<float> values = {1, 2, 3};
  ASSERT_TRUE(session.set_input("x", view(values, {3})).ok());
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(copy_of(*session.output("y")), (std::vector<float>{32, 64, 96}));
  values = {100, 1, 1};
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(copy_of(*session.output("y")), values);
  ASSERT_EQ(session.ways().size(), 1u);
  EXPECT_EQ(session.ways()[0].op, "while");
  EXPECT_EQ(session.ways()[0].taken, (std::vector<int64_t>{1, 0, 1}));

  Session limited = *Session::create(model, {.most_rounds = 5});
  ASSERT_TRUE(limited.set_input("x", view(values, {3})).ok());
  values = {1, 2, 3};
  for (int run = 0; run < 2; ++run) EXPECT_TRUE(limited.run().ok()) << "takes 5 rounds each time";
  values = {0, 0, 0};
  EXPECT_NE(limited.run().message().find("more than 5 rounds"), std::string::npos);
}

// The number of rows of x with a positive element is a size; later nodes are planned once it is
// known.
TEST(Session, PlansOnWhenDataHasDecidedASize) {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  const Value found = g.call("nonzero", {g.call("gt", {x, g.scalar(0.0)})});
  const Value at = g.call("reshape", {found}, {{"shape", {found.dim(0)}}});
  const Value picked = g.call("index_select", {x, at}, {{"dim", 0}});
  g.output("y", g.call("mul", {picked, g.scalar(2.0)}));
  const Value repeats = g.call("repeat_interleave", {g.call("cast", {picked}, {{"dtype", i64}})});
  g.output("r", g.call("cast", {repeats}, {{"dtype", f32}}));
  const Model model = must(Model::from_graph(std::move(g)));
  Session session = *Session::create(model);
  const auto run = [&](std::vector<float> values) {
    EXPECT_TRUE(session.set_input("x", view(values, {int64_t(values.size())})).ok());
    must(session.run());
    return std::pair(copy_of(*session.output("y")), copy_of(*session.output("r")));
  };
  using Floats = std::vector<float>;
  EXPECT_EQ(run({-1, 2, 0, 1}), std::pair(Floats({4, 2}), Floats({0, 0, 1})));
  EXPECT_EQ(run({1, 1, 1, 1}), std::pair(Floats({2, 2, 2, 2}), Floats({0, 1, 2, 3})));
  EXPECT_EQ(run({-1, -2, 0, -1}), std::pair(Floats(), Floats()));
  ASSERT_FALSE(session.ways().empty());
  EXPECT_EQ(session.ways()[0].op, "nonzero");
  EXPECT_EQ(session.ways()[0].taken, (std::vector<int64_t>{1, 0, 2})) << "empty, one, more";
}

TEST(Session, SumsATransposedTensorWithoutElements) {
  Graph g;
  const Value x = g.input("x", f32, {"n", "k"});
  g.output("y", g.call("sum", {g.call("permute", {x}, {{"dims", {1, 0}}})}));
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model);
  std::vector<float> none(1);
  for (const Sizes& shape : {Sizes{0, 4}, Sizes{4, 0}, Sizes{0, 0}}) {
    ASSERT_TRUE(session.set_input("x", view(none.data(), f32, shape)).ok());
    must(session.run());
    EXPECT_EQ(copy_of(*session.output("y")), std::vector<float>{0});
  }
}

TEST(Session, RandomNumbersDependOnSeedAndRunAlone) {
  Graph g;
  g.output("u", g.call("rand", {}, {{"shape", {20000}}, {"stream", 1}}));
  g.output("z", g.call("randn", {}, {{"shape", {20001}}, {"stream", 2}}));
  g.output("d", g.call("dropout", {g.constant(*TensorData::allocate(f32, {8}))},
                       {{"p", 0.5}, {"training", true}}));
  const Model model = must(Model::from_graph(std::move(g)));
  const auto draw = [&](uint64_t seed, int threads, int runs) {
    SessionOptions options;
    options.seed = seed;
    options.threads = threads;
    Session session = *Session::create(model, options);
    for (int i = 0; i < runs; ++i) EXPECT_TRUE(session.run().ok());
    return std::pair(copy_of(*session.output("u")), copy_of(*session.output("z")));
  };
  const auto first = draw(1, 1, 1);
  EXPECT_EQ(draw(1, 3, 1), first);
  EXPECT_NE(draw(2, 1, 1), first);
  EXPECT_NE(draw(1, 1, 2), first);
  double sum = 0, square = 0, mean = 0;
  for (const float u : first.first) {
    EXPECT_GE(u, 0);
    EXPECT_LT(u, 1);
    mean += u / 20000.0;
  }
  for (const float z : first.second) sum += z / 20001.0, square += double{z} * z / 20001.0;
  EXPECT_NEAR(mean, 0.5, 0.01);
  EXPECT_NEAR(sum, 0, 0.03);
  EXPECT_NEAR(square, 1, 0.04);
}

TEST(Session, RandomOpsHaveStreamsOfTheirOwn) {
  Graph g;
  const Value ones = g.constant(*TensorData::allocate(f32, {500})) + 1;
  g.output("", rand(g, {500}) - rand(g, {500}));
  g.output("", randn(g, {500}) - randn(g, {500}));
  g.output("", dropout(ones, 0.5, true) - dropout(ones, 0.5, true));
  g.output("", rand(g, {500}, f32, 3) - rand(g, {500}, f32, 3));
  const Model model = *Model::from_graph(std::move(g));
  Session session = *Session::create(model, {.threads = 1});
  ASSERT_TRUE(session.run().ok());
  for (int i = 0; i < 4; ++i) {
    const std::vector<float> y = copy_of(*session.output(i));
    const auto equal = std::count(y.begin(), y.end(), 0.0f);
    EXPECT_TRUE(i == 3 ? equal == 500 : equal < 320) << i << " " << equal;
  }
}

// Applies dropout to x repeatedly, until the remaining elements have grown to 3.
TEST(Session, SeedIsThatOfANewSession) {
  Graph g;
  const auto below = [](Graph& b, Value v) { return lt(b.call("amax", {v}), b.scalar(3.0)); };
  const auto body = subgraph([&](Graph& b, Value v) {
    const Value next = b.call("dropout", {v}, {{"p", 0.25}, {"training", true}, {"stream", 1}});
    b.output("cond", below(b, next));
    b.output("v", next);
  });
  const Value x = g.call("rand", {}, {{"shape", {64}}}) + 1;
  const Value inputs[] = {below(g, x), x};
  g.output("y", g.calls("while", inputs, {}, {body})[0]);
  g.output("x", x);
  const Model model = *Model::from_graph(std::move(g));
  const auto draw = [](Session& session) {
    EXPECT_TRUE(session.run().ok());
    return std::pair(copy_of(*session.output("y")), copy_of(*session.output("x")));
  };
  Session fresh = *Session::create(model, {.threads = 1, .seed = 7});
  const auto first = draw(fresh), second = draw(fresh);
  EXPECT_NE(first, second);
  EXPECT_NE(first.first, first.second);
  for (const bool has_run : {false, true}) {
    Session session = *Session::create(model, {.threads = 1, .seed = 1});
    if (has_run) {
      EXPECT_NE(draw(session), first);
    }
    session.seed(7);
    EXPECT_EQ(draw(session), first);
    EXPECT_EQ(draw(session), second);
    session.seed(7);
    EXPECT_EQ(draw(session), first);
  }
}

}  // namespace
}  // namespace hg
