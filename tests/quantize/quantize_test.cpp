// SPDX-License-Identifier: Apache-2.0
// Models with quantized weights: weights that are shared, tied and read in control flow bodies;
// what is kept; numbers at the limits of their types; and what is rejected.
#include "hg/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/train.h"
#include "lib/graph/element.h"
#include "tests/support/must.h"

namespace hg {
namespace {

TensorData ramp(DType dtype, const Sizes& shape, double least = -1, double step = 0.01) {
  TensorData data = must(TensorData::allocate(dtype, shape));
  for (int64_t i = 0; i < shape.count(); ++i)
    set_element(data.tensor, i, least + step * static_cast<double>(i % 199));
  return data;
}

const State* state_of(const Graph& graph, std::string_view name) {
  for (const State& state : graph.states())
    if (state.name == name) return &state;
  return nullptr;
}

// y = linear(embedding(table), table): one table under two names, as language models have it.
Model tied_model() {
  Graph g;
  const Value ids = g.input("ids", i64, {"n"});
  const Value table = g.parameter("embed.weight", ramp(f32, {40, 30}));
  g.add_alias(table, "head.weight");
  g.set_origin({"embed", ""});
  const Value x = embedding(table, ids);
  g.set_origin({"head", ""});
  g.output("y", linear(x, table));
  return must(Model::from_graph(std::move(g)));
}

TEST(Quantize, TiedWeightsStayOne) {
  const Quantized quantized = must(quantize(tied_model()));
  ASSERT_EQ(quantized.weights.size(), 1u);
  const QuantizedWeight& weight = quantized.weights[0];
  EXPECT_EQ(weight.name, "embed.weight");
  EXPECT_EQ(weight.module_path, "embed");
  EXPECT_EQ(weight.bytes, 40 * 30 + 40 * 4);
  const State* const state = state_of(quantized.model.graph(), "embed.weight");
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->aliases, std::vector<std::string>{"head.weight"});
  EXPECT_EQ(state->data.tensor.dtype, i8);
  EXPECT_EQ(state->kind, State::Kind::buffer);
}

TEST(Quantize, WhatIsKeptStays) {
  const Model model = tied_model();
  for (const char* keep : {"embed.weight", "embed", "head.weight", "head"}) {
    const Quantized quantized = must(quantize(model, {.keep = {keep}}));
    EXPECT_TRUE(quantized.weights.empty()) << keep;
    EXPECT_EQ(must(quantized.model.serialize()), must(model.serialize())) << keep;
  }
  for (const char* keep : {"emb", "embed.weigh", "head.weight.0", ""}) {
    const Result<Quantized> quantized = quantize(model, {.keep = {keep}});
    ASSERT_FALSE(quantized.ok()) << keep;
    EXPECT_EQ(quantized.status().message(),
              str_cat("quantize: `keep` names '", keep,
                      "', which is neither a state nor a module of the model"));
  }
  EXPECT_TRUE(must(quantize(model, {.least = 1201})).weights.empty());
  EXPECT_EQ(must(quantize(model, {.least = 1200})).weights.size(), 1u);
}

TEST(Quantize, OptionsThatDoNotFitAreRefused) {
  const Model model = tied_model();
  EXPECT_EQ(quantize(model, {.bits = 5}).status().message(),
            "quantize: `bits` is 5, but weights have 8 or 4");
  EXPECT_EQ(quantize(model, {.group = -1}).status().message(),
            "quantize: `group` is -1, which is negative");
  EXPECT_EQ(quantize(model, {.least = -7}).status().message(),
            "quantize: `least` is -7, which is negative");
}

Model one_linear(TensorData weight) {
  Graph g;
  const Value w = g.parameter("w", std::move(weight));
  g.output("y", linear(g.input("x", w.dtype(), {"n", w.dim(1)}), w));
  g.output("w", w);
  return must(Model::from_graph(std::move(g)));
}

TEST(Quantize, WeightsThatAreNotFiniteAreRefused) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      TensorData weight = ramp(dtype, {8, 200});
      set_element(weight.tensor, 333, bad);
      const Model model = one_linear(weight);
      const Result<Quantized> quantized = quantize(model);
      ASSERT_FALSE(quantized.ok());
      EXPECT_EQ(quantized.status().code(), Code::invalid_argument);
      EXPECT_TRUE(quantized.status().message().starts_with("quantize: element 333 of 'w' is "))
          << quantized.status().message();
      EXPECT_TRUE(must(quantize(model, {.keep = {"w"}})).weights.empty());
    }
}

