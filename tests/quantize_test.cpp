// SPDX-License-Identifier: Apache-2.0
// Models of random layers, quantised: the numbers that stand for each weight are those of a plain
// double loop here, and the model answers as the float model does with these numbers, to the bit.
// Weights that are shared, tied, seen through views and read in bodies of control flow; what is
// kept; numbers at the ends of their types; and what is refused.
#include "hg/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/graph/element.h"
#include "tests/must.h"
#include "tests/random_case.h"

namespace hg {
namespace {

using Place = std::vector<int64_t>;

// Calls f(element, its place) for all elements in their order.
void for_places(const Sizes& shape, const std::function<void(int64_t, const Place&)>& f) {
  Place at(shape.size(), 0);
  for (int64_t i = 0; i < shape.count(); ++i) {
    int64_t rest = i;
    for (int d = shape.rank(); d-- > 0; rest /= shape[d])
      at[static_cast<size_t>(d)] = rest % shape[d];
    f(i, at);
  }
}

// What a layer reads.
struct Layer {
  std::string name;
  TensorData weight;
  std::function<Place(const Place&)> block;  // elements of one result share a scale
  // The layer's output, of an input that it adds.
  std::function<Value(Graph&, const Value& weight)> apply;
  State::Kind kind = State::Kind::parameter;
};

// The answer: what the weight is after it was quantised, and whether it is.
struct Answer {
  TensorData numbers;
  bool is_quantized = false;
  double error = 0;
};

Answer plain(const Layer& layer, int bits, int64_t least) {
  const Tensor& w = layer.weight.tensor;
  Answer answer{must(TensorData::copy_of(w))};
  const double most = bits == 8 ? 127 : 7;
  std::map<Place, double> largest;
  for_places(w.shape, [&](int64_t i, const Place& at) {
    double& so_far = largest[layer.block(at)];
    so_far = std::max(so_far, std::abs(element(w, i)));
  });
  // Of 4 bits, two are in a byte along a dim, an even one where there is one.
  int64_t levels = w.count(), even = 0, longest = 1;
  for (const int64_t size : w.shape) {
    even += size % 2 == 0;
    longest = std::max(longest, size);
  }
  if (bits == 4) levels = even > 0 ? levels / 2 : levels / longest * ((longest + 1) / 2);
  const int64_t scales = static_cast<int64_t>(largest.size()) * (w.dtype == f64 ? 8 : 4);
  answer.is_quantized = w.count() >= least && levels + scales < w.bytes();
  if (!answer.is_quantized) return answer;
  double off = 0, all = 0;
  for_places(w.shape, [&](int64_t i, const Place& at) {
    const double x = element(w, i), exact = largest[layer.block(at)] / most;
    double number = 0;  // + 0.0: integers have no -0
    if (w.dtype == f64) {
      number = exact == 0 ? 0 : std::round(x / exact) * exact + 0.0;
    } else if (const auto scale = static_cast<float>(exact); scale != 0) {
      number = static_cast<float>(std::round(x / scale)) * scale + 0.0;
    }
    set_element(answer.numbers.tensor, i, number);
    const double is = element(answer.numbers.tensor, i);
    off += (is - x) * (is - x);
    all += x * x;
  });
  answer.error = all == 0 ? 0 : std::sqrt(off / all);
  return answer;
}

class Case : test::Chance {
 public:
  explicit Case(uint64_t seed) : Chance(seed) {}

  void run() {
    options_.bits = chance(50) ? 8 : 4;
    options_.group = chance(50) ? 0 : 1 + below(40);
    options_.least = chance(60) ? 0 : below(300);
    for (int64_t i = 0, count = 1 + below(3); i < count; ++i) add_layer(i);
    std::vector<TensorData> weights, numbers;
    std::vector<Answer> answers;
    for (const Layer& layer : layers_) {
      answers.push_back(plain(layer, options_.bits, options_.least));
      if (chance(10)) {
        options_.keep.push_back(layer.name);
        answers.back() = {layer.weight};
      }
      weights.push_back(layer.weight);
      numbers.push_back(answers.back().numbers);
    }
    const Model model = build(weights), exact = build(numbers);
    const Quantized quantized = must(quantize(model, options_));
    // What a file gives back is the same.
    const std::vector<std::byte> bytes = must(quantized.model.serialize());
    const Model small = must(Model::read(bytes));
    check_weights(small, answers, quantized);
    check_outputs(small, exact);
  }

