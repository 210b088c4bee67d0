// SPDX-License-Identifier: Apache-2.0
// Quantization with samples: what stays in floats and why, what is rejected, and which properties
// of the model are kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/quantize.h"
#include "lib/quantize/fastest.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using Samples = std::vector<std::vector<ConstTensor>>;

std::vector<float> waves(int64_t count, float size = 1) {
  std::vector<float> made;
  for (int64_t i = 0; i < count; ++i)
    made.push_back(size * std::sin(static_cast<float>(i * i % 97) + 0.5f));
  return made;
}
TensorData data_of(const std::vector<float>& from, const Sizes& shape) {
  return must(TensorData::copy_of(view(from, shape)));
}
Value weight(Graph& g, const std::string& name, const Sizes& shape, float size = 0.2f) {
  return g.parameter(name, data_of(waves(shape.count(), size), shape));
}
Model model_of(Graph g) { return must(Model::from_graph(std::move(g))); }
const QuantizeOptions kLayersOnly = {.least = int64_t{1} << 40};

int64_t count_of(const Model& model, std::string_view op) {
  const std::vector<Node>& nodes = model.graph().nodes();
  return std::count_if(nodes.begin(), nodes.end(),
                       [&](const Node& node) { return node.op->name() == op; });
}
std::string state_kinds(const Model& model) {
  std::string all;
  for (const State& state : model.graph().states())
    if (state.kind != State::Kind::constant)
      all += str_cat(state.name, ":", state.data.tensor.dtype, " ");
  return all;
}
std::vector<float> run(const Model& model, const std::vector<ConstTensor>& inputs) {
  Session session = must(Session::create(model, {.threads = 1}));
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(session.set_input(static_cast<int>(i), inputs[i]).ok());
  must(session.run());
  const TensorData y = must(TensorData::copy_of(must(session.output(0))));
  return {y.tensor.as<float>(), y.tensor.as<float>() + y.tensor.count()};
}
// sqrt(sum (a - b)^2 / sum a^2)
double far(const std::vector<float>& a, const std::vector<float>& b) {
  double noise = 0, signal = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    noise += (a[i] - b[i]) * (a[i] - b[i]);
    signal += a[i] * a[i];
  }
  return std::sqrt(noise / signal);
}

// conv, batch_norm, relu, max_pool, conv, and a sum with the result of max_pool.
Graph block() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 3, 8, 8});
  const auto list = [&](const char* name, float middle) {
    std::vector<float> numbers = waves(8, 0.3f);
    for (float& each : numbers) each += middle;
    return g.buffer(name, data_of(numbers, {8}));
  };
  Value y = conv(x, weight(g, "first.weight", {8, 3, 3, 3}), {}, {.padding = {1}});
  y = batch_norm(y, weight(g, "norm.weight", {8}, 1), weight(g, "norm.bias", {8}),
                 list("norm.mean", 0), list("norm.var", 1))
          .y;
  const Value small = max_pool(relu(y), {2, 2});
  const Value deep = relu(conv(small, weight(g, "second.weight", {8, 8, 3, 3}),
                               weight(g, "second.bias", {8}), {.padding = {1}}));
  const Value last = conv(deep, weight(g, "third.weight", {8, 8, 1, 1}));
  g.output("y", last + small);
  return g;
}

