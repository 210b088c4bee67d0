// SPDX-License-Identifier: Apache-2.0
// Entries of a model, and sessions that share states, beside plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/op.h"
#include "hg/pool.h"
#include "hg/session_pool.h"
#include "hg/shared_states.h"
#include "hg/train.h"
#include "tests/support/must.h"
#include "tests/support/unchecked_graph.h"

namespace hg {
namespace {

using Vector = std::vector<float>;

TensorData data_of(const Vector& values) {
  return must(TensorData::copy_of(view(values, {static_cast<int64_t>(values.size())})));
}
Vector vector_of(const Tensor& tensor) {
  return {tensor.as<float>(), tensor.as<float>() + tensor.count()};
}

// What an entry does: all states become a * one + b * other + x at once; y is their sum.
struct Step {
  struct Update {
    size_t target, one, other;
    float a, b;
  };
  std::vector<size_t> reads;
  std::vector<Update> updates;
};

std::string name_of_state(size_t k) { return "s" + std::to_string(k); }

Graph graph_of(const Step& step, const std::vector<Vector>& first) {
  Graph graph;
  const Value x = graph.input("x", f32, {static_cast<int64_t>(first[0].size())});
  std::map<size_t, Value> states;
  const auto state = [&](size_t k) {
    auto [at, fresh] = states.try_emplace(k);
    if (fresh) at->second = graph.buffer(name_of_state(k), data_of(first[k]));
    return at->second;
  };
  Value y = x;
  for (const size_t k : step.reads) y = y + state(k);
  graph.output("y", y);
  for (const Step::Update& u : step.updates)
    graph.assign(state(u.target), state(u.one) * u.a + state(u.other) * u.b + x);
  return graph;
}

Vector run_plainly(const Step& step, const Vector& x, std::vector<Vector>& states) {
  Vector y = x;
  for (size_t i = 0; i < x.size(); ++i)
    for (const size_t k : step.reads) y[i] += states[k][i];
  std::vector<Vector> next = states;
  for (const Step::Update& u : step.updates)
    for (size_t i = 0; i < x.size(); ++i)
      next[u.target][i] = states[u.one][i] * u.a + states[u.other][i] * u.b + x[i];
  states = next;
  return y;
}

void expect_near(const Vector& got, const Vector& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-4f * (1 + std::abs(want[i])));
}

class Case {
 public:
  explicit Case(uint64_t seed) : random_(seed) {
    const size_t size = std::vector<size_t>{0, 1, 2, 7, 33}[draw(5)], count = 1 + draw(4);
    for (size_t k = 0; k < count; ++k) first_.push_back(numbers(size));
    for (size_t e = 1 + draw(4); e > 0; --e) {
      Step step;
      for (size_t k = 0; k < count; ++k)
        if (draw(2) == 0) step.reads.push_back(k);
      for (size_t k = 0; k < count; ++k)
        if (draw(3) == 0)
          step.updates.push_back({k, draw(count), draw(count), 0.5f, draw(2) == 0 ? 0.25f : -0.5f});
      steps_.push_back(step);
    }
  }

  void run() {
    Model model;
    for (size_t e = 0; e < steps_.size(); ++e)
      ASSERT_TRUE(model.add_entry("e" + std::to_string(e), graph_of(steps_[e], first_)).ok());
    const std::vector<std::byte> bytes = must(model.serialize());
    model = must(Model::read(bytes));
    EXPECT_EQ(must(model.serialize()), bytes);
    const auto shared = must(SharedStates::create(model));
    std::vector<Session> sessions;
    for (const std::string& name : model.entries())
      sessions.push_back(must(Session::create(
          model, {.entry = name, .states = shared, .threads = 1 + static_cast<int>(draw(2))})));
    std::vector<Vector> states = first_;
    for (int round = 0; round < 12; ++round) {
      if (draw(8) == 0) {
        shared->reset();
        states = first_;
      }
      const size_t e = draw(steps_.size());
      const Vector x = numbers(first_[0].size());
      ASSERT_TRUE(sessions[e].set_input(0, view(x, {static_cast<int64_t>(x.size())})).ok());
      ASSERT_TRUE(sessions[e].run().ok());
      expect_near(vector_of(must(sessions[e].output(0))), run_plainly(steps_[e], x, states));
      for (const std::string& name : shared->names())
        expect_near(vector_of(must(shared->value(name))), states[std::stoul(name.substr(1))]);
    }
  }