// Rows with the smallest and largest numbers of a dtype: each dequantized weight is finite and at
// most half a step away.
TEST(Quantize, NumbersAtTheEndsOfTheirTypes) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const int bits : {8, 4}) {
      const double most = bits == 8 ? 127 : 7;
      const double smallest = dtype == f64    ? DBL_TRUE_MIN
                              : dtype == f16  ? 0x1p-24
                              : dtype == bf16 ? 0x1p-133
                                              : FLT_TRUE_MIN;
      const double least = dtype == f64 ? DBL_TRUE_MIN : FLT_TRUE_MIN;  // the smallest scale
      const double largest = dtype == f64    ? DBL_MAX
                             : dtype == f16  ? 65504
                             : dtype == bf16 ? 0x1.fep127
                                             : FLT_MAX;
      const double rounding = dtype == f16 ? 0x1p-11 : dtype == bf16 ? 0x1p-8 : 0;  // of 16 bits
      constexpr int64_t kRows = 400, kColumns = 16;
      TensorData weight = must(TensorData::allocate(dtype, {kRows, kColumns}));
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t i = 0; i < kColumns; ++i) {
          const double part = static_cast<double>((i * 7 + row) % 16 - 8) / 8;
          // Rows of multiples of the smallest number, and of fractions of the largest.
          set_element(weight.tensor, row * kColumns + i,
                      row < 200 ? std::round(part * static_cast<double>(row)) * smallest
                                : part * (largest / (1 + static_cast<double>(row - 200) / 100)));
        }
      const Quantized quantized = must(quantize(one_linear(weight), {.bits = bits}));
      ASSERT_EQ(quantized.weights.size(), 1u);
      EXPECT_TRUE(std::isfinite(quantized.weights[0].error));
      EXPECT_LT(quantized.weights[0].error, bits == 8 ? 0.01 : 0.15);
      Session session = must(Session::create(quantized.model, {.dims = {{"n", 0}}}));
      const TensorData x = must(TensorData::allocate(dtype, {0, kColumns}));
      ASSERT_TRUE(session.set_input("x", x.tensor).ok());
      ASSERT_TRUE(session.run().ok());
      const Tensor w = must(session.output("w"));
      for (int64_t row = 0; row < kRows; ++row) {
        long double top = 0;  // long double holds half of the smallest double
        for (int64_t i = 0; i < kColumns; ++i)
          top = std::max<long double>(top, std::abs(element(weight.tensor, row * kColumns + i)));
        const long double step = top / most * (1 + 0x1p-7L) + least;  // the scale, rounded
        for (int64_t i = row * kColumns; i < (row + 1) * kColumns; ++i) {
          ASSERT_TRUE(std::isfinite(element(w, i))) << to_string(dtype) << " row " << row;
          const long double is = element(w, i), was = element(weight.tensor, i);
          ASSERT_LE(std::abs(is - was),
                    step * 0.51L + std::max<long double>(top * rounding, smallest / 2))
              << to_string(dtype) << " row " << row << " bits " << bits;
        }
      }
    }
}

TEST(Quantize, WhatRunsChangeStays) {
  Graph g;
  const Value w = g.buffer("w", ramp(f32, {32, 64}));
  const Value x = g.input("x", f32, {4, 64});
  g.output("y", linear(x, w));
  g.assign(w, w * 0.5);
  const Model model = must(Model::from_graph(std::move(g)));
  EXPECT_TRUE(must(quantize(model)).weights.empty());
}