 private:
  int64_t size(int64_t most) { return chance(3) ? 0 : chance(15) ? 1 : 1 + below(most); }
  DType float_dtype() { return chance(55) ? f32 : chance(40) ? f64 : chance(50) ? f16 : bf16; }
  TensorData numbers(DType dtype, const Sizes& shape) {
    TensorData data = must(TensorData::allocate(dtype, shape));
    const int64_t usual = 1 + below(1000), zeros = chance(20) ? 50 : 2, whole = chance(20);
    for (int64_t i = 0; i < shape.count(); ++i) {
      double x = static_cast<double>(below(2001) - 1000) / 1000;
      if (whole) x = std::round(x * 9);  // ties
      if (chance(static_cast<int>(zeros))) x = 0;
      if (below(usual) == 0) x *= 8;
      set_element(data.tensor, i, x);
    }
    // A row of zeros.
    if (shape.rank() > 1 && shape[0] > 0 && chance(20)) {
      const int64_t row = shape.count() / shape[0], first = below(shape[0]) * row;
      for (int64_t i = 0; i < row; ++i) set_element(data.tensor, first + i, 0);
    }
    return data;
  }
  Value input(Graph& g, DType dtype, const Sizes& shape) {
    const std::string name = "x" + std::to_string(g.inputs().size());
    return g.input(name, dtype, {shape.begin(), shape.end()});
  }

  void add_layer(int64_t number) {
    Layer layer;
    layer.name = "block." + std::to_string(number) + ".weight";
    const int64_t kind = below(10), group = options_.group;
    const DType dtype = float_dtype();
    const auto part = [group](int64_t i) { return group == 0 ? 0 : i / group; };
    const int64_t n = size(24), k = size(60), rows = 1 + below(5);
    // Sums over the last dim, or the one before.
    const auto of_rows = [part](const Place& at) {
      Place block = at;
      block.back() = part(at.back());
      return block;
    };
    const auto of_columns = [part](const Place& at) {
      Place block = at;
      block[at.size() - 2] = part(at[at.size() - 2]);
      return block;
    };
    switch (kind) {
      case 0:
        layer.weight = numbers(dtype, {n, k});
        layer.block = of_rows;
        layer.apply = [=, this](Graph& g, const Value& w) {
          return linear(input(g, dtype, {rows, k}), w);
        };
        break;
      case 1: {
        const int64_t batch = 1 + below(3);
        const bool batched = chance(40);
        layer.weight = numbers(dtype, batched ? Sizes{batch, k, n} : Sizes{k, n});
        layer.block = of_columns;
        layer.apply = [=, this](Graph& g, const Value& w) {
          return matmul(input(g, dtype, batched ? Sizes{batch, rows, k} : Sizes{rows, k}), w);
        };
        break;
      }
      case 2:
        layer.weight = numbers(dtype, {n, k});
        layer.block = of_rows;
        layer.apply = [=, this](Graph& g, const Value& w) {
          return matmul(w, input(g, dtype, {k, rows}));
        };
        break;
      case 3:  // through views
        layer.weight = numbers(dtype, {k, 2, n});
        layer.block = [part](const Place& at) { return Place{part(at[0]), at[1], at[2]}; };
        layer.apply = [=, this](Graph& g, const Value& w) {
          const Value turned = permute(reshape(w, {k, 2 * n}), {1, 0});
          return linear(input(g, dtype, {rows, k}), slice(turned, 0, n / 2, 2 * n));
        };
        break;
      case 4: {  // in another dtype, and of two chunks
        const DType as = dtype == f32 ? f16 : f32;
        layer.weight = numbers(dtype, {2 * n, k});
        layer.block = of_rows;
        layer.apply = [=, this](Graph& g, const Value& w) {
          const Value x = input(g, as, {rows, k});
          const Value wide = cast(w, as);
          return linear(x, slice(wide, 0, 0, n)) + linear(x, slice(wide, 0, n, 2 * n));
        };
        break;
      }
      case 5:
        layer.weight = numbers(dtype, {1 + n, k});
        layer.block = of_rows;
        layer.apply = [=, this](Graph& g, const Value& w) {
          return embedding(w, g.input("i" + std::to_string(g.inputs().size()), i64, {rows}));
        };
        break;
      case 6:
      case 7:
        add_convolution(layer, dtype, kind == 7);
        break;
      case 8: {  // in the branches of `if`
        layer.weight = numbers(dtype, {n, k});
        layer.block = of_rows;
        layer.apply = [=, this](Graph& g, const Value& w) {
          const Value x = input(g, dtype, {rows, k});
          std::vector<std::shared_ptr<Graph>> bodies;
          for (int i = 0; i < 2; ++i) {
            const auto body = bodies.emplace_back(std::make_shared<Graph>());
            const Value a = body->input("a", dtype, {rows, k}), b = body->input("b", dtype, {n, k});
            body->output("", i == 0 ? linear(a, b) : matmul(a, permute(b, {1, 0})) * 2.0);
          }
          const Value go = g.input("go" + std::to_string(g.inputs().size()), boolean, {});
          return g.calls("if", std::vector<Value>{go, x, w}, {}, bodies)[0];
        };
        break;
      }
      default: {  // a recurrent layer
        const int64_t hidden = 1 + below(12), batch = rows;
        layer.weight = numbers(dtype, {hidden, hidden});
        layer.block = of_rows;
        layer.apply = [=, this](Graph& g, const Value& w) {
          return rnn_scan(input(g, dtype, {3, batch, hidden}), input(g, dtype, {batch, hidden}), w)
              .y;
        };
      }
    }
    layer.kind = chance(60)   ? State::Kind::parameter
                 : chance(50) ? State::Kind::buffer
                              : State::Kind::constant;
    layers_.push_back(std::move(layer));
  }

