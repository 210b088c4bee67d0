// SPDX-License-Identifier: Apache-2.0
// Orders and recomputation that save memory: results keep their bits, little is recomputed, and
// limits are met or rejected with the smallest possible limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using Bytes = std::vector<std::byte>;

// Every output and every assigned state after two runs, on inputs that depend only on their sizes.
std::vector<Bytes> results_of(Session& session, int64_t n) {
  std::vector<std::vector<float>> inputs(session.input_count());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Sizes shape;
    for (const Dim& dim : session.input_type(static_cast<int>(i)).shape)
      shape.push_back(dim.is_constant() ? dim.constant() : n);
    std::mt19937 random(static_cast<unsigned>(i) + 7);
    inputs[i].resize(shape.count());
    for (float& x : inputs[i])
      x = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 500;
    EXPECT_TRUE(session.set_input(static_cast<int>(i), view(inputs[i], shape)).ok());
  }
  std::vector<Bytes> results;
  for (int run = 0; run < 2; ++run) {
    must(session.run());
    for (int i = 0; i < session.output_count(); ++i) {
      const Tensor y = *session.output(i);
      Result<TensorData> dense = TensorData::copy_of(y);
      const auto* first = dense->tensor.as<std::byte>();
      results.emplace_back(first, first + dense->tensor.bytes());
    }
  }
  return results;
}

Result<Session> create(const Model& model, SessionOptions options, int64_t n) {
  if (!model.graph().symbols().empty()) options.dims = {{"n", n}};
  options.threads = 1;
  return Session::create(model, options);
}

// Conv, batch_norm and relu in residual blocks, and the gradients of all parameters.
Model residual_network(int blocks, bool with_dropout = false) {
  Graph g;
  const Dim c = 8;
  Value x = g.input("x", f32, {"n", c, 12, 12});
  std::vector<Value> wrt;
  const auto layer = [&](const Value& in, int index) {
    const std::string name = "layer" + std::to_string(index);
    const Value w = g.parameter(name + ".w", f32, {8, 8, 3, 3},
                                init::kaiming_uniform(static_cast<uint64_t>(index)));
    const Value scale = g.parameter(name + ".scale", f32, {8}, init::ones());
    const Value shift = g.parameter(name + ".shift", f32, {8}, init::zeros());
    for (const Value& v : {w, scale, shift}) wrt.push_back(v);
    ConvOptions options;
    options.padding = {1};
    return batch_norm(conv(in, w, {}, options), scale, shift, {}, {}, true).y;
  };
  for (int i = 0; i < blocks; ++i) {
    Value y = relu(layer(x, 2 * i));
    if (with_dropout)
      y = g.call("dropout", {y}, {{"p", 0.3}, {"training", true}, {"stream", int64_t{i}}});
    x = relu(layer(y, 2 * i + 1) + x);
  }
  const Value loss = mean(x * x);
  g.output("loss", loss);
  for (const Value& d : grad(std::span(&loss, 1), wrt)) g.output("", d);
  return must(Model::from_graph(std::move(g)));
}

// Blocks that are live at the same step do not overlap.
void expect_apart(const Session& session) {
  const std::vector<ArenaBlock> blocks = session.arena_blocks();
  for (size_t i = 0; i < blocks.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const ArenaBlock &a = blocks[i], &b = blocks[j];
      if (a.last_step < b.first_step || b.last_step < a.first_step) continue;
      ASSERT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
          << a.value << " and " << b.value;
    }
}

TEST(Recompute, AResidualNetworkTrainsInThreeFifthsOfTheMemory) {
  const Model model = residual_network(6);
  Session free = must(create(model, {}, 4));
  const Memory all = *free.memory();
  EXPECT_EQ(all.extra_flops, 0);
  SessionOptions options;
  options.memory_limit = all.packed_bytes + all.arena_bytes * 6 / 10;
  Session limited = must(create(model, options, 4));
  const Memory some = *limited.memory();
  EXPECT_LE(some.arena_bytes + some.packed_bytes, options.memory_limit);
  EXPECT_GT(some.extra_flops, 0);
  EXPECT_LE(some.extra_flops, 0.35 * free.flops());
  EXPECT_EQ(limited.flops(), free.flops() + some.extra_flops);
  expect_apart(limited);
  EXPECT_EQ(results_of(limited, 4), results_of(free, 4));
}

TEST(Recompute, DropoutDrawsTheSameNumbersAgain) {
  const Model model = residual_network(4, true);
  Result<Session> free = create(model, {}, 3);
  SessionOptions options;
  options.memory_limit = free->memory()->packed_bytes + free->memory()->arena_bytes * 6 / 10;
  Session limited = must(create(model, options, 3));
  EXPECT_GT(limited.memory()->extra_flops, 0);
  EXPECT_EQ(results_of(limited, 3), results_of(*free, 3));
}

