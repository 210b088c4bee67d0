// SPDX-License-Identifier: Apache-2.0
// Adapters beside layers with float and quantized weights: results and gradients against plain
// loops in f64, files, stacking, switching in a session, merging, and what is rejected.
#include "hg/adapter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "hg/forward_backward.h"
#include "hg/hg.h"
#include "hg/quantize.h"
#include "hg/stateful.h"
#include "hg/train.h"
#include "lib/graph/element.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"
#include "tests/support/small_decoder.h"

namespace hg {
namespace {

const State* state_of(const Graph& graph, std::string_view name) {
  for (const State& state : graph.states())
    if (state.name == name) return &state;
  return nullptr;
}

TensorData random_data(test::Chance& chance, DType dtype, const Sizes& shape) {
  TensorData data = must(TensorData::allocate(dtype, shape));
  for (int64_t i = 0; i < shape.count(); ++i)
    set_element(data.tensor, i, static_cast<double>(chance.below(2001) - 1000) / 1000);
  return data;
}

std::vector<double> run(const Model& model, const std::vector<ConstTensor>& inputs) {
  Session session = must(Session::create(model));
  for (size_t i = 0; i < inputs.size(); ++i)
    must(session.set_input(static_cast<int>(i), inputs[i]));
  must(session.run());
  const TensorData y = must(TensorData::copy_of(must(session.output(0))));
  std::vector<double> numbers;
  for (int64_t i = 0; i < y.tensor.count(); ++i) numbers.push_back(element(y.tensor, i));
  return numbers;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double most = 1;
  for (const double x : want) most = std::max(most, std::abs(x));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * most) << what << " at " << i;
}

// The same model with random numbers in B.
Model with_random_b(const Model& model, test::Chance& chance) {
  std::vector<TensorData> contents;
  std::vector<std::pair<std::string, ConstTensor>> named;
  for (const State& state : model.graph().states()) {
    if (!state.name.ends_with(".lora_B.weight")) continue;
    const Tensor& b = state.data.tensor;
    contents.push_back(random_data(chance, b.dtype, b.shape));
    named.emplace_back(state.name, contents.back().tensor);
  }
  return must(with_states(model, named));
}

// -- Against plain loops --------------------------------------------------------------------------

using Matrix = std::vector<double>;  // [rows, columns], with both known elsewhere

Matrix numbers_of(const Tensor& tensor) {
  Matrix numbers;
  for (int64_t i = 0; i < tensor.count(); ++i) numbers.push_back(element(tensor, i));
  return numbers;
}

// A stack of products, y = tanh(x W^T + b) each, the last without tanh. All weights are [out, in].
class Stack : test::Chance {
 public:
  explicit Stack(uint64_t seed) : Chance(seed) {}

  void run() {
    dtype_ = chance(20) ? f64 : f32;
    rows_ = 1 + below(12);
    const int64_t depth = 1 + below(3);
    for (int64_t i = 0; i <= depth; ++i) sizes_.push_back(1 + below(chance(30) ? 70 : 20));
    Graph g;
    Value x = g.input("x", dtype_, {chance(50) ? Dim("n") : Dim(rows_), sizes_[0]});
    for (int64_t i = 0; i < depth; ++i) x = add_layer(g, x, i, i + 1 == depth);
    g.output("y", x);
    base_ = must(Model::from_graph(std::move(g)));
    if (chance(70)) {
      QuantizeOptions options;
      options.bits = chance(50) ? 8 : 4;
      options.group = chance(50) ? 0 : 1 + below(40);
      options.least = 0;
      base_ = must(quantize(base_, options)).model;
    }
    AdapterOptions options;
    options.rank = 1 + below(6);
    options.alpha = static_cast<double>(1 + below(40)) / 4;
    options.seed = static_cast<uint64_t>(below(1000));
    scale_ = options.alpha / static_cast<double>(options.rank);
    rank_ = options.rank;
    if (chance(30))
      options.layers = {"*"};
    else
      for (int64_t i = 0; i < depth; ++i)
        if (i == 0 || chance(60)) options.layers.push_back(chance(50) ? name(i) : short_name(i));
    adapted_ = must(add_adapter(base_, options));
    // A plain base has the numbers that a quantized one computes with.
    plain_ = must(merge_adapters(adapted_));
    input_ = random_data(*this, dtype_, {rows_, sizes_[0]});
    same_as_base();
    adapted_ = with_random_b(adapted_, *this);
    check_results();
    check_gradients();
    check_merged();
  }

