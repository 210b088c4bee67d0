// SPDX-License-Identifier: Apache-2.0
// Branches that run side by side: which branches do, and in which memory. Results do not depend on
// it, whatever order a pool runs its tasks in.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hg/hg.h"
#include "hg/ops/composed.h"
#include "hg/ops/rnn.h"
#include "tests/support/allocation_count.h"
#include "tests/support/compiled.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

// -- Pools ----------------------------------------------------------------------------------------

using Task = void (*)(void* arg, int64_t index);

ParallelFor backwards(int threads = 2) {
  return {[](void*, int64_t count, Task task, void* arg) {
            for (int64_t i = count; i-- > 0;) task(arg, i);
          },
          nullptr, threads};
}
// Own threads instead of OpenMP's, because the thread sanitizer understands these.
ParallelFor threads(int count) {
  return {[](void* host, int64_t tasks, Task task, void* arg) {
            std::atomic<int64_t> next{0};
            const auto work = [&] {
              for (int64_t i; (i = next.fetch_add(1)) < tasks;) task(arg, i);
            };
            std::vector<std::thread> others(reinterpret_cast<size_t>(host) - 1);
            for (std::thread& other : others) other = std::thread(work);
            work();
            for (std::thread& other : others) other.join();
          },
          reinterpret_cast<void*>(static_cast<size_t>(count)), count};
}
// Counts regions, and regions that begin within another one.
struct Counts {
  int regions = 0, nested = 0;
  int64_t tasks = 0;
  bool inside = false;
};
ParallelFor counting(Counts& counts) {
  return {[](void* host, int64_t count, Task task, void* arg) {
            auto& c = *static_cast<Counts*>(host);
            ++(c.inside ? c.nested : c.regions);
            c.tasks += count;
            const bool before = std::exchange(c.inside, true);
            for (int64_t i = 0; i < count; ++i) task(arg, i);
            c.inside = before;
          },
          &counts, 2};
}

// -- Models ---------------------------------------------------------------------------------------

Value weight(Graph& g, const std::string& name, int64_t rows, int64_t columns) {
  return g.parameter(name, f32, {rows, columns},
                     init::uniform(-0.1, 0.1, std::hash<std::string>()(name) % 1000));
}
Value dense(const Value& x, const std::string& name, int64_t width) {
  Graph& g = *x.graph();
  return g.call("relu", {g.call("linear", {x, weight(g, name, width, x.dim(-1).constant())})});
}

Graph towers(int64_t width = 256) {
  Graph g;
  for (const std::string side : {"a", "b"}) {
    Value x = g.input(side, f32, {8, width});
    for (int i = 0; i < 3; ++i) x = dense(x, str_cat(side, int64_t{i}), width);
    g.output("of_" + side, x);
  }
  return g;
}

Graph heads(int count) {
  Graph g;
  const Value x = dense(g.input("x", f32, {8, 256}), "body", 256);
  for (int64_t i = 0; i < count; ++i)
    g.output(str_cat("y", i), dense(dense(x, str_cat("w", i), 256), str_cat("v", i), 128));
  return g;
}

Graph both_directions() {
  constexpr int64_t kTime = 12, kHidden = 64;
  Graph g;
  Value x = g.input("x", f32, {kTime, 1, 64});
  const Value zero = g.constant(filled({1, kHidden}, 0));
  for (int64_t layer = 0; layer < 2; ++layer) {
    std::vector<Value> ys;
    for (const bool reverse : {false, true}) {
      const std::string name = str_cat("l", layer, reverse ? "r" : "f");
      const RnnWeights w = {weight(g, name + ".ih", 4 * kHidden, x.dim(-1).constant()),
                            weight(g, name + ".hh", 4 * kHidden, kHidden),
                            {},
                            {}};
      ys.push_back(lstm(x, zero, zero, w, reverse).y);
    }
    x = concat(ys, 2);
  }
  g.output("y", x);
  return g;
}

// Convolutions of small images, with concatenated results.
Graph inception() {
  Graph g;
  Value x = g.input("x", f32, {1, 32, 10, 10});
  const auto conv = [&](const Value& from, const std::string& name, int64_t channels,
                        int64_t size) {
    const Value w = g.parameter(name, f32, {channels, from.dim(1).constant(), size, size},
                                init::uniform(-0.1, 0.1, name.size()));
    return g.call("relu", {g.call("conv", {from, w}, {{"padding", {size / 2, size / 2}}})});
  };
  for (int64_t i = 0; i < 2; ++i) {
    const std::string at = str_cat("m", i);
    x = concat({conv(x, at + ".a", 32, 1), conv(conv(x, at + ".b0", 32, 1), at + ".b", 48, 3),
                conv(conv(x, at + ".cc0", 16, 1), at + ".c", 32, 5)},
               1);
  }
  g.output("y", x);
  return g;
}

