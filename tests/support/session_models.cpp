// SPDX-License-Identifier: Apache-2.0
#include "tests/support/session_models.h"

#include <cmath>
#include <random>

#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/support/random_graph.h"
#include "tests/support/shared_network.h"

namespace hg::test {
namespace {

using Values = std::vector<Value>;

Value weight(Graph& g, const std::string& name, Shape shape, uint64_t seed, DType dtype = f32) {
  return g.parameter(name, dtype, *evaluate(shape, {}), init::uniform(-0.3, 0.3, seed));
}

// A block of a transformer: x [n, t, 24].
void encoder(Graph& g) {
  const Value x = g.input("x", f32, {"n", "t", 24});
  const Value mask = g.input("mask", boolean, {"n", 1, 1, "t"});
  const auto heads = [&](const char* name, uint64_t seed) {
    return permute(reshape(linear(x, weight(g, name, {24, 24}, seed)), {"n", "t", 3, 8}),
                   {0, 2, 1, 3});
  };
  const Value mixed = attention(heads("q", 1), heads("k", 2), heads("v", 3), mask);
  const Value y = x + linear(reshape(permute(mixed, {0, 2, 1, 3}), {"n", "t", 24}),
                             weight(g, "out", {24, 24}, 4), weight(g, "out_b", {24}, 5));
  const Value normed = layer_norm(y, {24}, weight(g, "g", {24}, 6), weight(g, "b", {24}, 7));
  const Value up = gelu(linear(normed, weight(g, "up", {48, 24}, 8)));
  g.output("y", y + linear(up, weight(g, "down", {24, 48}, 9)));
  g.output("pooled", mean(y, {1}));
  g.output("q_again", heads("k2", 2));
}

// Two recurrent layers of different kinds: x [t, n, 6].
void recurrent(Graph& g) {
  const Value x = g.input("x", f32, {"t", "n", 6}), h = g.input("h", f32, {"n", 10});
  const RnnWeights a = {
      weight(g, "ih", {40, 6}, 1), weight(g, "hh", {40, 10}, 2), weight(g, "bi", {40}, 3), {}};
  const RnnWeights b = {weight(g, "ih2", {30, 10}, 4), weight(g, "hh2", {30, 10}, 5),
                        weight(g, "bi2", {30}, 6), weight(g, "bh2", {30}, 7)};
  const RnnOutput first = lstm(x, h, h, a), second = gru(first.y, h, b, true);
  g.output("y", second.y);
  g.output("c", first.c);
  g.output("same", second.y);
  g.output("x", x);
}

// Buffers that exchange their contents, count and average; outputs show old and new values.
void states(Graph& g) {
  const Value x = g.input("x", f32, {"n", 5});
  const Value a = g.buffer("a", *TensorData::allocate(f32, {5})),
              b = g.buffer("b", *TensorData::allocate(f32, {5})),
              count = g.buffer("count", *TensorData::allocate(i64, {})),
              c = g.buffer("c", *TensorData::allocate(f32, {5}));
  const Value row = sum(x, {0});
  g.output("a_before", a);
  g.output("count_before", count);
  const Value next = a * 0.5 + row;
  g.assign(a, b);
  g.assign(b, next);
  g.assign(count, count + 1);
  g.assign(c, reshape(slice(concat({reshape(c, {1, 5}), x}, 0), 0, 0, 1), {5}));
  g.output("b_next", next);
  g.output("mixed", tanh(a) + b);
  g.output("reversed", flip(b, {0}));
}

// Branches and loops that data decide, with a size that differs.
void control(Graph& g) {
  const Value x = g.input("x", f32, {"n", 7});
  const Value total = sum(x);
  const Values way = cond(
      gt(total, g.scalar(0.0)), {x},
      [](Graph& b, std::span<const Value> v) {
        return Values{relu(linear(v[0], weight(b, "wy", {7, 7}, 1))), sum(v[0], {0})};
      },
      [](Graph&, std::span<const Value> v) {
        return Values{v[0] * 3, amax(concat({v[0], v[0] * 0}, 0), {0})};
      });
  const Values rounds = while_loop(
      {way[0], g.scalar(int64_t{0}, i64)}, {total},
      [](Graph& b, std::span<const Value> v) {
        return Values{lt(v[1], b.scalar(int64_t{4}, i64))};
      },
      [](Graph&, std::span<const Value> v) {
        return Values{tanh(v[0] + v[2]), v[1] + 1};
      });
  const Value found = nonzero(gt(x, g.scalar(0.5)));
  g.output("y", rounds[0]);
  g.output("way", way[1]);
  g.output("found", found);
  g.output("picked", sum(cast(found, f32), {0}) + 1);
  g.output("rounds", rounds[1]);
}

// Convolutions with norms and a residual, and a value in part of another: x [n, 6, s, 9].
void convolutions(Graph& g) {
  const Value x = g.input("x", f32, {"n", 6, "s", 9});
  const auto around = [&](const Value& v, const char* name, int64_t in, int64_t out,
                          uint64_t seed) {
    return conv(v, weight(g, name, {out, in, 3, 3}, seed),
                weight(g, std::string(name) + "b", {out}, seed + 9), {.padding = {1}});
  };
  const Value a = relu(around(x, "c1", 6, 16, 1));
  const Value b = around(a, "c2", 16, 16, 2) + a;
  const Value both = concat({relu(b), conv(x, weight(g, "one", {8, 6, 1, 1}, 3))}, 1);
  g.output("a", slice(both, 1, 3, 11));
  g.output("y", mean(both, {2, 3}));
  g.output("depth", conv(a, weight(g, "dw", {16, 1, 3, 3}, 4), {}, {.padding = {1}, .groups = 16}));
}

// A random graph: fixed sizes, all ops, all dtypes.
SessionModel random_model(uint64_t seed) {
  auto random = std::make_shared<RandomGraph>(random_graph(seed));
  Result<Model> model = Model::from_graph(random->graph);
  if (!model.ok()) return {};
  const Graph& graph = model->graph();
  std::vector<TensorData> all;
  for (const ValueId id : graph.inputs())
    for (const RandomInput& input : random->inputs)
      if (input.name == graph.value_info(id).name) all.push_back(input.data);
  SessionModel made{str_cat("random ", seed), *std::move(model), {}};
  made.inputs = [all](uint64_t) -> Result<std::vector<TensorData>> { return all; };
  return made;
}

double number_of(DType dtype, std::mt19937_64& random) {
  const double x = static_cast<double>(random() >> 11) * 0x1p-53;
  return is_float(dtype) ? 4 * x - 2 : std::floor(2 * x);
}

Result<std::vector<TensorData>> any_inputs(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bindings sizes;
  for (const std::string& symbol : graph.symbols()) {
    static constexpr int64_t kSizes[] = {0, 1, 1, 2, 3, 5, 8, 17};
    HG_TRY(sizes.bind(symbol, kSizes[random() % std::size(kSizes)]));
  }
  std::vector<TensorData> all;
  for (const ValueId id : graph.inputs()) {
    const TensorType& type = graph.value_info(id).type;
    HG_TRY_ASSIGN(const Sizes shape, evaluate(type.shape, sizes));
    HG_TRY_ASSIGN(TensorData data, TensorData::allocate(type.dtype, shape));
    for (int64_t i = 0; i < shape.count(); ++i)
      write_element(data.tensor, i, number_of(type.dtype, random));
    all.push_back(std::move(data));
  }
  return all;
}

SessionModel with_any_inputs(std::string name, Model model) {
  SessionModel made{std::move(name), std::move(model), {}};
  const Graph graph = made.model->graph();
  made.inputs = [graph](uint64_t seed) { return any_inputs(graph, seed); };
  return made;
}

}  // namespace

SessionModel session_model(uint64_t seed, const std::string& file) {
  if (!file.empty()) {
    Result<Model> model = Model::load(file);
    return model.ok() ? with_any_inputs(file, *std::move(model)) : SessionModel{};
  }
  struct Small {
    const char* name;
    void (*build)(Graph&);
  };
  static constexpr Small kSmall[] = {{"encoder", encoder},
                                     {"recurrent", recurrent},
                                     {"states", states},
                                     {"control", control},
                                     {"convolutions", convolutions}};
  const uint64_t which = seed % 12;
  if (which < 6) return random_model(seed / 12);
  if (which == 6) return with_any_inputs("network", shared_network("n"));
  const Small& small = kSmall[which - 7];
  Graph g;
  small.build(g);
  return with_any_inputs(small.name, must(Model::from_graph(std::move(g))));
}

}  // namespace hg::test