 private:
  static std::string name(int64_t i) { return str_cat("net.", i, ".proj"); }
  static std::string short_name(int64_t i) { return str_cat(i, ".proj"); }
  double tolerance() const { return dtype_ == f64 ? 1e-11 : 3e-5; }

  Value add_layer(Graph& g, const Value& x, int64_t i, bool is_last) {
    const int64_t in = sizes_[static_cast<size_t>(i)], out = sizes_[static_cast<size_t>(i) + 1];
    const int64_t kind = below(3);
    const std::string weight = name(i) + ".weight";
    const Value bias = chance(50) ? g.parameter(str_cat("net.", i, ".proj.bias"),
                                                random_data(*this, dtype_, {out}))
                                  : Value();
    is_matmul_.push_back(kind == 1);
    Value y;
    if (kind == 0) {
      y = linear(x, g.parameter(weight, random_data(*this, dtype_, {out, in})), bias);
    } else {
      const Value w =
          kind == 1 ? g.parameter(weight, random_data(*this, dtype_, {in, out}))
                    : permute(g.parameter(weight, random_data(*this, dtype_, {out, in})), {1, 0});
      y = matmul(x, w);
      if (bias) y = y + bias;
    }
    return is_last ? y : tanh(y);
  }

  void same_as_base() {
    const std::vector<double> got = hg::run(adapted_, {input_.tensor}),
                              want = hg::run(base_, {input_.tensor});
    expect_near(got, want, tolerance() / 10, "B is 0");
  }

  Matrix tensor(const Model& model, const std::string& of) const {
    const State* const state = state_of(model.graph(), of);
    return state == nullptr ? Matrix() : numbers_of(state->data.tensor);
  }

  // W as [out, in]
  Matrix weight(const Model& model, int64_t i) const {
    Matrix w = tensor(model, name(i) + ".weight");
    const auto in = static_cast<size_t>(sizes_[static_cast<size_t>(i)]),
               out = static_cast<size_t>(sizes_[static_cast<size_t>(i) + 1]);
    EXPECT_EQ(w.size(), in * out);
    if (!is_matmul_[static_cast<size_t>(i)]) return w;
    Matrix turned(w.size());
    for (size_t o = 0; o < out; ++o)
      for (size_t k = 0; k < in; ++k) turned[o * in + k] = w[k * out + o];
    return turned;
  }