Graph projections() {
  constexpr int64_t kTime = 16, kWidth = 256;
  Graph g;
  Value x = g.input("x", f32, {kTime, kWidth});
  for (int64_t i = 0; i < 3; ++i) {
    const auto project = [&](const Value& from, const char* name) {
      return g.call("linear", {from, weight(g, str_cat(name, i), kWidth, kWidth)});
    };
    const Value q = project(x, "q"), k = project(x, "k"), v = project(x, "v");
    const Value scores = g.call("softmax", {g.call("matmul", {q, permute(k, {1, 0})})});
    x = g.call("add", {x, project(g.call("matmul", {scores, v}), "o")});
  }
  g.output("y", x);
  return g;
}

// -- Runs -----------------------------------------------------------------------------------------

Model model_of(Graph graph) {
  EXPECT_TRUE(graph.status().ok()) << graph.status().message();
  return must(Model::from_graph(std::move(graph)));
}

Session session_of(const Model& model, SessionOptions options) {
  return must(Session::create(model, std::move(options)));
}

void set_inputs(Session& session, std::vector<std::vector<float>>& kept) {
  kept.resize(session.input_count());
  for (int i = 0; i < session.input_count(); ++i) {
    Sizes sizes;
    for (const Dim& dim : session.input_type(i).shape) sizes.push_back(dim.constant());
    std::vector<float>& x = kept[i];
    x.resize(sizes.count());
    for (size_t k = 0; k < x.size(); ++k) x[k] = std::sin(static_cast<float>(k + 1) * 0.37f);
    ASSERT_TRUE(session.set_input(i, view(x, sizes)).ok());
  }
}

// The outputs and states after two runs.
Tensors run_twice(const Model& model, SessionOptions options, std::string* report = nullptr) {
  Session session = session_of(model, std::move(options));
  std::vector<std::vector<float>> inputs;
  set_inputs(session, inputs);
  for (int i = 0; i < 2; ++i) {
    must(session.run());
  }
  if (report != nullptr) *report = session.report();
  Tensors values;
  const auto keep = [&](const std::string& name, const Tensor& tensor) {
    std::vector<float>& v = values[name];
    v.resize(tensor.count());
    copy_elements(tensor, view(v, tensor.shape));
  };
  for (int i = 0; i < session.output_count(); ++i)
    keep(std::string(session.output_name(i)), *session.output(i));
  for (const auto& [target, source] : session.compiled_graph().assignments()) {
    const std::string& name = session.compiled_graph().value_info(target).name;
    keep("state " + name, *session.value(name));
  }
  return values;
}

std::string side_by_side(const std::string& report) {
  std::string lines;
  for (size_t at = 0; at < report.size();) {
    const size_t end = report.find('\n', at);
    if (report.compare(at, 13, "side by side:") == 0) lines += report.substr(at, end - at + 1);
    at = end + 1;
  }
  return lines;
}
std::string side_by_side(Graph graph, SessionOptions options) {
  Session session = session_of(model_of(std::move(graph)), std::move(options));
  EXPECT_TRUE(session.plan().ok());
  return side_by_side(session.report());
}

TEST(Branches, AreChosenWhereTheyGain) {
  const SessionOptions two = {.parallel_for = backwards()};
  EXPECT_EQ(side_by_side(towers(), two),
            "side by side: relu_1, relu_2, relu_3 | relu_4, relu_5, relu_6\n");
  EXPECT_EQ(side_by_side(towers(), {.parallel_for = backwards(1)}), "");
  EXPECT_EQ(side_by_side(towers(), {.parallel_for = backwards(), .disabled_passes = {"branches"}}),
            "");
  EXPECT_EQ(side_by_side(towers(), {.parallel_for = backwards(), .keep_all_values = true}), "");
  EXPECT_EQ(side_by_side(towers(16), two), "") << "a region costs more than these";
  EXPECT_EQ(side_by_side(towers(), {.parallel_for = backwards(32)}), "")
      << "there are more threads than towers";
  for (const int threads : {2, 16})
    EXPECT_EQ(side_by_side(both_directions(), {.parallel_for = backwards(threads)}),
              "side by side: linear_1, lstm_scan_1 | linear_2, lstm_scan_4\n"
              "side by side: linear_3, lstm_scan_7 | linear_4, lstm_scan_10\n")
        << "a scan waits for all threads at each step";
}

