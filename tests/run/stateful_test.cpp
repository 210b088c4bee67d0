// SPDX-License-Identifier: Apache-2.0
// Stateful models against the models that they were made from, with a host that passes on the past.
#include "hg/stateful.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "hg/hg.h"
#include "hg/shared_states.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

using Floats = std::vector<float>;

Value weight(Graph& g, const std::string& name, const Sizes& shape, uint64_t seed) {
  return g.parameter(name, f32, shape, init::uniform(-0.5, 0.5, seed));
}

// Layers of attention over x [b, t, 8] and a past of p positions, and a running mean.
Graph decoder(int layers, bool reads_past, DType dtype = f32) {
  Graph g;
  const Dim b("b"), t("t"), p("p");
  Value x = g.input("x", f32, {b, t, 8});
  const Value mask = g.input("mask", f32, {b, 1, t, p + t});
  const Value mean_before = g.input("mean", f32, {3});
  for (int i = 0; i < layers; ++i) {
    const std::string at = "." + std::to_string(i) + ".";
    const auto heads = [&](const char* name, uint64_t seed) {
      const Value y = linear(x, weight(g, name + at, {8, 8}, seed));
      return permute(reshape(y, {b, t, 2, 4}), {0, 2, 1, 3});
    };
    const auto carried = [&](const char* name, const Value& now) {
      const Value past = g.input("past_key_values" + at + name, dtype, {b, 2, p, 4});
      const Value all = concat({past, cast(now, dtype)}, 2);
      g.output("present" + at + name, all);
      if (reads_past) x = x + sum(cast(past, f32)) * 0.01;
      return cast(all, f32);
    };
    const Value q = heads("q", 1 + i), k = heads("k", 20 + i), v = heads("v", 40 + i);
    const Value keys = carried("key", k), values = carried("value", v);
    const Value y = attention(q, keys, values, mask);
    x = x + reshape(permute(y, {0, 2, 1, 3}), {b, t, 8});
  }
  g.output("y", x);
  g.output("present_mean", mean_before * 0.5 + sum(x));
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  return g;
}

// A host that passes each run's results to the next run.
class Host {
 public:
  Host(const Model& model, int64_t batch, DType dtype)
      : session_(must(Session::create(model, {.threads = 1}))), batch_(batch) {
    for (int i = 0; i < session_.input_count(); ++i)
      if (session_.input_name(i).starts_with("past"))
        past_.push_back(must(TensorData::allocate(dtype, {batch, 2, 0, 4})));
    mean_ = must(TensorData::allocate(f32, {3}));
  }
  Floats run(const Floats& x, const Floats& mask, int64_t t, int64_t p) {
    EXPECT_TRUE(session_.set_input("x", view(x, {batch_, t, 8})).ok());
    EXPECT_TRUE(session_.set_input("mask", view(mask, {batch_, 1, t, p + t})).ok());
    EXPECT_TRUE(session_.set_input("mean", mean_.tensor).ok());
    for (size_t i = 0; i < past_.size(); ++i)
      EXPECT_TRUE(session_.set_input(name(i, "past_key_values"), past_[i].tensor).ok());
    must(session_.run());
    std::vector<TensorData> next;
    for (size_t i = 0; i < past_.size(); ++i)
      next.push_back(must(TensorData::copy_of(must(session_.output(name(i, "present"))))));
    TensorData mean = must(TensorData::copy_of(must(session_.output("present_mean"))));
    const Tensor y = must(session_.output("y"));
    Floats result(y.as<float>(), y.as<float>() + y.count());
    past_ = std::move(next);
    mean_ = std::move(mean);
    return result;
  }
  void truncate(int64_t p) {
    for (TensorData& past : past_) {
      Tensor part = past.tensor;
      part.shape[2] = p;
      past = must(TensorData::copy_of(part));
    }
  }

 private:
  static std::string name(size_t i, const char* prefix) {
    return std::string(prefix) + "." + std::to_string(i / 2) + (i % 2 == 0 ? ".key" : ".value");
  }
  Session session_;
  int64_t batch_;
  std::vector<TensorData> past_;
  TensorData mean_;
};

StatefulOptions options_for(const Graph& graph, int64_t batch, int64_t capacity) {
  StatefulOptions options{.carried = carried_values(graph), .capacity = capacity};
  options.carried.push_back({"present_mean", "mean"});
  options.dims = {{"b", batch}};
  return options;
}