  // [n, k] x [m, k]^T, or with `plain` [n, k] x [k, m]
  static Matrix product(const Matrix& x, const Matrix& w, int64_t n, int64_t k, int64_t m,
                        bool plain = false) {
    Matrix y(static_cast<size_t>(n * m), 0);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j)
        for (int64_t p = 0; p < k; ++p)
          y[static_cast<size_t>(i * m + j)] +=
              x[static_cast<size_t>(i * k + p)] *
              w[static_cast<size_t>(plain ? p * m + j : j * k + p)];
    return y;
  }
  static Matrix turned(const Matrix& x, int64_t n, int64_t m) {
    Matrix y(x.size());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j)
        y[static_cast<size_t>(j * n + i)] = x[static_cast<size_t>(i * m + j)];
    return y;
  }

  // Weights of layers without an adapter are those of the base.
  Matrix base_weight(int64_t i) const {
    const State* const state = state_of(plain_.graph(), name(i) + ".weight");
    if (state->data.tensor.dtype == dtype_) return weight(plain_, i);
    AdapterOptions all;
    all.layers = {"*"};
    return weight(must(merge_adapters(must(add_adapter(base_, all)))), i);
  }

  void check_results() {
    Matrix x = numbers_of(input_.tensor);
    inputs_ = {};
    for (int64_t i = 0; i < depth(); ++i) {
      inputs_.push_back(x);
      const int64_t in = sizes_[static_cast<size_t>(i)], out = sizes_[static_cast<size_t>(i) + 1];
      Matrix y = product(x, base_weight(i), rows_, in, out);
      const Matrix bias = tensor(adapted_, name(i) + ".bias");
      const Matrix a = tensor(adapted_, name(i) + ".lora_A.weight"),
                   b = tensor(adapted_, name(i) + ".lora_B.weight");
      Matrix low(y.size(), 0);
      if (!a.empty()) low = product(product(x, a, rows_, in, rank_), b, rows_, rank_, out);
      for (size_t k = 0; k < y.size(); ++k) {
        y[k] += scale_ * low[k] + (bias.empty() ? 0 : bias[k % static_cast<size_t>(out)]);
        if (i + 1 < depth()) y[k] = std::tanh(y[k]);
      }
      x = y;
    }
    results_ = x;
    expect_near(hg::run(adapted_, {input_.tensor}), results_, tolerance(), "results");
  }

  // dB = dy^T h, dA = (dy B)^T x scale, dx = dy W + scale dy B A
  void check_gradients() {
    TrainOptions options;
    options.losses = {{.kind = Loss::Kind::mse, .reduction = Reduction::sum}};
    options.accumulate = 2;
    options.session.threads = 1;
    Trainer trainer = must(Trainer::create(adapted_, options));
    const TensorData target = random_data(*this, dtype_, {rows_, sizes_.back()});
    const ConstTensor inputs[] = {input_.tensor}, targets[] = {target.tensor};
    (void)must(trainer.backward(inputs, targets));
    Matrix dy;
    for (size_t k = 0; k < results_.size(); ++k)
      dy.push_back(2 * (results_[k] - element(target.tensor, static_cast<int64_t>(k))));
    size_t adapters = 0;
    for (int64_t i = depth(); i-- > 0;) {
      const int64_t in = sizes_[static_cast<size_t>(i)], out = sizes_[static_cast<size_t>(i) + 1];
      const Matrix& x = inputs_[static_cast<size_t>(i)];
      Matrix dx = product(dy, base_weight(i), rows_, out, in, true);
      const Matrix a = tensor(adapted_, name(i) + ".lora_A.weight"),
                   b = tensor(adapted_, name(i) + ".lora_B.weight");
      if (!a.empty()) {
        ++adapters;
        Matrix h = product(x, a, rows_, in, rank_), dh = product(dy, b, rows_, out, rank_, true);
        for (double& each : h) each *= scale_;
        for (double& each : dh) each *= scale_;
        const Matrix db = product(turned(dy, rows_, out), h, out, rows_, rank_, true),
                     da = product(turned(dh, rows_, rank_), x, rank_, rows_, in, true),
                     low = product(dh, a, rows_, rank_, in, true);
        for (const auto& [part, want] : {std::pair("A", &da), {"B", &db}}) {
          const std::string of = str_cat(name(i), ".lora_", part, ".weight");
          const Tensor got = must(trainer.session().value("train/sum/" + of));
          expect_near(numbers_of(got), *want, 10 * tolerance(), of);
        }
        for (size_t k = 0; k < dx.size(); ++k) dx[k] += low[k];
      }
      for (size_t k = 0; k < dx.size(); ++k) dx[k] *= 1 - x[k] * x[k];  // of the tanh before
      dy = dx;
    }
    EXPECT_EQ(trainer.trained().size(), 2 * adapters);
  }

  void check_merged() {
    const Model merged = must(merge_adapters(adapted_));
    expect_near(hg::run(merged, {input_.tensor}), results_, tolerance(), "merged");
    for (const State& state : merged.graph().states())
      EXPECT_EQ(state.name.find("lora"), std::string::npos) << state.name;
  }

  int64_t depth() const { return static_cast<int64_t>(sizes_.size()) - 1; }

  DType dtype_ = f32;
  int64_t rows_ = 1, rank_ = 1;
  double scale_ = 1;
  std::vector<int64_t> sizes_;
  std::vector<bool> is_matmul_;
  Model base_, adapted_, plain_;
  TensorData input_;
  std::vector<Matrix> inputs_;  // of the layers
  Matrix results_;
};

TEST(Adapter, EqualsPlainLoops) {
  test::for_cases(300, [](uint64_t i) { Stack(i).run(); });
}