TEST(Calibrate, LayersKeepTheirNamesAndWhatTheyReadAloneStaysInBytes) {
  const Model model = model_of(block());
  const std::vector<float> x = waves(2 * 3 * 64);
  const Samples samples = {{view(x, {2, 3, 8, 8})}};
  const Quantized made = must(quantize(model, samples, kLayersOnly));
  EXPECT_EQ(count_of(made.model, "conv"), 0);
  EXPECT_EQ(count_of(made.model, "batch_norm"), 0);
  EXPECT_EQ(count_of(made.model, "conv_integer"), 3);
  EXPECT_EQ(state_kinds(made.model),
            "first.weight:i8 second.weight:i8 third.weight:i8 ");  // the norm is part of it
  ASSERT_EQ(made.weights.size(), 3u);
  EXPECT_EQ(made.weights[1].name, "second.weight");
  EXPECT_EQ(made.weights[1].elements, 576);
  EXPECT_EQ(made.weights[1].bytes_before, 576 * 4);
  EXPECT_EQ(made.weights[1].bytes, 576 + 8 * 4);
  ASSERT_EQ(made.model.info().quantized.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GT(made.weights[i].error, 1e-4);
    EXPECT_LT(made.weights[i].error, 0.01);
    EXPECT_EQ(made.model.info().quantized[i].error, made.weights[i].error);
  }
  ASSERT_EQ(made.layers.size(), 3u);
  EXPECT_EQ(made.layers[0].rounded, "relu_1");  // the sum reads the rounded relu
  EXPECT_EQ(made.layers[0].rounded_high, made.layers[1].high);
  EXPECT_EQ(made.layers[1].rounded, "relu_2");
  EXPECT_EQ(made.layers[2].rounded, "");
  EXPECT_EQ(made.layers[2].low, 0);  // after relu
  EXPECT_LT(far(run(model, samples[0]), run(made.model, samples[0])), 0.02);
  // The model stays unchanged; the result can be written and read like any other model.
  EXPECT_EQ(count_of(model, "conv"), 3);
  const auto bytes = must(made.model.serialize());
  EXPECT_EQ(run(must(Model::read(bytes)), samples[0]), run(made.model, samples[0]));
  EXPECT_EQ(must(must(quantize(model, samples, kLayersOnly)).model.serialize()), bytes);
}

// A sum reads exact floats if no layer made them, though they are concatenated with a layer's
// result.
TEST(Calibrate, FloatsThatAreJoinedWithBytesStayFloats) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  const Value both = concat({linear(x, weight(g, "w", {4, 4})), x}, 1);
  g.output("y", slice(linear(both, weight(g, "v", {8, 8})) * 0.0 + both, 1, 4, 8));
  const Model model = model_of(std::move(g));
  const std::vector<float> numbers = waves(8);
  const Samples samples = {{view(numbers, {2, 4})}};
  EXPECT_EQ(run(must(quantize(model, samples, kLayersOnly)).model, samples[0]), numbers);
}

TEST(Calibrate, NormsWhoseStatisticsAreReadStay) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  const Value mean = g.buffer("mean", data_of(waves(4), {4})),
              var = g.buffer("var", data_of({1, 2, 0.5f, 1}, {4}));
  const BatchNorm norm =
      batch_norm(linear(x, weight(g, "w", {4, 4})), {}, {}, mean, var, false, 0.1);
  g.output("y", norm.y);
  g.output("mean", norm.new_mean);
  const Model model = model_of(std::move(g));
  const std::vector<float> numbers = waves(8);
  const Samples samples = {{view(numbers, {2, 4})}};
  const Quantized made = must(quantize(model, samples, kLayersOnly));
  EXPECT_EQ(count_of(made.model, "batch_norm"), 1);
  EXPECT_EQ(count_of(made.model, "matmul_integer"), 1);
  EXPECT_LT(far(run(model, samples[0]), run(made.model, samples[0])), 0.02);
}

TEST(Calibrate, WhatIsKeptStays) {
  const Model model = model_of(block());
  const std::vector<float> x = waves(3 * 64);
  const Samples samples = {{view(x, {1, 3, 8, 8})}};
  QuantizeOptions options = kLayersOnly;
  options.keep = {"second", "norm.mean"};
  const Quantized made = must(quantize(model, samples, options));
  EXPECT_EQ(count_of(made.model, "conv"), 1);
  EXPECT_EQ(made.layers.size(), 2u);
  options.keep = {"forth"};
  const Result<Quantized> wrong = quantize(model, samples, options);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("'forth'"), std::string::npos);
}

