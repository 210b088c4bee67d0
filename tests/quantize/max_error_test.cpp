// SPDX-License-Identifier: Apache-2.0
// Bits that are selected by the error of the model: it is the one reported, within the limit, and
// counted by metrics.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/quantize.h"
#include "lib/graph/element.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

// Weights of a chain of layers, the second of which hardly changes the output.
Model chain(uint64_t seed, double second = 1e-3, bool has_floats = true, bool has_index = false) {
  test::Chance chance(seed);
  const auto weight = [&](const Sizes& shape, double size) {
    TensorData data = must(TensorData::allocate(f32, shape));
    for (int64_t i = 0; i < shape.count(); ++i)
      set_element(data.tensor, i, size * static_cast<double>(chance.below(2001) - 1000) / 1000);
    return data;
  };
  Graph g;
  const Value x = g.input("x", f32, {"n", 32});
  const Value y = relu(linear(x, g.parameter("first", weight({48, 32}, 1))));
  const Value small = linear(y, g.parameter("second", weight({48, 48}, second)));
  const Value last = linear(y + small, g.parameter("third", weight({40, 48}, 1)));
  if (has_floats) g.output("y", last);
  if (has_index) g.output("index", g.call("argmax", {last}));
  return must(Model::from_graph(std::move(g)));
}

double error_of(const Model& floats, const Model& model, const std::vector<TensorData>& samples) {
  Session one = must(Session::create(floats)), two = must(Session::create(model));
  double wrong = 0, all = 0;
  for (const TensorData& x : samples) {
    for (Session* session : {&one, &two}) {
      must(session->set_input(0, x.tensor));
      must(session->run());
    }
    const std::vector<double> want = test::read_all(must(one.output(0))),
                              got = test::read_all(must(two.output(0)));
    for (size_t i = 0; i < want.size(); ++i) {
      wrong += (got[i] - want[i]) * (got[i] - want[i]);
      all += want[i] * want[i];
    }
  }
  return std::sqrt(wrong / all);
}

std::vector<TensorData> drawn_samples(uint64_t seed) {
  test::Chance chance(seed);
  std::vector<TensorData> out;
  for (int64_t i = 0; i < 3; ++i) {
    out.push_back(must(TensorData::allocate(f32, {1 + chance.below(6), 32})));
    for (int64_t e = 0; e < out.back().tensor.count(); ++e)
      set_element(out.back().tensor, e, static_cast<double>(chance.below(2001) - 1000) / 1000);
  }
  return out;
}
std::vector<std::vector<ConstTensor>> views_of(const std::vector<TensorData>& samples) {
  std::vector<std::vector<ConstTensor>> out;
  for (const TensorData& x : samples) out.push_back({x.tensor});
  return out;
}

// The error that is told is that of the model, and it is at most the limit.
TEST(MaxError, HoldsForRandomModels) {
  test::for_cases(10, [](uint64_t seed) {
    const Model model = chain(seed, seed % 2 == 0 ? 1e-3 : 1);
    const std::vector<TensorData> samples = drawn_samples(seed + 1000);
    const auto views = views_of(samples);
    int64_t bytes = 0;
    for (const double limit : {1.0, 0.1, 0.02, 0.003, 1e-4, 0.0}) {
      const Rounding rounding = seed % 3 == 0   ? Rounding::nearest
                                : seed % 3 == 1 ? Rounding::least_squares
                                                : Rounding::second_order;
      const QuantizeOptions options = {.least = 0, .rounding = rounding, .max_error = limit};
      const Quantized made = must(quantize(model, views, options, {.threads = 2}));
      EXPECT_LE(*made.error, limit);
      EXPECT_NEAR(*made.error, error_of(model, made.model, samples), 1e-6);
      bytes = 0;
      for (const QuantizedWeight& weight : made.weights) bytes += weight.bytes;
      const Quantized alone = must(quantize(model, views, options, {.threads = 1}));
      EXPECT_EQ(must(made.model.serialize()), must(alone.model.serialize()));
      const Model back = must(Model::read(must(made.model.serialize())));
      EXPECT_EQ(error_of(made.model, back, samples), 0);
    }
    EXPECT_EQ(bytes, 4 * (48 * 32 + 48 * 48 + 40 * 48));  // without error, all stay in floats
  });
}

TEST(MaxError, InsensitiveWeightsGetFewerBits) {
  const Model model = chain(5);
  const std::vector<TensorData> samples = drawn_samples(6);
  const Quantized made = must(quantize(model, views_of(samples), {.least = 0, .max_error = 0.01}));
  ASSERT_EQ(made.weights.size(), 3u);
  EXPECT_EQ(made.weights[1].bits, 4);
  EXPECT_LT(*made.weights[1].model_error, 0.001);
  EXPECT_GE(made.weights[0].bits, 8);
  EXPECT_GE(made.weights[2].bits, 8);
  EXPECT_GT(*made.error, 0);
  EXPECT_GE(made.mixes.size(), 4u);
  EXPECT_EQ(made.mixes.back().error, 0);
  const Quantized exact = must(quantize(model, views_of(samples), {.least = 0, .max_error = 0}));
  for (const QuantizedWeight& weight : exact.weights) {
    EXPECT_EQ(weight.bits, 32);
    EXPECT_EQ(weight.bytes, weight.bytes_before);
  }
  EXPECT_EQ(must(exact.model.serialize()), must(model.serialize()));
}