// -- A small network ------------------------------------------------------------------------------

// embed -> conv -> q_proj, v_proj -> head, which is tied to embed.
Model network() {
  test::Chance chance(7);
  Graph g;
  const Value ids = g.input("ids", i64, {"n", 6});
  const Value table = g.parameter("model.embed.weight", random_data(chance, f32, {20, 8}));
  g.add_alias(table, "head.weight");
  Value x = embedding(table, ids);  // [n, 6, 8]
  const Value filter = g.parameter("model.conv.weight", random_data(chance, f32, {8, 8, 3}));
  x = relu(conv(permute(x, {0, 2, 1}), filter, {}, {.padding = {1}}));
  x = permute(x, {0, 2, 1});
  const Value q = g.parameter("model.layers.0.q_proj.weight", random_data(chance, f32, {8, 8}));
  const Value v = g.parameter("model.layers.0.v_proj.weight", random_data(chance, f32, {8, 8}));
  const Value bias = g.parameter("model.layers.0.v_proj.bias", random_data(chance, f32, {8}));
  const Value gate = sigmoid(linear(x, q));
  x = gate * linear(x, v, bias);
  g.output("y", linear(x, table));
  return must(Model::from_graph(std::move(g)));
}

const std::vector<std::string> kLayers = {"q_proj", "layers.*.v_proj", "model.conv", "head"};

TensorData some_ids(uint64_t seed) {
  test::Chance chance(seed);
  TensorData ids = must(TensorData::allocate(i64, {3, 6}));
  for (int64_t i = 0; i < 18; ++i) ids.tensor.as<int64_t>()[i] = chance.below(20);
  return ids;
}

Model adapter(const Model& base, uint64_t seed, int64_t rank, std::vector<std::string> layers) {
  test::Chance chance(seed);
  AdapterOptions options{std::move(layers), rank, 3, seed};
  return must(take_adapter(with_random_b(must(add_adapter(base, options)), chance)));
}

std::vector<double> run_of(Session& session, const ConstTensor& x) {
  must(session.set_input(0, x));
  must(session.run());
  return numbers_of(must(session.output(0)));
}

TEST(Adapter, IsASmallFileThatFitsTheBase) {
  const TensorData ids = some_ids(1);
  for (const int bits : {0, 8, 4}) {
    const Model base = bits == 0 ? network() : must(quantize(network(), {bits, 4, {}, 0})).model;
    test::Chance chance(3);
    const Model whole = with_random_b(must(add_adapter(base, {kLayers, 2})), chance);
    const Model taken = must(take_adapter(whole));
    EXPECT_EQ(taken.graph().states().size(), 12u);
    const std::vector<std::byte> bytes = must(taken.serialize());
    const Model again[] = {must(Model::read(bytes))};
    const Model made = must(apply_adapters(base, again));
    EXPECT_EQ(run(made, {ids.tensor}), run(whole, {ids.tensor})) << bits;
    // A file of the whole model keeps its adapter.
    const Model read = must(Model::read(must(whole.serialize())));
    EXPECT_EQ(run(read, {ids.tensor}), run(whole, {ids.tensor})) << bits;
    EXPECT_EQ(must(must(take_adapter(read)).serialize()), bytes) << bits;
  }
}

