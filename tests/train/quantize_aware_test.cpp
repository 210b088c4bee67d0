// SPDX-License-Identifier: Apache-2.0
// Quantization-aware training: losses and gradients equal those of the float model with the weights
// that quantize() makes, and training recovers what rounding after training loses.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "hg/forward_backward.h"
#include "hg/hg.h"
#include "hg/quantize.h"
#include "hg/train.h"
#include "lib/graph/element.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

TensorData random_data(test::Chance& chance, DType dtype, const Sizes& shape) {
  TensorData data = must(TensorData::allocate(dtype, shape));
  for (int64_t i = 0; i < shape.count(); ++i)
    set_element(data.tensor, i, static_cast<double>(chance.below(20001) - 10000) / 10000);
  return data;
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.shape, want.shape) << what;
  double most = 1e-3;
  for (int64_t i = 0; i < want.count(); ++i) most = std::max(most, std::abs(element(want, i)));
  for (int64_t i = 0; i < got.count(); ++i)
    ASSERT_NEAR(element(got, i), element(want, i), tolerance * most) << what << " at " << i;
}

// embedding, linear, matmul and conv of random sizes, one after another.
class Case : test::Chance {
 public:
  explicit Case(uint64_t seed) : Chance(seed) {}

  void run() {
    dtype_ = chance(30) ? f64 : f32;
    options_.bits = chance(50) ? 8 : 4;
    options_.group = chance(50) ? 0 : 1 + below(20);
    options_.least = chance(70) ? 0 : below(100);
    const Model model = build();
    // quantize() rounds weights that are outputs as well.
    Graph shown = model.graph();
    for (const std::string& name : names_) shown.output("shown." + name, value_of(shown, name));
    const Quantized quantized = must(quantize(must(Model::from_graph(std::move(shown))), options_));
    Session session = must(Session::create(quantized.model));
    for (int i = 0; i < 2; ++i) must(session.set_input(i, inputs_[static_cast<size_t>(i)].tensor));
    must(session.run());
    std::vector<std::pair<std::string, ConstTensor>> rounded;
    for (const std::string& name : names_)
      rounded.emplace_back(name, must(session.output("shown." + name)));
    const Model exact = must(with_states(model, rounded));
    if (quantized.weights.empty()) return check_refusal(model);
    compare(model, exact);
  }

 private:
  static Value value_of(Graph& graph, const std::string& name) {
    for (const State& state : graph.states())
      if (state.name == name) return graph.value(state.value);
    return {};
  }
  Value weight(Graph& g, const Sizes& shape) {
    names_.push_back(str_cat("w", int64_t(names_.size()), ".weight"));
    TensorData data = random_data(*this, dtype_, shape);
    if (chance(20) && shape[0] > 0)  // a row of zeros
      for (int64_t i = 0; i < shape.count() / shape[0]; ++i) set_element(data.tensor, i, 0);
    return g.parameter(names_.back(), std::move(data));
  }

  Model build() {
    Graph g;
    const int64_t rows = 1 + below(4), length = 2 + below(4), entries = 3 + below(8);
    int64_t size = 1 + below(20);
    const Value ids = g.input("ids", i64, {rows, length}), x = g.input("x", dtype_, {rows, length});
    inputs_.push_back(must(TensorData::allocate(i64, {rows, length})));
    for (int64_t i = 0; i < rows * length; ++i) inputs_[0].tensor.as<int64_t>()[i] = below(entries);
    inputs_.push_back(random_data(*this, dtype_, {rows, length}));
    Value y = embedding(weight(g, {entries, size}), ids) * unsqueeze(x, {-1});
    for (int64_t i = 0, count = 1 + below(3); i < count; ++i) {
      const int64_t out = 1 + below(20);
      switch (below(3)) {
        case 0:
          y = linear(y, weight(g, {out, size}));
          break;
        case 1:
          y = matmul(y, weight(g, {size, out}));
          break;
        default:
          y = permute(conv(permute(y, {0, 2, 1}), weight(g, {out, size, 3}), {}, {.padding = {1}}),
                      {0, 2, 1});
      }
      y = tanh(y);
      size = out;
    }
    g.output("y", y);
    target_ = random_data(*this, dtype_, {rows, length, size});
    return must(Model::from_graph(std::move(g)));
  }

  TrainOptions options(bool aware) const {
    TrainOptions options;
    options.accumulate = 2;
    options.session.threads = 1;
    if (aware) options.quantize = options_;
    return options;
  }