// A constant in a body with the name of an outer state gets another name.
TEST(Quantize, ConstantsOfBodies) {
  Graph g;
  const Value x = g.input("x", f32, {3, 64}), go = g.input("go", boolean, {});
  const Value w = g.parameter("w", ramp(f32, {64, 64}));
  std::vector<std::shared_ptr<Graph>> bodies;
  for (int i = 0; i < 2; ++i) {
    const auto body = bodies.emplace_back(std::make_shared<Graph>());
    const Value a = body->input("a", f32, {3, 64});
    body->output("", linear(a, body->constant(ramp(f32, {64, 64}, -1 + i), "w")));
  }
  g.output("y", g.calls("if", std::vector<Value>{go, linear(x, w)}, {}, bodies)[0]);
  const Model model = must(Model::from_graph(std::move(g)));
  const std::vector<std::byte> before = must(model.serialize());
  const Quantized quantized = must(quantize(model));
  EXPECT_EQ(must(model.serialize()), before);
  ASSERT_EQ(quantized.weights.size(), 3u);
  std::map<std::string, int> names;
  for (const QuantizedWeight& weight : quantized.weights) ++names[weight.name];
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(quantized.model.info().quantized.size(), 3u);
  EXPECT_LT(must(quantized.model.serialize()).size(), before.size() / 3);
}

TEST(Quantize, AFileInFourBitsIsAnEighth) {
  const Model model = one_linear(ramp(f32, {512, 512}));
  const auto bytes = [](const Model& m) { return static_cast<double>(must(m.serialize()).size()); };
  const double whole = bytes(model);
  EXPECT_NEAR(bytes(must(quantize(model)).model) / whole, 0.25, 0.005);
  EXPECT_NEAR(bytes(must(quantize(model, {.bits = 4})).model) / whole, 0.125, 0.005);
  EXPECT_NEAR(bytes(must(quantize(model, {.bits = 4, .group = 32})).model) / whole, 0.156, 0.005);
}

// If a session has enough memory, it widens weights once, however large they are.
TEST(Quantize, WeightsAreWidenedOnce) {
  const Model model = one_linear(ramp(f32, {1024, 1024}));
  for (const QuantizeOptions& options :
       {QuantizeOptions{}, QuantizeOptions{.bits = 4}, QuantizeOptions{.bits = 4, .group = 32}}) {
    const Quantized quantized = must(quantize(model, options));
    const auto nodes = [&](bool low_memory) {
      SessionOptions how = {.threads = 1};
      how.low_memory = low_memory;
      std::string ops;
      const Session session = must(Session::create(quantized.model, how));
      for (const Node& node : session.compiled_graph().nodes())
        if (node.op->def.view == nullptr) ops += str_cat(node.op->name(), " ");
      return ops;
    };
    EXPECT_EQ(nodes(false), "linear ");
    EXPECT_NE(nodes(true), "linear ");
  }
}

// A quantized weight stays as it is; the file lists the errors of both calls.
TEST(Quantize, Twice) {
  const Model model = tied_model();
  const Quantized once = must(quantize(model)), twice = must(quantize(once.model));
  EXPECT_TRUE(twice.weights.empty());
  EXPECT_EQ(must(twice.model.serialize()), must(once.model.serialize()));
}

TEST(Quantize, EntriesShareWeights) {
  const TensorData shared = ramp(f32, {64, 64});
  Model model;
  for (const char* name : {"one", "two"}) {
    Graph g;
    const Value x = g.input("x", f32, {2, 64});
    g.output("y", linear(x, g.parameter("w", shared)));
    ASSERT_TRUE(model.add_entry(name, std::move(g)).ok());
  }
  const Quantized quantized = must(quantize(model));
  ASSERT_EQ(quantized.weights.size(), 1u);
  EXPECT_EQ(quantized.weights[0].name, "w");
  EXPECT_EQ(quantized.model.entries(), model.entries());
  const Model back = must(Model::read(must(quantized.model.serialize())));
  ASSERT_EQ(back.info().quantized.size(), 1u);
  EXPECT_EQ(back.info().quantized[0].error, quantized.weights[0].error);
  const Tensor one = must(back.entry("one")).graph().states()[0].data.tensor;
  EXPECT_EQ(one.dtype, i8);
  EXPECT_LT(must(quantized.model.serialize()).size(), must(model.serialize()).size() / 2);
}