 private:
  size_t draw(size_t count) { return random_() % count; }
  Vector numbers(size_t size) {
    Vector all(size);
    for (float& each : all) each = static_cast<float>(static_cast<int>(draw(65)) - 32) / 16;
    return all;
  }

  std::mt19937_64 random_;
  std::vector<Vector> first_;
  std::vector<Step> steps_;
};

TEST(Entries, InRandomOrderLeaveTheStatesOfPlainLoops) {
  const char* const count = std::getenv("HG_ENTRIES_CASES");
  for (uint64_t seed = 0; seed < (count ? std::stoull(count) : 60u); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

Graph counter(float step, const std::string& name = "count", const Vector& first = {1, 2}) {
  Graph graph;
  const Value state = graph.buffer(name, data_of(first));
  graph.output("before", state + 0.0);
  if (step != 0) graph.assign(state, state + step);
  return graph;
}

Model two(Graph a, Graph b) {
  Model model;
  EXPECT_TRUE(model.add_entry("a", std::move(a)).ok());
  EXPECT_TRUE(model.add_entry("b", std::move(b)).ok());
  return model;
}

TEST(Entries, HoldEqualBitsOnce) {
  const Vector bits(16, 0.5f);
  const auto graph = [&](const std::vector<std::string>& names) {
    Graph made;
    Value y = made.input("x", f32, {16});
    for (const std::string& name : names) y = y * made.parameter(name, data_of(bits));
    made.output("y", y);
    return made;
  };
  const Model model = two(graph({"p", "q"}), graph({"r", "q", "s"}));
  const Model a = must(model.entry("a")), b = must(model.entry("b"));
  const auto memory = [](const Model& entry, size_t k) {
    return entry.graph().states()[k].data.tensor.data;
  };
  EXPECT_EQ(memory(b, 1), memory(a, 1)) << "of the same name";
  EXPECT_EQ(memory(b, 0), memory(a, 0)) << "of another name";
  EXPECT_NE(memory(b, 2), memory(b, 0)) << "separate parameters of one graph stay separate";
  EXPECT_NE(memory(b, 2), memory(b, 1));
}

TEST(Entries, AreChosenByName) {
  const Model model = two(counter(1), counter(0));
  EXPECT_EQ(Session::create(model).status().message(),
            "the model has the entries a, b; choose one by its name");
  EXPECT_EQ(Session::create(model, {.entry = "c"}).status().message(),
            "there is no entry 'c'; there are a, b");
  EXPECT_TRUE(Session::create(model, {.entry = "b"}).ok());
  const Model plain = must(Model::from_graph(counter(1)));
  EXPECT_EQ(Session::create(plain, {.entry = "a"}).status().message(),
            "there is no entry 'a'; the model is one graph without a name");
  Model one;
  ASSERT_TRUE(one.add_entry("only", counter(1)).ok());
  EXPECT_TRUE(Session::create(must(Model::read(must(one.serialize())))).ok());
  EXPECT_EQ(one.add_entry("only", counter(1)).message(), "there are two entries 'only'");
  EXPECT_EQ(one.add_entry("", counter(1)).message(), "an entry has no name");
  Model named = plain;
  EXPECT_EQ(named.add_entry("a", counter(1)).message(),
            "the entry 'a' cannot be added beside a graph without a name; add both to an empty "
            "model");
}

TEST(Entries, OfUnknownOpsAndOfCutFilesAreRefused) {
  Model model;
  for (const char* name : {"double", "triple"}) {
    Graph graph;
    graph.output(
        "y", graph.input("x", f32, {10000}) * graph.parameter("w", data_of(Vector(10000, 0.5f))));
    ASSERT_TRUE(model.add_entry(name, std::move(graph)).ok());
  }
  const std::vector<std::byte> bytes = must(model.serialize());
  EXPECT_LT(bytes.size(), 50000u) << "the weight of both is written once";
  for (size_t size = 0; size < bytes.size(); size += 64)
    EXPECT_FALSE(Model::read(std::span(bytes).first(size)).ok()) << size;
  std::vector<std::byte> damaged = unchecked_graph(bytes);
  const std::string name = "double";
  const auto found = std::search(damaged.begin(), damaged.end(), name.begin(), name.end(),
                                 [](std::byte a, char b) { return a == std::byte(b); });
  ASSERT_NE(found, damaged.end());
  std::transform(name.begin(), name.end(), found, [](char) { return std::byte(0); });
  const std::string other = "triple";
  std::transform(other.begin(), other.end(), found, [](char c) { return std::byte(c); });
  EXPECT_EQ(Model::read(damaged).status().message(), "there are two entries 'triple'");

  Registry registry;
  const OpDef alias = {.signature = "acme.alias(x) -> y", .expand = [](ExpandContext& c) -> Status {
                         c.set_out(0, c.in(0) * 1.0);
                         return {};
                       }};
  ASSERT_TRUE(registry.add(alias).ok());
  Graph graph(registry);
  graph.output("y", graph.call("acme.alias", {graph.input("x", f32, {2})}));
  Model functions;
  ASSERT_TRUE(functions.add_entry("f", std::move(graph)).ok());
  const std::vector<std::byte> foreign = must(functions.serialize());
  EXPECT_TRUE(Model::read(foreign, registry).ok());
  EXPECT_EQ(Model::read(foreign).status().message(),
            "the model uses ops that are not registered: acme.alias (1 node)");
}

TEST(Entries, KeepTheAttachments) {
  Model model = two(counter(1), counter(0));
  Model::Info info;
  info.attachments = {{"tokenizer.json", "{}"}};
  model.set_info(std::move(info));
  const Model back = must(Model::read(must(model.serialize())));
  ASSERT_NE(must(back.entry("b")).attachment("tokenizer.json"), nullptr);
  EXPECT_EQ(must(back.entry("b")).attachment("tokenizer.json")->content, "{}");
}

TEST(Entries, HaveStatesOfTheirOwnUnlessTheyShare) {
  const Model model = two(counter(1), counter(0));
  const auto shared = must(SharedStates::create(model));
  for (const bool shares : {false, true}) {
    const auto states = shares ? shared : nullptr;
    Session writer = must(Session::create(model, {.entry = "a", .states = states}));
    Session reader = must(Session::create(model, {.entry = "b", .states = states}));
    ASSERT_TRUE(writer.run().ok() && writer.run().ok() && reader.run().ok());
    EXPECT_EQ(must(reader.output(0)).as<float>()[1], shares ? 4 : 2);
  }
  ASSERT_TRUE(shared->set_value("count", data_of({5, 6}).tensor).ok());
  EXPECT_EQ(must(shared->value("count")).as<float>()[1], 6);
  EXPECT_EQ(shared->set_value("count", data_of({5}).tensor).message(),
            "'count' is f32[2], not f32[1]");
  EXPECT_EQ(shared->value("other").status().message(),
            "there is no shared state 'other'; there are count");
}

TEST(Entries, ShareNoStatesThatDiffer) {
  const auto refusal = [](Graph b) {
    return std::string(SharedStates::create(two(counter(1), std::move(b))).status().message());
  };
  EXPECT_EQ(refusal(counter(0, "count", {1, 3})),
            "the entries 'a' and 'b' have different values of 'count', which they share");
  EXPECT_EQ(refusal(counter(2, "count", {1})),
            "'count' of the entry 'a' is f32[2] and 'count' of the entry 'b' is f32[1]; a state "
            "that entries share has one type");
  EXPECT_EQ(refusal(counter(1, "other", {1})), "");
  const Model other = two(counter(1, "x"), counter(1, "y"));
  const auto states = must(SharedStates::create(two(counter(1), counter(0))));
  EXPECT_EQ(Session::create(other, {.entry = "a", .states = states}).status().message(),
            "there is no shared state 'x'; there are count");
  for (const Device device : {Device::vulkan, Device::automatic}) {
    const Result<Session> gpu =
        Session::create(other, {.entry = "a", .states = states, .device = device});
    EXPECT_EQ(gpu.status().message(),
              "sessions share states on the CPU only; set SessionOptions::device to cpu");
  }
}

TEST(Entries, OfPoolsShareNoStates) {
  const Model model = two(counter(1), counter(0));
  const auto states = must(SharedStates::create(model));
  const SessionOptions options = {.entry = "b", .states = states};
  constexpr char kRefusal[] = "the sessions of a pool run at once; they cannot share states";
  EXPECT_EQ(SessionPool::create(model, options, 2).status().message(), kRefusal);
  EXPECT_EQ(Pool::create(model, {.session = options}).status().message(), kRefusal);
  EXPECT_TRUE(SessionPool::create(model, {.entry = "b"}, 2).ok());
  EXPECT_EQ(Trainer::create(model, {.session = options}).status().message(),
            "a trainer takes a model of one entry, Model::entry(), and has states of its own");
}

}  // namespace
}  // namespace hg
