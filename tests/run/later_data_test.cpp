// SPDX-License-Identifier: Apache-2.0
// Weights with a folded batch_norm, which are computed when something needs them: sessions with any
// options answer as sessions that fold nothing, and packed weights of a file replace them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "hg/hg.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"
#include "tests/support/temporary_file.h"

namespace hg {
namespace {

using Floats = std::vector<float>;

struct Net {
  Graph graph;
  Sizes x;  // shape of the input
};

Value norm_of(Graph& g, const Value& y, int64_t channels, uint64_t seed) {
  const auto state = [&](const char* name, double low, uint64_t more) {
    return g.parameter(str_cat(name, seed), f32, {channels}, init::uniform(low, 1, seed + more));
  };
  return batch_norm(y, state("scale", 0.5, 1), state("shift", -1, 2), state("mean", -1, 3),
                    state("variance", 0.5, 4))
      .y;
}

// One to three layers with a batch_norm each. The batch may be open, and a weight may serve twice.
Net random_net(test::Chance& random) {
  Net net;
  Graph& g = net.graph;
  const int64_t n = 1 + random.below(3), side = random.chance(25) ? 1 : 2 + random.below(12);
  const bool is_flat = random.chance(25);
  int64_t channels = 1 + random.below(20);
  net.x = is_flat ? Sizes{n, channels} : Sizes{n, channels, side, side};
  Shape shape = to_shape(net.x);
  if (random.chance(30)) shape[0] = Dim("n");
  Value y = g.input("x", f32, shape);
  std::map<std::vector<int64_t>, Value> weights;
  for (int64_t layer = 0, layers = 1 + random.below(3); layer < layers; ++layer) {
    const auto seed = static_cast<uint64_t>(10 * layer + 1);
    const auto weight = [&](const Sizes& of) {
      Value& known = weights[std::vector<int64_t>(of.begin(), of.end())];
      if (!known || random.chance(50))
        known = g.parameter(str_cat("weight", layer), f32, of, init::uniform(-1, 1, seed));
      return known;
    };
    const int64_t out = random.chance(40) ? channels : 1 + random.below(40);
    const int64_t kernel = random.chance(40) ? 1 : 3;
    const ConvOptions options = {.stride = {1 + random.below(2)}, .padding = {kernel / 2}};
    const int64_t kind = is_flat ? 0 : 1 + random.below(4);
    if (kind == 0) {
      const bool is_linear = random.chance(60), is_turned = random.chance(50);
      y = is_linear   ? linear(y, weight({out, channels}))
          : is_turned ? matmul(y, permute(weight({out, channels}), {1, 0}))
                      : matmul(y, weight({channels, out}));
    } else if (kind == 1) {
      ConvOptions deep = options;
      deep.groups = channels;
      y = conv(y, weight({channels, 1, kernel, kernel}), {}, deep);
    } else if (kind == 2) {
      y = conv_transposed(y, weight({channels, out, kernel, kernel}), {}, options);
    } else {
      y = conv(y, weight({out, channels, kernel, kernel}), {}, options);
    }
    if (kind != 1) channels = out;
    y = norm_of(g, y, channels, seed);
    if (random.chance(60)) y = relu(y);
  }
  g.output("y", y);
  return net;
}

Floats elements(const Tensor& y) {
  Floats values(static_cast<size_t>(y.count()));
  copy_elements(y, view(values, y.shape));
  return values;
}

Floats answer(const Model& model, const SessionOptions& options, const Sizes& shape,
              const Floats& x, Memory* memory = nullptr) {
  Session session = must(Session::create(model, options));
  must(session.set_input("x", view(x, shape)));
  must(session.run());
  const Floats values = elements(must(session.output("y")));
  if (!options.packed.empty()) must(session.save_packed());
  if (memory != nullptr) *memory = must(session.memory());
  return values;
}

Floats numbers(const Sizes& shape, uint64_t seed) {
  test::Chance random(seed);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  Floats x(static_cast<size_t>(count));
  for (float& each : x) each = static_cast<float>(random.below(2001) - 1000) / 500;
  return x;
}

TEST(LaterData, AnyOptionsGiveTheAnswerWithoutFolding) {
  int64_t mapped = 0;
  test::for_cases(100, [&](uint64_t number) {
    test::Chance random(number);
    Net net = random_net(random);
    const Floats x = numbers(net.x, number);
    const test::TemporaryFile file("later"), packed("later_packed");
    must(must(Model::from_graph(std::move(net.graph))).save(file.path()));
    const Model model = must(Model::load(file.path()));
    const int threads = random.chance(50) ? 1 : 2;
    const Floats want =
        answer(model, {.threads = threads, .disabled_passes = {"batch_norm"}}, net.x, x);
    SessionOptions options = {.threads = threads};
    const Floats folded = answer(model, options, net.x, x);
    ASSERT_EQ(folded.size(), want.size());
    double most = 1;
    for (const float y : want) most = std::max(most, std::abs(static_cast<double>(y)));
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(folded[i], want[i], 2e-5 * most);

    options.low_memory = random.chance(30);
    options.autotune = random.chance(10);
    const auto near_want = [&](const Floats& y) {
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(y[i], want[i], 2e-5 * most);
    };
    near_want(answer(model, options, net.x, x));
    options.low_memory = options.autotune = false;
    options.packed = packed.path();
    for (int turn = 0; turn < 3; ++turn) {
      const Model again = must(Model::load(file.path()));
      Memory memory;
      ASSERT_EQ(answer(again, options, net.x, x, &memory), folded);
      mapped += memory.mapped_bytes;
      // Another session of the model, and other sizes.
      Session other = must(Session::create(again, options));
      for (int64_t n = net.x[0]; n > 0; n = again.graph().symbols().empty() ? 0 : n - 1) {
        Sizes shape = net.x;
        shape[0] = n;
        const Floats part = numbers(shape, number);
        must(other.set_input("x", view(part, shape)));
        must(other.run());
        const Floats y = elements(must(other.output("y")));
        ASSERT_EQ(y, n == net.x[0] ? folded : answer(again, {.threads = threads}, shape, part));
      }
    }
  });
  if (test::case_count(100) >= 100) {
    EXPECT_GT(mapped, 0);
  }
}

// The file still records the sum of the weights as they were.
TEST(LaterData, IsNotComputedIfAFileHasThePackedWeights) {
  Graph g;
  const Value x = g.input("x", f32, {1, 16, 9, 9});
  const Value w = g.parameter("w", f32, {32, 16, 3, 3}, init::uniform(-1, 1, 3));
  g.output("y", norm_of(g, conv(x, w), 32, 1));
  const test::TemporaryFile file("later"), packed("later_packed");
  const Model model = must(Model::from_graph(std::move(g)));
  must(model.save(file.path()));
  const SessionOptions options = {.threads = 1, .packed = packed.path()};
  const Sizes shape = {1, 16, 9, 9};
  const Floats input = numbers(shape, 1);
  const Floats want = answer(must(Model::load(file.path())), options, shape, input);

  std::string bytes = file.content();
  for (const State& state : model.graph().states())
    if (state.name == "w") {
      const Tensor& t = state.data.tensor;
      const size_t at = bytes.find(std::string_view(t.as<char>(), static_cast<size_t>(t.bytes())));
      ASSERT_NE(at, std::string::npos);
      for (int64_t i = 0; i < t.bytes(); i += 4) bytes[at + static_cast<size_t>(i) + 3] ^= 1 << 6;
    }
  file.set_content(bytes);
  const Model damaged = must(Model::load(file.path()));
  EXPECT_NE(answer(damaged, {.threads = 1}, shape, input), want);
  EXPECT_EQ(answer(damaged, options, shape, input), want);
}

}  // namespace
}  // namespace hg