TEST(Calibrate, WeightsOfOtherOpsAreRoundedAsWithoutSamples) {
  Graph g;
  const Value ids = g.input("ids", i64, {"n"});
  const Value table = weight(g, "table", {40, 32});
  const Value x = g.call("embedding", {table, ids});
  g.output("y", linear(relu(linear(x, weight(g, "in.weight", {32, 32}))), table * 1.0));
  const Model model = model_of(std::move(g));
  const std::vector<int64_t> some = {0, 39, 17, 3, 3, 8};
  const Samples samples = {{view(some, {6})}};
  const Quantized made = must(quantize(model, samples));
  EXPECT_EQ(count_of(made.model, "matmul_integer"), 1);
  EXPECT_EQ(state_kinds(made.model), "table:i8 in.weight:i8 table_scale:f32 ");
  EXPECT_EQ(made.weights[0].name, "table");
  EXPECT_LT(far(run(model, samples[0]), run(made.model, samples[0])), 0.02);
}

// A table shared by an embedding and a layer stays a table; the layer gets its own levels.
TEST(Calibrate, TiedWeightsAreRoundedForEachReader) {
  Graph g;
  const Value ids = g.input("ids", i64, {"n"});
  const Value table = weight(g, "table", {40, 32});
  const Value x = g.call("embedding", {table, ids});
  const Value once = linear(x, table), twice = linear(relu(x * 2.0), table);
  g.output("y", once + twice);
  const Model model = model_of(std::move(g));
  const std::vector<int64_t> some = {0, 39, 17, 3, 3, 8};
  const Samples samples = {{view(some, {6})}};
  const Quantized made = must(quantize(model, samples, kLayersOnly));
  EXPECT_EQ(count_of(made.model, "matmul_integer"), 2);
  EXPECT_EQ(made.weights.size(), 1u);  // both layers have the same levels
  EXPECT_NE(state_kinds(made.model).find("table:f32"), std::string::npos);
  EXPECT_LT(far(run(model, samples[0]), run(made.model, samples[0])), 0.02);
}

std::string why(const Model& model, const Samples& samples) {
  const Quantized made = must(quantize(model, samples, kLayersOnly));
  std::string all;
  for (const CalibratedLayer& layer : made.layers) all += layer.stays + ";";
  const std::vector<float> a = run(model, samples[0]), b = run(made.model, samples[0]);
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size() && all.size() > 1; ++i)
    EXPECT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])));
  return all;
}

TEST(Calibrate, LayersStayWhoseInputsSayNothing) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  g.output("y", linear(x, weight(g, "w", {3, 4})));
  const Model model = model_of(std::move(g));
  std::vector<float> numbers(8, 0);
  const Samples samples = {{view(numbers, {2, 4})}};
  EXPECT_EQ(why(model, samples), "its input 'x' goes from 0 to 0 in the samples;");
  numbers[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(why(model, samples), "its input 'x' has a NaN or an infinity in a sample;");
  numbers[3] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(why(model, samples), "its input 'x' has a NaN or an infinity in a sample;");
  numbers[3] = std::numeric_limits<float>::denorm_min();
  EXPECT_NE(why(model, samples), ";");
  numbers[3] = std::numeric_limits<float>::max();
  numbers[4] = -std::numeric_limits<float>::max();
  EXPECT_EQ(why(model, {{view(numbers, {0, 4})}}), "its input 'x' has no element in any sample;");
  numbers[3] = 1;
  numbers[4] = 0;
  EXPECT_EQ(why(model, samples), ";");
}