TEST(Branches, GiveTheSameBits) {
  const std::pair<const char*, Graph (*)()> rows[] = {
      {"towers", [] { return towers(); }},  {"heads", [] { return heads(7); }},
      {"both_directions", both_directions}, {"inception", inception},
      {"projections", projections},
  };
  for (const auto& [name, build] : rows) {
    const Model model = model_of(build());
    const Tensors expected = run_twice(model, {.threads = 1});
    std::string report;
    EXPECT_EQ(run_twice(model, {.parallel_for = backwards()}, &report), expected) << name;
    EXPECT_NE(side_by_side(report), "") << name << "\n" << report;
    EXPECT_EQ(run_twice(model, {.threads = 2}), expected) << name;
    EXPECT_EQ(run_twice(model, {.threads = 2, .disabled_passes = {"branches"}}), expected) << name;
    EXPECT_EQ(run_twice(model, {.threads = 5}), expected) << name;
    EXPECT_EQ(run_twice(model, {.parallel_for = threads(2)}), expected) << name;
    EXPECT_EQ(run_twice(model, {.parallel_for = threads(3)}), expected) << name;
  }
}

TEST(Branches, AreOneRegionWithNoneInside) {
  const Model model = model_of(towers());
  Counts counts;
  Session session = session_of(model, {.parallel_for = counting(counts)});
  std::vector<std::vector<float>> inputs;
  set_inputs(session, inputs);
  ASSERT_TRUE(session.plan().ok());
  counts = {};
  ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(counts.regions, 1);
  EXPECT_EQ(counts.tasks, 2);
  EXPECT_EQ(counts.nested, 0);
}

TEST(Branches, AllocateNothingInRun) {
  Session session = session_of(model_of(heads(7)), {.threads = 2});
  std::vector<std::vector<float>> inputs;
  set_inputs(session, inputs);
  ASSERT_TRUE(session.run().ok());
  const int64_t before = test::allocation_count();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(session.run().ok());
  EXPECT_EQ(test::allocation_count() - before, 0);
}

TEST(Branches, RunInSeveralSessionsAtOnce) {
  const Model model = model_of(heads(7));
  const Tensors expected = run_twice(model, {.threads = 1});
  std::vector<Tensors> got(3);
  std::vector<std::thread> hosts;
  for (Tensors& values : got)
    hosts.emplace_back([&] { values = run_twice(model, {.parallel_for = threads(2)}); });
  for (std::thread& host : hosts) host.join();
  for (const Tensors& values : got) EXPECT_EQ(values, expected);
}

TEST(Branches, TakeNoMemoryThatIsShort) {
  // Each branch has a value that is larger than its input and its result.
  Graph g;
  const Value x = g.input("x", f32, {64, 64});
  for (int64_t i = 0; i < 4; ++i)
    g.output(str_cat("y", i), dense(dense(x, str_cat("up", i), 2048), str_cat("down", i), 64));
  const Model model = model_of(std::move(g));
  const auto arena = [&](SessionOptions options) {
    Session session = session_of(model, std::move(options));
    EXPECT_TRUE(session.plan().ok());
    EXPECT_EQ(session.memory()->arena_bytes, session.memory()->arena_lower_bound);
    return session.memory()->arena_bytes;
  };
  const int64_t apart = arena({.parallel_for = backwards(), .disabled_passes = {"branches"}});
  EXPECT_LE(arena({.parallel_for = backwards()}), apart + (64 << 10));
  EXPECT_LE(
      arena({.parallel_for = backwards(), .low_memory = true}),
      arena({.parallel_for = backwards(), .low_memory = true, .disabled_passes = {"branches"}}));
  EXPECT_LE(arena({.parallel_for = backwards(), .memory_limit = int64_t{1} << 30}), apart);
}

// Each branch selects rows of its own table by indices.
Graph lookups() {
  Graph g;
  for (int64_t i = 0; i < 4; ++i) {
    const Value index = g.input(str_cat("i", i), i64, {8});
    const Value rows = g.call("embedding", {weight(g, str_cat("table", i), 100, 256), index});
    g.output(str_cat("y", i), dense(dense(rows, str_cat("w", i), 256), str_cat("v", i), 256));
  }
  return g;
}