TEST(Recompute, AnImpossibleLimitNamesTheSmallestThatWorks) {
  const Model model = residual_network(6);
  SessionOptions options;
  options.memory_limit = 1000;
  const Status status = create(model, options, 4).status();
  EXPECT_EQ(status.code(), Code::out_of_memory);
  const std::string message(status.message());
  EXPECT_NE(message.find("the memory limit is 1000 bytes"), std::string::npos) << message;
  const std::string before = "the smallest that works is ";
  const size_t at = message.find(before);
  ASSERT_NE(at, std::string::npos) << message;
  const int64_t smallest = std::stoll(message.substr(at + before.size()));
  options.memory_limit = smallest;
  Session tight = must(create(model, options, 4));
  Result<Session> free = create(model, {}, 4);
  EXPECT_LT(smallest, free->memory()->packed_bytes + free->memory()->arena_bytes * 6 / 10);
  EXPECT_EQ(results_of(tight, 4), results_of(*free, 4));
  options.memory_limit = smallest - 1;
  EXPECT_FALSE(create(model, options, 4).ok());
}

TEST(Recompute, ALimitHoldsForEverySizeOnItsOwn) {
  const Model model = residual_network(4);
  SessionOptions options;
  const Memory at_4 = *create(model, {}, 4)->memory();
  options.memory_limit = at_4.arena_bytes + at_4.packed_bytes;
  Session session = must(create(model, options, 4));
  EXPECT_EQ(session.memory()->extra_flops, 0);
  Result<Session> free = create(model, {}, 7);
  EXPECT_EQ(results_of(session, 7), results_of(*free, 7));
  EXPECT_GT(session.memory()->extra_flops, 0);
  Result<Session> small = create(model, {}, 4);
  EXPECT_EQ(results_of(session, 4), results_of(*small, 4));
}

TEST(Recompute, SquareRootCheckpointsNeedNoLimit) {
  const Model model = residual_network(8);
  SessionOptions options;
  options.checkpoint = Checkpoint::sqrt;
  Session session = must(create(model, options, 4)), free = must(create(model, {}, 4));
  EXPECT_LT(session.memory()->arena_bytes, free.memory()->arena_bytes * 7 / 10);
  EXPECT_LT(session.memory()->extra_flops, free.flops());
  EXPECT_EQ(results_of(session, 4), results_of(free, 4));
}

// A graph of products and sums with views and reuse; some graphs include gradients.
Model random_model(std::mt19937& random) {
  Graph g;
  std::vector<Value> values = {g.input("a", f32, {16, 16}), g.input("b", f32, {16, 16})};
  const size_t count = 4 + random() % 20;
  for (size_t i = 0; i < count; ++i) {
    const Value a = values[random() % values.size()], b = values[random() % values.size()];
    switch (random() % 6) {
      case 0:
        values.push_back(a + b);
        break;
      case 1:
        values.push_back(a * b);
        break;
      case 2:
        values.push_back(tanh(a));
        break;
      case 3:
        values.push_back(tanh(g.call("matmul", {a, b}) * 0.1));
        break;
      case 4:
        values.push_back(g.call("permute", {a}, {{"dims", Attr({Dim(1), Dim(0)})}}));
        break;
      default:
        values.push_back(g.call("softmax", {a - b}, {{"dim", 1}}));
        break;
    }
  }
  const Value loss = mean(values.back() * values[values.size() - 2]);
  g.output("loss", loss);
  for (const Value& d : grad(loss, {values[0], values[1]})) g.output("", d);
  return must(Model::from_graph(std::move(g)));
}

TEST(Recompute, RandomGraphsGiveTheSameBitsUnderEveryLimit) {
  std::mt19937 random(3);
  int limited = 0;
  for (int round = 0; round < 40; ++round) {
    const Model model = random_model(random);
    Session free = must(create(model, {}, 0));
    expect_apart(free);
    const std::vector<Bytes> expected = results_of(free, 0);
    for (const int percent : {95, 85, 70}) {
      SessionOptions options;
      options.memory_limit = std::max<int64_t>(1, free.memory()->arena_bytes * percent / 100);
      Result<Session> session = create(model, options, 0);
      if (!session.ok()) {
        EXPECT_EQ(session.status().code(), Code::out_of_memory) << session.status().message();
        continue;
      }
      ++limited;
      EXPECT_LE(session->memory()->arena_bytes, options.memory_limit);
      expect_apart(*session);
      ASSERT_EQ(results_of(*session, 0), expected) << "round " << round << ", " << percent << " %";
    }
  }
  EXPECT_GT(limited, 10);
}

// Wide vectors with an immediate reduction each: the given order would keep all vectors.
TEST(Order, BytesThatAreReadSoonAreMadeLate) {
  Graph g;
  const Value x = g.input("x", f32, {1});
  std::vector<Value> wide;
  for (int i = 0; i < 8; ++i)
    wide.push_back(g.call("expand", {x * (i + 1.0)}, {{"shape", Attr({Dim(4096)})}}));
  for (Value& v : wide) v = tanh(v);
  for (Value& v : wide) v = sum(v);
  Value total = wide[0];
  for (size_t i = 1; i < wide.size(); ++i) total = total + wide[i];
  g.output("y", total);
  const Model model = *Model::from_graph(std::move(g));
  Session session = must(create(model, {}, 0));
  EXPECT_LT(session.memory()->arena_bytes, 3 * 4096 * 4);
}

}  // namespace
}  // namespace hg