  void add_convolution(Layer& layer, DType dtype, bool transposed) {
    const int rank = static_cast<int>(1 + below(3));
    const int64_t groups = chance(60) ? 1 : 1 + below(4), in = 1 + below(9), out = 1 + below(9);
    Sizes shape = transposed ? Sizes{groups * in, out} : Sizes{groups * out, in};
    Sizes x_shape = {1 + below(2), groups * in};
    for (int d = 0; d < rank; ++d) {
      shape.push_back(1 + below(3));
      x_shape.push_back(3 + below(4));
    }
    const int64_t group = options_.group;
    layer.weight = numbers(dtype, shape);
    layer.block = [=](const Place& at) {
      // Groups of the convolution are channels of their own.
      if (!transposed) return Place{at[0], group == 0 ? 0 : at[1] / group};
      const int64_t most = group == 0 ? in : std::min(group, in);
      return Place{at[1], at[0] / most};
    };
    layer.apply = [=, this](Graph& g, const Value& w) {
      const Value x = input(g, dtype, x_shape);
      const ConvOptions options = {.groups = groups};
      return transposed ? conv_transposed(x, w, {}, options) : conv(x, w, {}, options);
    };
  }

  Model build(const std::vector<TensorData>& weights) {
    Graph g;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const Value w = layer.kind == State::Kind::parameter ? g.parameter(layer.name, weights[i])
                      : layer.kind == State::Kind::buffer  ? g.buffer(layer.name, weights[i])
                                                           : g.constant(weights[i], layer.name);
      g.output("y" + std::to_string(i), layer.apply(g, w));
      g.output("w" + std::to_string(i), w);
    }
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    return must(Model::from_graph(std::move(g)));
  }