TEST(Stateful, RandomSequencesGiveTheBitsOfAHostThatPassesValuesOn) {
  test::for_cases(60, [](uint64_t seed) {
    std::mt19937_64 random(seed);
    const int64_t batch = 1 + static_cast<int64_t>(random() % 3), capacity = 24;
    const DType dtype = random() % 3 == 0 ? f16 : f32;
    const Model plain = must(
        Model::from_graph(decoder(1 + static_cast<int>(random() % 3), random() % 2 == 0, dtype)));
    const Model stateful = must(make_stateful(plain, options_for(plain.graph(), batch, capacity)));
    SessionOptions how{.threads = 1 + static_cast<int>(random() % 3)};
    if (random() % 2 == 0) how.ranges = {{"p", 0, capacity}};
    std::optional<Session> session = must(Session::create(stateful, how));
    Host host(plain, batch, dtype);
    std::deque<Floats> given;
    int64_t p = 0;
    for (int turn = 0; turn < 14; ++turn) {
      const int64_t t = 1 + static_cast<int64_t>(random() % (random() % 3 == 0 ? 7 : 1));
      if (p + t > capacity || random() % 5 == 0) {
        p = static_cast<int64_t>(random() % static_cast<uint64_t>(p + 1));
        host.truncate(p);
        if (p + t > capacity) continue;
      }
      if (random() % 5 == 0) {  // continues in another session
        Session other = must(Session::create(stateful, how));
        for (const State& state : stateful.graph().states())
          if (state.kind == State::Kind::buffer) {
            EXPECT_TRUE(other.set_value(state.name, must(session->value(state.name))).ok());
          }
        session = std::move(other);
      }
      Floats& x = given.emplace_back(static_cast<size_t>(batch * t * 8));
      for (float& each : x) each = static_cast<float>(random() % 65) / 32 - 1;
      Floats& mask = given.emplace_back(static_cast<size_t>(batch * t * (p + t)));
      for (size_t i = 0; i < mask.size(); ++i) mask[i] = random() % 4 == 0 ? -1e9f : 0.0f;
      EXPECT_TRUE(session->set_input("x", view(x, {batch, t, 8})).ok());
      EXPECT_TRUE(session->set_input("mask", view(mask, {batch, 1, t, p + t})).ok());
      must(session->run());
      const Tensor y = must(session->output("y"));
      EXPECT_EQ(Floats(y.as<float>(), y.as<float>() + y.count()), host.run(x, mask, t, p))
          << "case " << seed << ", turn " << turn << ", t " << t << ", p " << p;
      p += t;
    }
  });
}

TEST(Stateful, AppendsWithoutACopy) {
  const Model plain = must(Model::from_graph(decoder(2, false)));
  const Model stateful = must(make_stateful(plain, options_for(plain.graph(), 1, 4096)));
  EXPECT_EQ(stateful.graph().inputs().size(), 2u);
  EXPECT_EQ(stateful.graph().outputs().size(), 1u);
  Session session =
      must(Session::create(stateful, {.threads = 1, .dims = {{"t", 1}, {"p", 4000}}}));
  const std::string report = session.report();
  EXPECT_EQ(report.find("contiguous"), std::string::npos) << report;
  EXPECT_EQ(report.find("concat"), std::string::npos) << report;
  for (const ArenaBlock& block : session.arena_blocks())
    if (block.value != "workspace") {
      EXPECT_LT(block.bytes, 1000) << block.value << report;
    }
}

TEST(Stateful, KeepsTheAttachments) {
  Model plain = must(Model::from_graph(decoder(1, false)));
  Model::Info info;
  info.attachments = {{"tokenizer.json", "{}"}};
  plain.set_info(std::move(info));
  const Model stateful = must(make_stateful(plain, options_for(plain.graph(), 1, 4)));
  ASSERT_NE(stateful.attachment("tokenizer.json"), nullptr);
  EXPECT_EQ(stateful.attachment("tokenizer.json")->content, "{}");
}

TEST(Stateful, ARunBeyondTheCapacityFailsAndChangesNothing) {
  const Model plain = must(Model::from_graph(decoder(1, false)));
  Session session =
      must(Session::create(must(make_stateful(plain, options_for(plain.graph(), 1, 4)))));
  const Floats x(8 * 5, 1.0f), mask(5 * 5, 0.0f);
  ASSERT_TRUE(session.set_input("x", view(x, {1, 5, 8})).ok());
  ASSERT_TRUE(session.set_input("mask", view(mask, {1, 1, 5, 5})).ok());
  const Status status = session.run();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("the capacity of 'past_key_values.0.key'"),
            std::string_view::npos)
      << status.message();
  const Tensor keys = must(session.value("past_key_values.0.key"));
  EXPECT_EQ(keys.shape, (Sizes{1, 2, 4, 4}));
  for (int64_t i = 0; i < keys.count(); ++i) EXPECT_EQ(keys.as<float>()[i], 0);
}

// Runs with t new positions and a past of p positions.
Status run_with_past(Session& session, int64_t t, int64_t p) {
  const Floats x(static_cast<size_t>(8 * t), 1.0f), mask(static_cast<size_t>(t * (p + t)), 0.0f);
  HG_TRY(session.set_input("x", view(x, {1, t, 8})));
  HG_TRY(session.set_input("mask", view(mask, {1, 1, t, p + t})));
  return session.run();
}