TEST(Calibrate, SumsThatMayLeave32BitsStay) {
  for (const int64_t depth : {40000, 80000}) {
    Graph g;
    const Value x = g.input("x", f32, {1, depth});
    g.output("y", linear(x, g.constant(data_of(std::vector<float>(static_cast<size_t>(depth), 1),
                                               {1, depth}))));
    const std::vector<float> numbers(static_cast<size_t>(depth), 1);
    const std::string stays = why(model_of(std::move(g)), {{view(numbers, {1, depth})}});
    EXPECT_EQ(stays.find("beyond 32 bits") != std::string::npos, depth == 80000) << stays;
  }
}

// A channel whose weights batch_norm scales to almost nothing, so that only its bias counts.
TEST(Calibrate, LargeBiasesOfSmallWeightsStayExact) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  const std::vector<float> w = {1, -2, 3, 0.5f, 1e-12f, 1e-12f, 0, 0, 0, 0, 0, 0},
                           b = {0.25f, 1000, -3};
  g.output("y", linear(x, g.constant(data_of(w, {3, 4})), g.constant(data_of(b, {3}))));
  const Model model = model_of(std::move(g));
  const std::vector<float> numbers = waves(8);
  const Samples samples = {{view(numbers, {2, 4})}};
  const std::vector<float> y = run(must(quantize(model, samples, kLayersOnly)).model, samples[0]);
  EXPECT_NEAR(y[1], 1000, 1e-3);
  EXPECT_NEAR(y[5], -3, 1e-6);
  EXPECT_NEAR(y[0], run(model, samples[0])[0], 0.05);
}

TEST(Calibrate, PercentilesCutOffWhatIsRare) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  g.output("y", linear(x, weight(g, "w", {3, 4})));
  const Model model = model_of(std::move(g));
  std::vector<float> numbers = waves(4000);
  numbers[17] = 100;
  const Samples samples = {{view(numbers, {1000, 4})}};
  QuantizeOptions options = kLayersOnly;
  EXPECT_NEAR(must(quantize(model, samples, options)).layers[0].high, 100, 0.5);
  options.percentile = 99.9;
  const CalibratedLayer layer = must(quantize(model, samples, options)).layers[0];
  EXPECT_NEAR(layer.high, 1, 0.06);  // one step of the histogram is 101 / 2048
  EXPECT_NEAR(layer.low, -1, 0.06);
  for (const double wrong : {0.0, -3.0, 100.5, std::nan("")}) {
    options.percentile = wrong;
    EXPECT_EQ(quantize(model, samples, options).status().code(), Code::invalid_argument) << wrong;
  }
}

TEST(Calibrate, SamplesThatDoNotFitAreRefused) {
  const Model model = model_of(block());
  const std::vector<float> x = waves(3 * 64);
  const auto message = [&](const Samples& samples) {
    return std::string(quantize(model, samples).status().message());
  };
  EXPECT_NE(message({}).find("there are no samples"), std::string::npos);
  const ConstTensor good = view(x, {1, 3, 8, 8});
  EXPECT_NE(message({{good}, {good, good}}).find("sample 1 has 2 tensors, the model has 1"),
            std::string::npos);
  EXPECT_NE(message({{good}, {view(x, {3, 8, 8})}}).find("sample 1: "), std::string::npos);
  EXPECT_EQ(message({{good}, {good}}), "");
  const Samples samples = {{good}};
  EXPECT_NE(quantize(model, samples, {.bits = 4}).status().message().find("`bits` is 4; layers"),
            std::string::npos);
}

// A state that runs change is not a weight; it begins with the value that the model has.
TEST(Calibrate, StatesThatRunsChangeStay) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  const Value w = weight(g, "w", {4, 4});
  const Value still = weight(g, "still", {4, 4});
  g.output("y", linear(linear(x, still), w));
  g.assign(w, w * 0.5);
  const Model model = model_of(std::move(g));
  const std::vector<float> numbers = waves(8);
  const Samples samples = {{view(numbers, {2, 4})}, {view(numbers, {2, 4})}};
  const Quantized made = must(quantize(model, samples, kLayersOnly));
  EXPECT_EQ(count_of(made.model, "linear"), 1);
  EXPECT_EQ(count_of(made.model, "matmul_integer"), 1);
  EXPECT_LT(far(run(model, samples[0]), run(made.model, samples[0])), 0.02);
}