  // The outputs of a run, with inputs that depend on their place alone.
  std::map<std::string, TensorData> answers_of(const Model& model, const SessionOptions& how) {
    Session session = must(Session::create(model, how));
    std::vector<TensorData> inputs;
    const Graph& g = model.graph();
    Chance random(7);
    for (const ValueId id : g.inputs()) {
      const TensorType& type = g.value_info(id).type;
      Sizes shape;
      for (const Dim& dim : type.shape) shape.push_back(dim.constant());
      TensorData data = must(TensorData::allocate(type.dtype, shape));
      for (int64_t i = 0; i < shape.count(); ++i)
        set_element(data.tensor, i,
                    type.dtype == i64       ? 0
                    : type.dtype == boolean ? static_cast<double>(random.below(2))
                                            : static_cast<double>(random.below(65) - 32) / 16);
      inputs.push_back(std::move(data));
      EXPECT_TRUE(
          session.set_input(static_cast<int>(inputs.size()) - 1, inputs.back().tensor).ok());
    }
    const Status status = session.run();
    EXPECT_TRUE(status.ok()) << status.message();
    std::map<std::string, TensorData> outputs;
    for (const auto& [name, id] : g.outputs())
      outputs[name] = must(TensorData::copy_of(must(session.output(name))));
    return outputs;
  }

  void check_weights(const Model& small, const std::vector<Answer>& answers,
                     const Quantized& quantized) {
    const auto outputs = answers_of(small, {.threads = 1});
    std::map<std::string, double> errors;
    for (const Model::QuantizedState& state : small.info().quantized)
      errors[state.name] = state.error;
    size_t count = 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const Answer& answer = answers[i];
      const Tensor& is = outputs.at("w" + std::to_string(i)).tensor;
      ASSERT_EQ(is.dtype, answer.numbers.tensor.dtype);
      ASSERT_EQ(is.shape, answer.numbers.tensor.shape);
      for (int64_t k = 0; k < is.count(); ++k)
        ASSERT_EQ(element(is, k), element(answer.numbers.tensor, k))
            << layer.name << str_cat(" ", TensorType{is.dtype, to_shape(is.shape)}) << ", element "
            << k << " was " << element(layer.weight.tensor, k);
      ASSERT_EQ(errors.contains(layer.name), answer.is_quantized) << layer.name;
      if (!answer.is_quantized) continue;
      ++count;
      EXPECT_NEAR(errors[layer.name], answer.error, 1e-9 + answer.error * 1e-9);
      const auto found = std::find_if(quantized.weights.begin(), quantized.weights.end(),
                                      [&](const auto& w) { return w.name == layer.name; });
      ASSERT_NE(found, quantized.weights.end());
      EXPECT_EQ(found->elements, is.count());
      EXPECT_EQ(found->bytes_before, is.bytes());
      EXPECT_LT(found->bytes, is.bytes());
      EXPECT_EQ(found->error, errors[layer.name]);
    }
    EXPECT_EQ(quantized.weights.size(), count);
  }

  void check_outputs(const Model& small, const Model& exact) {
    const SessionOptions how = {.threads = 1};
    const auto got = answers_of(small, how), want = answers_of(exact, how);
    for (const auto& [name, tensor] : want) {
      const Tensor &a = got.at(name).tensor, &b = tensor.tensor;
      ASSERT_EQ(a.shape, b.shape);
      EXPECT_TRUE(a.bytes() == 0 ||
                  std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0)
          << name << "\n"
          << small.graph().text();
    }
  }

  QuantizeOptions options_;
  std::vector<Layer> layers_;
};

TEST(Quantize, RandomLayersAreThoseOfRoundedWeights) {
  test::for_cases(150, [](uint64_t i) { Case(i).run(); });
}

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
                      "', which is no state of the model and no module in it"));
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