// Other parameters are trained; gradients of inputs pass through quantized weights.
TEST(Quantize, QuantizedWeightsAreNotTrained) {
  Graph g;
  const Value x = g.input("x", f32, {2, 64});
  const Value w = g.parameter("w", ramp(f32, {64, 64}));
  g.output("y", linear(x, w, g.parameter("b", ramp(f32, {64}))));
  const Quantized quantized = must(quantize(must(Model::from_graph(std::move(g)))));
  TrainOptions options;
  options.losses = {{.kind = Loss::Kind::mse}};
  const Trainer trainer = must(Trainer::create(quantized.model, options));
  EXPECT_EQ(trainer.trained(), std::vector<std::string>{"b"});
  EXPECT_EQ(trainer.notes(),
            std::vector<std::string>{"1 weight is quantized and not trained: 'w'"});
  options.rules = {{.pattern = "w", .lr = 0.1}};
  EXPECT_EQ(
      Trainer::create(quantized.model, options).status().message(),
      "no parameter matches the pattern 'w'; 'w' is i8[64, 64]: integers, as quantized weights "
      "are, are not trained");
  options.rules = {{.pattern = "b", .frozen = true}};
  EXPECT_NE(Trainer::create(quantized.model, options)
                .status()
                .message()
                .find("'w' is i8[64, 64]: integers, as quantized weights are, are not trained"),
            std::string_view::npos)
      << Trainer::create(quantized.model, options).status().message();

  Graph copy = quantized.model.graph();
  const Value loss = sum(copy.value(copy.outputs()[0].second));
  copy.output("dx", grad(loss, {copy.value(copy.inputs()[0])})[0]);
  EXPECT_TRUE(copy.status().ok()) << copy.status().message();
  (void)grad(loss, {copy.value(state_of(copy, "w")->value)});
  EXPECT_NE(copy.status().message().find("i8, not a float"), std::string_view::npos)
      << copy.status().message();
}

// The state of an optimizer does not fit quantized weights, and would not shrink.
TEST(Quantize, TrainedModelsAreQuantisedWithoutTheirOptimizer) {
  Graph g;
  const Value x = g.input("x", f32, {2, 64});
  g.output("y",
           linear(x, g.parameter("w", ramp(f32, {64, 64})), g.parameter("b", ramp(f32, {64}))));
  TrainOptions options;
  options.optimizer = adamw(1e-3);
  Trainer trainer = must(Trainer::create(must(Model::from_graph(std::move(g))), options));
  const TensorData in = ramp(f32, {2, 64});
  const ConstTensor tensor = in.tensor;
  ASSERT_TRUE(trainer.step({&tensor, 1}, {&tensor, 1}).ok());
  const Model trained = must(trainer.model());
  EXPECT_NE(state_of(trained.graph(), "train/progress"), nullptr);
  const Quantized quantized = must(quantize(trained));
  ASSERT_EQ(quantized.weights.size(), 1u);
  EXPECT_EQ(quantized.model.graph().states().size(), 3u);
  Trainer again = must(Trainer::create(quantized.model, options));
  ASSERT_TRUE(again.step({&tensor, 1}, {&tensor, 1}).ok());
  EXPECT_EQ(must(again.model()).info().quantized.size(), 1u);
}

TEST(Quantize, ProgressIsTold) {
  std::vector<int64_t> told;
  QuantizeOptions options;
  options.progress = [&](int64_t done, int64_t all) {
    told.push_back(done);
    told.push_back(all);
  };
  ASSERT_TRUE(quantize(tied_model(), options).ok());
  EXPECT_EQ(told, (std::vector<int64_t>{1, 1}));
}

}  // namespace
}  // namespace hg