TEST(Branches, FailLikeTheFirstOfTheirSteps) {
  const Model model = model_of(lookups());
  EXPECT_NE(side_by_side(lookups(), {.parallel_for = backwards()}), "");
  std::vector<int64_t> good(8, 7), bad(8, 100);
  const auto run = [&](Session& session, std::vector<int> broken) -> std::string {
    for (int i = 0; i < 4; ++i) {
      const bool is_bad = std::find(broken.begin(), broken.end(), i) != broken.end();
      EXPECT_TRUE(session.set_input(i, view(is_bad ? bad : good, {8})).ok());
    }
    const Status status = session.run();
    return status.ok() ? "ok" : std::string(status.message());
  };
  Session one = session_of(model, {.threads = 1});
  for (const ParallelFor& pool : {backwards(), threads(2), threads(3)}) {
    Session session = session_of(model, {.parallel_for = pool});
    for (const std::vector<int>& broken :
         {std::vector<int>{}, {0}, {3}, {1, 2}, {2, 3}, {0, 1, 2, 3}, {}}) {
      const std::string expected = run(one, broken);
      EXPECT_EQ(run(session, broken), expected);
      EXPECT_EQ(expected == "ok", broken.empty()) << expected;
    }
  }
}

TEST(Branches, KeepTheTimeOfEachNode) {
  Session session = session_of(model_of(heads(7)), {.parallel_for = threads(2), .profile = true});
  std::vector<std::vector<float>> inputs;
  set_inputs(session, inputs);
  ASSERT_TRUE(session.run().ok());
  EXPECT_NE(side_by_side(session.report()), "");
  for (const ProfileRow& row : session.profile()) EXPECT_GT(row.ms, 0) << row.node;
}

// Random graphs. Nodes read any earlier value: products, results in the memory of inputs, views,
// concatenations in place, and assigned states.
Graph random_graph(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<int64_t>(random() % n); };
  constexpr int64_t kRows = 32, kWidth = 128;
  Graph g;
  std::vector<Value> weights, values = {g.input("x", f32, {kRows, kWidth})}, states;
  for (int64_t i = 0; i < 3; ++i) weights.push_back(weight(g, str_cat("w", i), kWidth, kWidth));
  for (int64_t i = 0; i < 2; ++i) {
    states.push_back(g.buffer(str_cat("s", i), filled({kRows, kWidth}, 0.5f)));
    values.push_back(states.back());
  }
  const auto pick = [&](const std::vector<Value>& from) { return from[below(from.size())]; };
  const int64_t count = 6 + below(26);
  for (int64_t i = 0; i < count; ++i) {
    const Value x = pick(values);
    const auto half = [&](const Value& of) {
      const int64_t begin = kRows / 2 * below(2);
      return slice(of, 0, begin, begin + kRows / 2);
    };
    switch (below(9)) {
      case 0:
        values.push_back(g.call("softmax", {x}));
        break;
      case 1:
        values.push_back(g.call("tanh", {x}));
        break;
      case 2:
        values.push_back(g.call("add", {x, pick(values)}));
        break;
      case 3:
        values.push_back(concat({half(x), half(pick(values))}));
        break;
      case 4:
        values.push_back(concat({g.call("linear", {half(x), pick(weights)}),
                                 g.call("linear", {half(pick(values)), pick(weights)})}));
        break;
      case 5:
        values.push_back(flip(x, {0}));
        break;
      default:
        values.push_back(g.call("tanh", {g.call("linear", {x, pick(weights)})}));
        break;
    }
  }
  for (int64_t i = 0; i < 3; ++i) g.output(str_cat("y", i), values[values.size() - size_t(i) - 1]);
  for (const Value& state : states)
    if (below(2) == 0) g.assign(state, g.call("tanh", {pick(values)}));
  return g;
}

TEST(Branches, RandomGraphsGiveTheSameBitsInAnyOrder) {
  int grouped = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const Model model = model_of(random_graph(seed));
    const Tensors expected = run_twice(model, {.threads = 1});
    std::string report;
    ASSERT_EQ(run_twice(model, {.parallel_for = backwards()}, &report), expected)
        << "seed " << seed << "\n"
        << report;
    grouped += side_by_side(report) != "";
    if (seed % 5 == 0) {
      ASSERT_EQ(run_twice(model, {.parallel_for = threads(2)}), expected) << "seed " << seed;
    }
  }
  EXPECT_GT(grouped, 60);
}

}  // namespace
}  // namespace hg