// Rows of the smallest and of the largest numbers that a dtype has: each number that stands for a
// weight is finite and at most half a step away.
TEST(Quantize, NumbersAtTheEndsOfTheirTypes) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const int bits : {8, 4}) {
      const double most = bits == 8 ? 127 : 7;
      const double smallest = dtype == f64    ? DBL_TRUE_MIN
                              : dtype == f16  ? 0x1p-24
                              : dtype == bf16 ? 0x1p-133
                                              : FLT_TRUE_MIN;
      const double least = dtype == f64 ? DBL_TRUE_MIN : FLT_TRUE_MIN;  // of scales
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
          // Rows of whole numbers of the smallest one, and of parts of the largest.
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
        long double top = 0;  // of a range in which half of the smallest double is a number
        for (int64_t i = 0; i < kColumns; ++i)
          top = std::max<long double>(top, std::abs(element(weight.tensor, row * kColumns + i)));
        const long double step = top / most * (1 + 0x1p-7L) + least;  // the scale, rounded
        for (int64_t i = row * kColumns; i < (row + 1) * kColumns; ++i) {
          ASSERT_TRUE(std::isfinite(element(w, i))) << name_of(dtype) << " row " << row;
          const long double is = element(w, i), was = element(weight.tensor, i);
          ASSERT_LE(std::abs(is - was),
                    step * 0.51L + std::max<long double>(top * rounding, smallest / 2))
              << name_of(dtype) << " row " << row << " bits " << bits;
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

// A constant in a body, named as a state outside of it is, gets a name of its own.
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

// By a session that may take the memory for it, however large they are.
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

// What is quantised is quantised; the errors of both times stand in the file.
TEST(Quantize, Twice) {
  const Model model = tied_model();
  const Quantized once = must(quantize(model)), twice = must(quantize(once.model));
  EXPECT_TRUE(twice.weights.empty());
  EXPECT_EQ(must(twice.model.serialize()), must(once.model.serialize()));
}

TEST(Quantize, FunctionsOfALibraryShareWeights) {
  const TensorData shared = ramp(f32, {64, 64});
  Library library;
  for (const char* name : {"one", "two"}) {
    Graph g;
    const Value x = g.input("x", f32, {2, 64});
    g.output("y", linear(x, g.parameter("w", shared)));
    ASSERT_TRUE(library.add(name, std::move(g)).ok());
  }
  const QuantizedLibrary quantized = must(quantize(library));
  ASSERT_EQ(quantized.weights.size(), 1u);
  EXPECT_EQ(quantized.weights[0].name, "w");
  EXPECT_EQ(quantized.library.functions(), library.functions());
  const Library back = must(Library::read(must(quantized.library.serialize())));
  ASSERT_EQ(back.info().quantized.size(), 1u);
  EXPECT_EQ(back.info().quantized[0].error, quantized.weights[0].error);
  const Tensor one = must(back.function("one")).graph().states()[0].data.tensor;
  EXPECT_EQ(one.dtype, i8);
  EXPECT_LT(must(quantized.library.serialize()).size(), must(library.serialize()).size() / 2);
}

// What is left of the parameters is; gradients of inputs go through weights that are not.
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
            std::vector<std::string>{"1 weight is quantised and not trained: 'w'"});
  options.rules = {{.pattern = "w", .lr = 0.1}};
  EXPECT_EQ(
      Trainer::create(quantized.model, options).status().message(),
      "no parameter matches the pattern 'w'; 'w' is i8[64, 64]: integers, as quantised weights "
      "are, are not trained");
  options.rules = {{.pattern = "b", .frozen = true}};
  EXPECT_NE(Trainer::create(quantized.model, options)
                .status()
                .message()
                .find("'w' is i8[64, 64]: integers, as quantised weights are, are not trained"),
            std::string_view::npos)
      << Trainer::create(quantized.model, options).status().message();

  Graph copy = quantized.model.graph();
  const Value loss = sum(copy.value(copy.outputs()[0].second));
  copy.output("dx", gradients(loss, {copy.value(copy.inputs()[0])})[0]);
  EXPECT_TRUE(copy.status().ok()) << copy.status().message();
  (void)gradients(loss, {copy.value(state_of(copy, "w")->value)});
  EXPECT_NE(copy.status().message().find("i8, not a float"), std::string_view::npos)
      << copy.status().message();
}

// The state of an optimizer is not of quantised weights, and would not shrink.
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