TEST(Adapter, SwitchesInASession) {
  const TensorData ids = some_ids(2);
  const Model base = must(quantize(network(), {4, 4, {}, 0})).model;
  const Model one = adapter(base, 1, 2, kLayers), two = adapter(base, 2, 3, {"q_proj", "head"});
  const Model both[] = {one, two};
  const auto alone = [&](std::span<const Model> adapters) {
    return run(must(apply_adapters(base, adapters)), {ids.tensor});
  };
  Session session = must(Session::create(must(apply_adapters(base, {both, 1}, 5))));
  const std::vector<double> none = run(base, {ids.tensor});
  EXPECT_EQ(run_of(session, ids.tensor), alone({both, 1}));
  must(set_adapters(session, {both + 1, 1}));
  EXPECT_EQ(run_of(session, ids.tensor), alone({both + 1, 1}));
  must(set_adapters(session, both));
  EXPECT_EQ(run_of(session, ids.tensor), alone(both));
  must(set_adapters(session, {}));
  expect_near(run_of(session, ids.tensor), none, 1e-6, "without adapters");
  must(set_adapters(session, {both, 1}));
  EXPECT_EQ(run_of(session, ids.tensor), alone({both, 1}));
  // What is rejected changes nothing.
  const Model three[] = {one, two, one};
  EXPECT_EQ(set_adapters(session, three).message(),
            "adapters: 'model.layers.0.q_proj' has room for rank 5, the ranks add up to 7");
  const Model strange[] = {adapter(
      [] {
        Graph g;
        const Value x = g.input("x", f32, {2, 9});
        g.output("y", linear(x, g.parameter("head.weight", f32, {20, 9})));
        return must(Model::from_graph(std::move(g)));
      }(),
      1, 2, {"head"})};
  EXPECT_EQ(set_adapters(session, strange).message(),
            "adapters: 'head' takes A f32[2, 8] and B f32[20, 2], the adapter has A f32[2, 9], B "
            "f32[20, 2] and scales of f32");
  EXPECT_EQ(run_of(session, ids.tensor), alone({both, 1}));
  Session small = must(Session::create(must(apply_adapters(base, {both + 1, 1}))));
  EXPECT_EQ(set_adapters(small, {both, 1}).message(),
            "adapters: the adapter is for 'model.conv', which the session does not adapt");
}

// A pattern that matches both names of a tied weight names the adapter after the product. An
// adapter with the other name is merged into the product's weight too.
TEST(Adapter, OfATiedWeightHasTheNameOfItsProduct) {
  Graph g;
  const Value table = g.parameter("embed.weight", f32, {20, 8}, init::uniform(-1, 1, 1));
  g.add_alias(table, "head.weight");
  const Value x = embedding(table, g.input("ids", i64, {"n", 6}));
  g.set_origin({"head", ""});
  g.output("y", linear(x, table));
  const Model base = must(Model::from_graph(std::move(g)));
  const TensorData ids = some_ids(4);
  for (const char* pattern : {"*", "head", "embed"}) {
    const std::string name = pattern == std::string("embed") ? "embed" : "head";
    const Model parts[] = {adapter(base, 1, 2, {pattern})};
    EXPECT_NE(state_of(parts[0].graph(), name + ".lora_A.weight"), nullptr) << pattern;
    const Model whole = must(apply_adapters(base, parts));
    const Model merged = must(merge_adapters(whole));
    expect_near(run(merged, {ids.tensor}), run(whole, {ids.tensor}), 2e-5, pattern);
    ASSERT_NE(state_of(merged.graph(), "head.weight"), nullptr) << pattern;
    EXPECT_TRUE(state_of(merged.graph(), "embed.weight")->aliases.empty()) << pattern;
  }
}

TEST(Adapter, IsMergedIntoTheWeightsOfItsLayersAlone) {
  const TensorData ids = some_ids(3);
  for (const int bits : {0, 8, 4}) {
    const Model base = bits == 0 ? network() : must(quantize(network(), {bits, 4, {}, 0})).model;
    const Model parts[] = {adapter(base, 1, 2, kLayers), adapter(base, 2, 3, {"head"})};
    const Model whole = must(apply_adapters(base, parts));
    const Model merged = must(merge_adapters(whole));
    expect_near(run(merged, {ids.tensor}), run(whole, {ids.tensor}), 2e-5, "merged");
    // The embedding stays as it is, though it was tied to `head`.
    const State *const table = state_of(merged.graph(), "model.embed.weight"),
                       *const old = state_of(base.graph(), "model.embed.weight");
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(numbers_of(table->data.tensor), numbers_of(old->data.tensor));
    EXPECT_TRUE(table->aliases.empty());
    for (const char* name : {"head.weight", "model.conv.weight", "model.layers.0.q_proj.weight"}) {
      const State* const state = state_of(merged.graph(), name);
      ASSERT_NE(state, nullptr) << name;
      EXPECT_EQ(state->data.tensor.dtype, f32) << name;
      EXPECT_EQ(state->kind, State::Kind::parameter) << name;
    }
    for (const Model::QuantizedState& state : merged.info().quantized)
      EXPECT_EQ(state.name, "model.embed.weight");
    EXPECT_EQ(merged.info().quantized.size(), bits == 0 ? 0u : 1u);
    EXPECT_EQ(merge_adapters(merged).status().message(), "adapters: the model has no adapter");
  }
}