// The index of a class says nothing of an error: such outputs do not count.
TEST(MaxError, IndicesDoNotCount) {
  const std::vector<TensorData> samples = drawn_samples(8);
  const QuantizeOptions options = {.least = 0, .max_error = 0.01};
  const Quantized alone = must(quantize(chain(7), views_of(samples), options));
  const Quantized both = must(quantize(chain(7, 1e-3, true, true), views_of(samples), options));
  EXPECT_EQ(*both.error, *alone.error);
  EXPECT_TRUE(quantize(chain(7, 1e-3, false, true), views_of(samples), options)
                  .status()
                  .message()
                  .starts_with("quantize: `max_error` limits the error of floats"));
}

// A metric limits how much worse it is, beside targets or the float model's outputs.
TEST(MaxError, Metrics) {
  const Model model = chain(7);
  const std::vector<TensorData> samples = drawn_samples(8);
  QuantizeOptions options = {.least = 0, .max_error = 0.0, .metric = Metric{}};
  const Quantized made = must(quantize(model, views_of(samples), options));
  EXPECT_EQ(*made.error, 0);
  Session one = must(Session::create(model)), two = must(Session::create(made.model));
  std::vector<TensorData> targets;
  for (const TensorData& x : samples) {
    for (Session* session : {&one, &two}) {
      must(session->set_input(0, x.tensor));
      must(session->run());
    }
    const std::vector<double> a = test::read_all(must(one.output(0))),
                              b = test::read_all(must(two.output(0)));
    targets.push_back(must(TensorData::allocate(i64, {x.tensor.shape[0]})));
    for (int64_t r = 0; r < x.tensor.shape[0]; ++r) {
      const auto best = [&](const std::vector<double>& y) {
        return std::max_element(y.begin() + r * 40, y.begin() + (r + 1) * 40) - y.begin() - r * 40;
      };
      EXPECT_EQ(best(a), best(b));
      set_element(targets.back().tensor, r, static_cast<double>(best(a) + (r == 0)));
    }
  }
  int64_t bytes = 0;
  for (const QuantizedWeight& weight : made.weights) bytes += weight.bytes;
  EXPECT_LT(bytes, 4 * (48 * 32 + 48 * 48 + 40 * 48) / 2);  // accuracy allows more than no error
  for (const TensorData& target : targets) options.targets.push_back(target.tensor);
  EXPECT_EQ(*must(quantize(model, views_of(samples), options)).error, 0);
  options.metric->kind = Metric::Kind::mean_error;
  EXPECT_TRUE(quantize(model, views_of(samples), options)
                  .status()
                  .message()
                  .starts_with("quantize: metric mean_error: the output is ["));
  options.targets.clear();
  options.max_error = 0.01;
  const Quantized close = must(quantize(model, views_of(samples), options));
  EXPECT_LE(*close.error, 0.01);
  EXPECT_GT(*close.error, 0);
}

TEST(MaxError, WhatIsRejected) {
  const Model model = chain(1);
  const std::vector<TensorData> samples = drawn_samples(2);
  const auto message = [&](const QuantizeOptions& options) {
    return std::string(quantize(model, views_of(samples), options).status().message());
  };
  EXPECT_EQ(quantize(model, {.max_error = 0.1}).status().message(),
            "quantize: `max_error` and `metric` require samples");
  EXPECT_EQ(message({.max_error = -1}), "quantize: `max_error` is -1, which is not at least 0");
  EXPECT_TRUE(message({.max_error = std::nan("")}).starts_with("quantize: `max_error` is "));
  EXPECT_EQ(message({.metric = Metric{}}), "quantize: there is a metric, but no `max_error`");
  EXPECT_EQ(message({.max_error = 1, .metric = Metric{.output = "z"}}),
            "quantize: the model has no output 'z' for the metric");
  EXPECT_EQ(message({.max_error = 1, .metric = Metric{}, .targets = {samples[0].tensor}}),
            "quantize: 3 samples have 1 targets");
  EXPECT_EQ(message({.max_error = 1, .targets = {samples[0].tensor}}),
            "quantize: there are targets, but no metric");
  QuantizeOptions judged = {.max_error = 1, .metric = Metric{}};
  std::vector<TensorData> targets;
  for (const TensorData& x : samples) {
    targets.push_back(must(TensorData::allocate(i64, {x.tensor.shape[0]})));
    set_element(targets.back().tensor, 0, 39);
  }
  for (const TensorData& target : targets) judged.targets.push_back(target.tensor);
  EXPECT_EQ(message(judged), "");
  for (const double label : {-1.0, 40.0}) {
    set_element(targets[1].tensor, 0, label);
    EXPECT_EQ(message(judged),
              str_cat("quantize: metric accuracy: element 0 of the target of sample 1 is ", label,
                      ", the output has 40 classes"));
  }
  set_element(samples[1].tensor, 3, std::nan(""));
  EXPECT_EQ(message({.max_error = 1}), "quantize: element 3 of input 0 of sample 1 is NaN");
  set_element(samples[1].tensor, 3, std::numeric_limits<double>::infinity());
  EXPECT_EQ(message({.max_error = 1}),
            "quantize: output 'y' of the float model has a NaN or infinity for sample 1");
}

}  // namespace
}  // namespace hg