TEST(Stateful, APastThatNoRunHasWrittenIsRefused) {
  const Model plain = must(Model::from_graph(decoder(2, false)));
  const Model model = must(make_stateful(plain, options_for(plain.graph(), 1, 16)));
  const auto refused = [](const Status& status, std::string_view part) {
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
  };
  const auto states = must(SharedStates::create(model));
  for (const auto& shared : {std::shared_ptr<SharedStates>(), states}) {
    SessionOptions how{.threads = 1};
    how.states = shared;
    Session session = must(Session::create(model, how));
    refused(run_with_past(session, 1, 1),
            "the sizes of the inputs give a past of 1 positions, but 'past_key_values.0.key' "
            "holds 0");
    must(run_with_past(session, 3, 0));
    must(run_with_past(session, 2, 3));
    refused(run_with_past(session, 2, -1), "the size p + t is at least 2, not 1");
    refused(run_with_past(session, 2, 6), "a past of 6 positions, but 'past_key_values.0.key'");
    must(run_with_past(session, 1, 2));  // drops three positions
    refused(run_with_past(session, 1, 4), "holds 3");
    Session other = must(Session::create(model, how));
    if (shared != nullptr) {
      must(run_with_past(other, 1, 3));
      must(run_with_past(session, 1, 4));
      shared->reset();
      refused(run_with_past(other, 1, 1), "holds 0");
    } else {
      refused(run_with_past(other, 1, 3), "holds 0");
      for (const State& state : model.graph().states())
        if (state.kind == State::Kind::buffer)
          must(other.set_value(state.name, must(session.value(state.name))));
      must(run_with_past(other, 1, 3));
    }
  }
}

TEST(Stateful, MemoryOfStatesIsZeroUntilItIsWritten) {
  const Model plain = must(Model::from_graph(decoder(1, false)));
  StatefulOptions options = options_for(plain.graph(), 1, 4096);
  const Model model = must(make_stateful(plain, options));
  const std::vector<State>& all = model.graph().states();
  const auto state = std::find_if(all.begin(), all.end(), [](const State& each) {
    return each.name == "past_key_values.0.key";
  });
  ASSERT_NE(state, all.end());
  // States of one type share their initial value, which a session does not copy.
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [&](const State& each) {
                            return each.data.tensor.data == state->data.tensor.data;
                          }),
            2);
  Session session = must(Session::create(model, {.threads = 1}));
  must(run_with_past(session, 2, 0));
  const Tensor keys = must(session.value(state->name));
  EXPECT_NE(keys.data, state->data.tensor.data);
  int64_t written = 0;
  for (int64_t i = 0; i < keys.count(); ++i) written += keys.as<float>()[i] != 0;
  EXPECT_EQ(written, 2 * 2 * 4);
  Session next = must(Session::create(model, {.threads = 1}));
  const Tensor fresh = must(next.value(state->name));
  for (int64_t i = 0; i < fresh.count(); ++i) ASSERT_EQ(fresh.as<float>()[i], 0);
}

TEST(Stateful, PairsThatAreNoneAreRefused) {
  const Model plain = must(Model::from_graph(decoder(1, false)));
  const auto message = [&](StatefulOptions options) {
    const Result<Model> made = make_stateful(plain, options);
    return made.ok() ? "" : std::string(made.status().message());
  };
  const std::vector<std::pair<std::string, int64_t>> one = {{"b", 1}};
  EXPECT_EQ(message({}),
            "dim 0 of 'past_key_values.0.key' is b: give the size of 'b' in "
            "StatefulOptions::dims");
  EXPECT_EQ(message({.capacity = 0, .dims = one}), "a capacity of 0 holds nothing");
  EXPECT_EQ(message({.dims = {{"c", 1}}}), "there is no size 'c'");
  EXPECT_EQ(message({.carried = {{"present.0.key", "past"}}, .dims = one}),
            "there is no input 'past'");
  EXPECT_EQ(message({.carried = {{"present", "mean"}}, .dims = one}),
            "there is no output 'present'");
  EXPECT_EQ(message({.carried = {{"y", "mean"}}, .dims = one}),
            "the output 'y' is f32[1, t, 8], the input 'mean' is f32[3]");
  EXPECT_EQ(message({.carried = {{"present.0.key", "past_key_values.0.value"}}, .dims = one}),
            "the output 'present.0.key' is not the input 'past_key_values.0.value' with something "
            "appended along dim 2");
  EXPECT_EQ(message({.carried = {{"present_mean", "mean"}, {"present_mean", "mean"}}, .dims = one}),
            "the input 'mean' is carried twice");
  Graph alone;
  const Value past = alone.input("past.k", f32, {"p"}), x = alone.input("x", f32, {2});
  alone.output("present.k", concat({past, x}, 0));
  const Result<Model> made = make_stateful(must(Model::from_graph(std::move(alone))));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().message(), "no other input has the size 'p' of 'past.k'");
  Graph nothing;
  nothing.output("y", nothing.input("x", f32, {2}));
  EXPECT_FALSE(make_stateful(must(Model::from_graph(std::move(nothing)))).ok());
}

}  // namespace
}  // namespace hg