TEST(Adapter, IsTrainedAlone) {
  const TensorData ids = some_ids(4);
  test::Chance chance(4);
  const TensorData target = random_data(chance, f32, {3, 6, 20});
  for (const int bits : {0, 4}) {
    const Model base = bits == 0 ? network() : must(quantize(network(), {bits, 4, {}, 0})).model;
    TrainOptions options;
    options.optimizer = adamw(0.03);
    Trainer trainer = must(Trainer::create(must(add_adapter(base, {kLayers, 2, 4})), options));
    EXPECT_EQ(trainer.trained().size(), 8u);
    EXPECT_TRUE(trainer.notes().empty());
    // Forward and backward read the levels of all products.
    std::map<std::string_view, int> ops;
    for (const Node& node : trainer.session().compiled_graph().nodes()) ++ops[node.op->name()];
    EXPECT_EQ(ops["quantized_linear"], bits == 0 ? 0 : 3);
    EXPECT_EQ(ops["quantized_matmul"], bits == 0 ? 0 : 3);
    const ConstTensor inputs[] = {ids.tensor}, targets[] = {target.tensor};
    const double first = must(trainer.step(inputs, targets));
    double last = first;
    for (int i = 0; i < 60; ++i) last = must(trainer.step(inputs, targets));
    EXPECT_LT(last, 0.8 * first) << bits;
    const Model trained = must(trainer.model());
    for (const State& state : base.graph().states()) {
      const State* const now = state_of(trained.graph(), state.name);
      ASSERT_NE(now, nullptr) << state.name;
      EXPECT_EQ(numbers_of(now->data.tensor), numbers_of(state.data.tensor)) << state.name;
    }
    const Model merged = must(merge_adapters(trained));
    for (const State& state : merged.graph().states())
      EXPECT_FALSE(state.name.starts_with("train/")) << state.name;
    const Model taken[] = {must(take_adapter(trained))};
    EXPECT_EQ(run(must(apply_adapters(base, taken)), {ids.tensor}), run(trained, {ids.tensor}));
  }
}

// The decoder that is trained has no past; its adapter fits the one with a past.
TEST(Adapter, OfADecoderIsTrainedWithoutItsPast) {
  const Model whole = small_decoder::decoder();
  const Model stateless = must(make_stateless(whole));
  ASSERT_EQ(stateless.graph().inputs().size(), 1u);
  ASSERT_EQ(stateless.graph().outputs().size(), 1u);
  const TensorData ids = some_ids(6);
  expect_near(
      run(stateless, {ids.tensor}),
      run(small_decoder::decoder({.past = false, .mask = false, .positions = false}), {ids.tensor}),
      1e-5, "decoder");
  const std::string kept[] = {"attention_mask"};
  const Model masked = must(make_stateless(whole, kept));
  const TensorData mask = must(TensorData::allocate(i64, {3, 6}));
  std::fill_n(mask.tensor.as<int64_t>(), 18, 1);
  EXPECT_EQ(run(masked, {ids.tensor, mask.tensor}), run(stateless, {ids.tensor}));
  EXPECT_EQ(make_stateless(network()).status().message(),
            "the model carries no values: no output 'present...' has an input 'past...' or "
            "'past_key_values...'");

  TrainOptions options;
  options.losses = {{.kind = Loss::Kind::cross_entropy,
                     .target_type = TensorType{i64, {"b", "t"}},
                     .class_dim = -1}};
  options.optimizer = adamw(0.01);
  const AdapterOptions lora{{"q*", "v*", "head*"}, 4};
  Trainer trainer = must(Trainer::create(must(add_adapter(stateless, lora)), options));
  const ConstTensor inputs[] = {ids.tensor};
  const TensorData next = some_ids(7);
  const ConstTensor targets[] = {next.tensor};
  const double first = must(trainer.step(inputs, targets));
  double last = first;
  for (int i = 0; i < 60; ++i) last = must(trainer.step(inputs, targets));
  EXPECT_LT(last, 0.6 * first);
  // Training resumes from the adapter's file.
  const Model saved[] = {must(trainer.adapter())};
  Trainer again = must(Trainer::create(must(apply_adapters(stateless, saved)), options));
  EXPECT_EQ(again.updates(), 61);
  EXPECT_EQ(must(again.step(inputs, targets)), must(trainer.step(inputs, targets)));
  const Model adapter[] = {must(trainer.adapter())};
  const Model tuned = must(apply_adapters(whole, adapter));
  EXPECT_EQ(run(must(make_stateless(tuned)), {ids.tensor}),
            run(must(apply_adapters(stateless, adapter)), {ids.tensor}));
}