// In control flow bodies, and outside them; guards stay.
TEST(Calibrate, BodiesOfControlFlowStay) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  g.guard(Dim("n"), Relation::ne, Dim(3), "a test");
  const Value w = weight(g, "w", {4, 4});
  const auto branch = [](double factor) {
    return [factor](Graph&, std::span<const Value> xs) {
      return std::vector<Value>{linear(xs[0], xs[1]) * factor};
    };
  };
  const std::vector<Value> chosen = cond(gt(sum(x), g.scalar(0.0)), {x, w}, branch(1), branch(-1));
  ASSERT_EQ(chosen.size(), 1u);
  g.output("y", linear(relu(chosen[0]), weight(g, "last", {4, 4})));
  const Model model = model_of(std::move(g));
  const std::vector<float> numbers = waves(8);
  const Samples samples = {{view(numbers, {2, 4})}};
  const Quantized made = must(quantize(model, samples, kLayersOnly));
  EXPECT_EQ(made.layers.size(), 1u);
  EXPECT_EQ(count_of(made.model, "if"), 1);
  EXPECT_LT(far(run(model, samples[0]), run(made.model, samples[0])), 0.03);
  Session session = must(Session::create(made.model, {.threads = 1}));
  const std::vector<float> more = waves(12);
  const Status set = session.set_input(0, view(more, {3, 4}));
  EXPECT_FALSE(set.ok() && session.run().ok());
}

// Milliseconds of a run: 8 bits of each layer cost `bits` instead of 1, and so does a conversion
// between two layers.
Compare times_of(const std::vector<double>& bits, double conversion) {
  const auto time = [=](const Stays& stays) {
    double all = 0;
    for (size_t i = 0; i < stays.size(); ++i) {
      all += stays[i].empty() ? bits[i] : 1;
      if (i > 0 && stays[i].empty() != stays[i - 1].empty()) all += conversion;
    }
    return all;
  };
  return [=](const Stays& a, const Stays& b) -> Result<std::pair<double, double>> {
    return std::pair(time(a), time(b));
  };
}
std::string fastest(const std::vector<double>& bits, double conversion = 0,
                    Stays stays = {"", "", "", ""}) {
  const Fastest made = must(choose_fastest(std::move(stays), times_of(bits, conversion)));
  std::string all;
  for (const std::string& reason : made.stays) all += reason + ";";
  return all;
}

TEST(Calibrate, LayersThatEightBitsDoNotMakeFasterStay) {
  EXPECT_EQ(fastest({0.5, 0.9, 0.2, 0.25}), ";;;;");
  EXPECT_EQ(fastest({0.5, 1.5, 0.25, 1}),
            ";a run takes 2.75 ms with this layer in floats and 3.25 ms in 8 bits;;"
            "a run takes 2.75 ms with this layer in floats and 2.75 ms in 8 bits;");
  // Floats between layers of 8 bits need conversions.
  EXPECT_EQ(fastest({0.5, 1.5, 0.5, 0.5}, 0.5), ";;;;");
  // Each layer alone is faster in 8 bits, but not the model.
  EXPECT_EQ(fastest({1.25, 1.25, 1.25, 1.25}, 0.5),
            "a run is faster with all layers in floats;a run is faster with all layers in floats;"
            "a run is faster with all layers in floats;a run is faster with all layers in floats;");
  EXPECT_EQ(fastest({1, 2, 0.5, 0.5}, 0, {"", "empty", "", ""}),
            "a run takes 3 ms with this layer in floats and 3 ms in 8 bits;empty;;;");
  const Fastest made = must(choose_fastest({"", "empty"}, times_of({0.25, 1}, 0)));
  EXPECT_EQ(made.layers[0]->ms, 1.25);
  EXPECT_EQ(made.layers[0]->float_ms, 2);
  EXPECT_FALSE(made.layers[1]);
  EXPECT_EQ(made.ms, 1.25);
  EXPECT_EQ(made.float_ms, 2);
}