  void compare(const Model& model, const Model& exact) {
    Trainer aware = must(Trainer::create(model, options(true))),
            plain = must(Trainer::create(exact, options(false)));
    const ConstTensor inputs[] = {inputs_[0].tensor, inputs_[1].tensor},
                      targets[] = {target_.tensor};
    const double tolerance = dtype_ == f64 ? 1e-12 : 2e-5;
    const double loss = must(plain.backward(inputs, targets));
    EXPECT_NEAR(must(aware.backward(inputs, targets)), loss, tolerance * std::max(1.0, loss));
    for (const std::string& name : names_)
      expect_near(must(aware.session().value("train/sum/" + name)),
                  must(plain.session().value("train/sum/" + name)), tolerance, name);
    const Dataset data{{inputs[0], inputs[1]}, {targets[0]}};
    EXPECT_NEAR(must(aware.evaluate(data, 0)).loss, must(plain.evaluate(data, 0)).loss,
                tolerance * std::max(1.0, loss));
    // The weights themselves stay floats.
    const Model kept = must(aware.model());
    for (const State& state : kept.graph().states())
      for (const State& old : model.graph().states())
        if (state.name == old.name) {
          EXPECT_EQ(state.data.tensor.dtype, dtype_);
          expect_near(state.data.tensor, old.data.tensor, 0, state.name);
        }
  }

  void check_refusal(const Model& model) const {
    EXPECT_NE(Trainer::create(model, options(true))
                  .status()
                  .message()
                  .find("quantize: the model has no weight to quantize"),
              std::string::npos);
  }

  DType dtype_ = f32;
  QuantizeOptions options_;
  std::vector<std::string> names_;
  std::vector<TensorData> inputs_;
  TensorData target_;
};

TEST(QuantizeAware, TrainsWithTheWeightsThatQuantizeMakes) {
  test::for_cases(200, [](uint64_t i) { Case(i).run(); });
}

TEST(QuantizeAware, RecoversWhatRoundingLoses) {
  test::Chance chance(1);
  Graph g;
  const Value x = g.input("x", f32, {"n", 8});
  const Value hidden = tanh(linear(x, g.parameter("a.weight", random_data(chance, f32, {32, 8}))));
  g.output("y", linear(hidden, g.parameter("b.weight", random_data(chance, f32, {3, 32}))));
  const Model start = must(Model::from_graph(std::move(g)));
  const TensorData inputs = random_data(chance, f32, {256, 8});
  const TensorData targets = must(TensorData::allocate(f32, {256, 3}));
  for (int64_t i = 0; i < 256; ++i) {
    const float* const row = inputs.tensor.as<float>() + i * 8;
    for (int64_t k = 0; k < 3; ++k)
      targets.tensor.as<float>()[i * 3 + k] = std::tanh(2 * row[k] - row[k + 3]);
  }
  const Dataset data{{inputs.tensor}, {targets.tensor}};
  TrainOptions options;
  options.optimizer = adamw(1e-2);
  options.schedule.kind = Schedule::Kind::cosine;
  options.resume = false;
  Trainer first = must(Trainer::create(start, options));
  must(first.fit(data, {.epochs = 60}));
  const Model trained = must(first.model());
  TrainOptions of_bits = options;
  of_bits.quantize = {.bits = 4, .least = 0};
  // As many epochs again in floats, and with rounded weights. An aware trainer evaluates what
  // quantize() makes.
  Trainer floats = must(Trainer::create(trained, options)),
          aware = must(Trainer::create(trained, of_bits));
  must(floats.fit(data, {.epochs = 60}));
  must(aware.fit(data, {.epochs = 60}));
  Trainer rounded = must(Trainer::create(must(floats.model()), of_bits));
  const double exact = must(floats.evaluate(data)).loss, before = must(rounded.evaluate(data)).loss,
               after = must(aware.evaluate(data)).loss;
  EXPECT_LT(exact, after);
  EXPECT_LT(after, before / 2) << exact;
  // quantize() gives the model that was evaluated.
  Session session =
      must(Session::create(must(quantize(must(aware.model()), *of_bits.quantize)).model));
  must(session.set_input(0, inputs.tensor));
  must(session.run());
  const Tensor y = must(session.output(0));
  double sum = 0;
  for (int64_t i = 0; i < y.count(); ++i)
    sum += std::pow(element(y, i) - element(targets.tensor, i), 2);
  EXPECT_NEAR(sum / static_cast<double>(y.count()), after, 1e-6);
}

}  // namespace
}  // namespace hg