// Each entry of a model is adapted, and the entries share the adapter.
TEST(Adapter, IsSharedByEntries) {
  const TensorData ids = some_ids(5);
  Model base;
  must(base.add_entry("first", network().graph()));
  must(base.add_entry("second", network().graph()));
  const Model parts[] = {adapter(network(), 1, 2, kLayers)};
  const Model made = must(apply_adapters(base, parts));
  const std::vector<double> want = run(must(apply_adapters(network(), parts)), {ids.tensor});
  for (const char* name : {"first", "second"})
    EXPECT_EQ(run(must(made.entry(name)), {ids.tensor}), want) << name;
  EXPECT_EQ(must(must(take_adapter(made)).serialize()), must(parts[0].serialize()));
  const Model merged = must(merge_adapters(made));
  expect_near(run(must(merged.entry("second")), {ids.tensor}), want, 2e-5, "merged");
}

TEST(Adapter, SaysWhatDoesNotFit) {
  const Model base = network();
  const auto message = [&](const Model& model, AdapterOptions options) {
    const Result<Model> made = add_adapter(model, options);
    EXPECT_FALSE(made.ok());
    return std::string(made.status().message());
  };
  EXPECT_EQ(
      message(base, {{"nothing"}}),
      "adapters: no layer matches 'nothing'; the model has 4 linear, matmul and conv with "
      "constant weights: 'model.conv', 'model.layers.0.q_proj', 'model.layers.0.v_proj', ...");
  Graph g;
  const Value ids = g.input("ids", i64, {"n"});
  g.set_origin({"embed", ""});
  const Value x = embedding(g.parameter("embed.weight", f32, {9, 4}), ids);
  g.set_origin({"", ""});
  g.output("y", linear(x, g.parameter("fc.weight", f32, {2, 4})));
  EXPECT_EQ(message(must(Model::from_graph(std::move(g))), {{"fc", "embed"}}),
            "adapters: no layer matches 'embed'; 'embed.weight' is read by embedding 'embed'; the "
            "model has 1 linear, matmul and conv with constant weights: 'fc'");
  EXPECT_EQ(message(base, {{"head"}, 0}), "adapters: the rank is 0, but must be 1 or more");
  EXPECT_EQ(message(base, {{}}), "adapters: no layers are given");
  EXPECT_EQ(message(base, {{"head"}, 2, NAN}),
            "adapters: alpha is nan, but must be a finite number");
  const Model adapted = must(add_adapter(base, {{"head"}}));
  EXPECT_EQ(
      message(adapted, {{"head"}}),
      "adapters: 'head' has an adapter; apply_adapters() adds several to a model without one");
  EXPECT_EQ(take_adapter(base).status().message(), "adapters: the model has no adapter");
  const Model not_one[] = {base};
  EXPECT_EQ(apply_adapters(base, not_one).status().message(),
            "adapters: the model has no adapter: no states LAYER.lora_A.weight, "
            "LAYER.lora_B.weight and LAYER.lora_scale");
  Graph other;
  other.output("y",
               linear(other.input("x", f32, {1, 8}), other.parameter("fc.weight", f32, {3, 8})));
  const Model of_head[] = {must(take_adapter(adapted))};
  EXPECT_EQ(apply_adapters(must(Model::from_graph(std::move(other))), of_head).status().message(),
            "adapters: the adapter is for 'head', but the model has no linear, matmul or conv of "
            "this name "
            "with constant weights");
}

}  // namespace
}  // namespace hg