// Whatever the times are, the model is that of the layers that take 8 bits.
TEST(Calibrate, FastestKeepsWholeLayers) {
  const Model model = model_of(block());
  const std::vector<float> x = waves(2 * 3 * 64);
  const Samples samples = {{view(x, {2, 3, 8, 8})}};
  for (int i = 0; i < 5; ++i) {
    int64_t done = 0, all = 0;
    QuantizeOptions options = {.least = 1, .fastest = true};
    options.progress = [&](int64_t d, int64_t a) {
      done = d;
      all = a;
    };
    const Quantized made = must(quantize(model, samples, options, {.threads = 1}));
    ASSERT_EQ(made.layers.size(), 3u);
    const char* const weights[] = {"first.weight", "second.weight", "third.weight"};
    QuantizeOptions same = {.least = 1};
    for (size_t l = 0; l < 3; ++l) {
      const CalibratedLayer& layer = made.layers[l];
      if (!layer.stays.empty()) same.keep.push_back(weights[l]);
      EXPECT_NE(
          state_kinds(made.model).find(str_cat(weights[l], layer.stays.empty() ? ":i8" : ":f32")),
          std::string::npos)
          << state_kinds(made.model);
      ASSERT_TRUE(layer.ms && layer.float_ms);
      EXPECT_GT(*layer.ms, 0);
      EXPECT_GT(*layer.float_ms, 0);
    }
    EXPECT_EQ(done, 3);
    EXPECT_EQ(all, 3);
    EXPECT_TRUE(made.ms && made.float_ms && *made.ms <= *made.float_ms);
    EXPECT_EQ(must(made.model.serialize()),
              must(must(quantize(model, samples, same, {.threads = 1})).model.serialize()));
  }
}

TEST(Calibrate, FastestAndPercentileNeedLayersWithEightBitInputs) {
  const Model model = model_of(block());
  const std::vector<float> x = waves(2 * 3 * 64);
  const Samples samples = {{view(x, {2, 3, 8, 8})}};
  EXPECT_EQ(quantize(model, {.fastest = true}).status().message(),
            "quantize: `fastest` requires samples");
  for (QuantizeOptions options :
       {QuantizeOptions{.rounding = Rounding::second_order}, QuantizeOptions{.max_error = 0.1}}) {
    for (const bool is_fastest : {false, true}) {
      options.percentile = is_fastest ? 100 : 99;
      options.fastest = is_fastest;
      EXPECT_NE(quantize(model, samples, options).status().message().find("inputs stay floats"),
                std::string::npos);
    }
  }
}

TEST(Calibrate, TheHostIsToldWhatStays) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  g.output("y", linear(x * 0.0, weight(g, "w", {3, 4})));
  const std::vector<float> numbers = waves(8);
  std::string told;
  SessionOptions session = {.threads = 1};
  session.log = {[](void* to, LogLevel, const char* text) {
                   if (std::string_view(text).starts_with("quantize"))
                     *static_cast<std::string*>(to) += text;
                 },
                 &told};
  int64_t done = 0, all = 0;
  QuantizeOptions options = kLayersOnly;
  options.progress = [&](int64_t d, int64_t a) {
    done = d;
    all = a;
  };
  const Samples samples = {{view(numbers, {2, 4})}, {view(numbers, {1, 4})}};
  must(quantize(model_of(std::move(g)), samples, options, session));
  EXPECT_EQ(told,
            "quantize: 'linear_1' takes floats, since its input 'mul_1' goes from 0 to 0 in the "
            "samples");
  EXPECT_EQ(done, 2);
  EXPECT_EQ(all, 2);
}

}  // namespace
}  // namespace hg
