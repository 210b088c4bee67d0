// SPDX-License-Identifier: Apache-2.0
// Models of random layers, quantized: the quantized value of each weight equals that of a plain
// double loop, and the model returns the same bits as the float model with these values. Products
// that read levels are near those in f64, which round neither weights nor results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/quantize.h"
#include "lib/graph/element.h"
#include "lib/quantize/rounding.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

using Place = std::vector<int64_t>;

// Calls f(element, its place) for all elements in order.
void for_places(const Sizes& shape, const std::function<void(int64_t, const Place&)>& f) {
  Place at(shape.size(), 0);
  for (int64_t i = 0; i < shape.count(); ++i) {
    int64_t rest = i;
    for (int d = shape.rank(); d-- > 0; rest /= shape[d])
      at[static_cast<size_t>(d)] = rest % shape[d];
    f(i, at);
  }
}

// A layer that reads a weight.
struct Layer {
  std::string name;
  TensorData weight;
  std::function<Place(const Place&)> block;  // elements of one result share a scale
  // Builds the layer's output; it adds its own input to the graph.
  std::function<Value(Graph&, const Value& weight)> apply;
  int roundings = 1;  // of results, one after another, in 16 bits
  State::Kind kind = State::Kind::parameter;
};

// The expected weight after quantization, and whether it is quantized.
struct Answer {
  TensorData numbers;
  TensorData unrounded;  // in f64
  bool is_quantized = false;
  double error = 0;
};

Answer plain(const Layer& layer, int bits, int64_t least) {
  const Tensor& w = layer.weight.tensor;
  Answer answer{must(TensorData::copy_of(w)), must(TensorData::allocate(f64, w.shape))};
  for (int64_t i = 0; i < w.count(); ++i) set_element(answer.unrounded.tensor, i, element(w, i));
  const double most = bits == 8 ? 127 : 7;
  std::map<Place, double> largest;
  for_places(w.shape, [&](int64_t i, const Place& at) {
    double& so_far = largest[layer.block(at)];
    so_far = std::max(so_far, std::abs(element(w, i)));
  });
  // Two 4-bit numbers share a byte along a dim, preferably one with an even size.
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
    set_element(answer.unrounded.tensor, i, number);
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
    std::vector<TensorData> weights, numbers, unrounded;
    std::vector<Answer> answers;
    for (const Layer& layer : layers_) {
      answers.push_back(plain(layer, options_.bits, options_.least));
      if (chance(10)) {
        options_.keep.push_back(layer.name);
        answers.back() = plain(layer, options_.bits, std::numeric_limits<int64_t>::max());
      }
      weights.push_back(layer.weight);
      numbers.push_back(answers.back().numbers);
      unrounded.push_back(answers.back().unrounded);
    }
    const Model model = build(weights), exact = build(numbers);
    is_wide_ = true;
    const Model wide = build(unrounded);
    is_wide_ = false;
    const Quantized quantized = must(quantize(model, options_));
    // A written and read model is equal.
    const std::vector<std::byte> bytes = must(quantized.model.serialize());
    const Model small = must(Model::read(bytes));
    check_weights(small, answers, quantized);
    check_outputs(small, exact, wide);
    // A weight that is also an output is widened; otherwise products read its levels.
    shows_weights_ = false;
    check_outputs(must(quantize(build(weights), options_)).model, build(numbers), wide);
  }
  int64_t products() const { return products_; }
  int64_t embeddings() const { return embeddings_; }

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
    return g.input(name, in(dtype), {shape.begin(), shape.end()});
  }
  DType in(DType dtype) const { return is_wide_ ? f64 : dtype; }

  void add_layer(int64_t number) {
    Layer layer;
    layer.name = "block." + std::to_string(number) + ".weight";
    const int64_t kind = below(10), group = options_.group;
    const DType dtype = float_dtype();
    const auto part = [group](int64_t i) { return group == 0 ? 0 : i / group; };
    const int64_t n = size(24), k = size(60), rows = 1 + below(chance(70) ? 5 : 14);
    // Blocks of sums over the last dim, or the dim before it.
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
      case 4: {  // with another dtype, and two chunks
        const DType as = dtype == f32 ? f16 : f32;
        layer.weight = numbers(dtype, {2 * n, k});
        layer.block = of_rows;
        layer.roundings = 4;
        layer.apply = [=, this](Graph& g, const Value& w) {
          const Value x = input(g, as, {rows, k});
          const Value wide = cast(w, in(as));
          return linear(x, slice(wide, 0, 0, n)) + linear(x, slice(wide, 0, n, 2 * n));
        };
        break;
      }
      case 5:
        layer.weight = numbers(dtype, {1 + n, k});
        layer.block = of_rows;
        layer.apply = [=, this](Graph& g, const Value& w) {
          const std::string name = "i" + std::to_string(g.inputs().size());
          most_[name] = static_cast<int>(n);
          return embedding(w, g.input(name, i64, {rows}));
        };
        break;
      case 6:
      case 7:
        add_convolution(layer, dtype, kind == 7);
        break;
      case 8: {  // in the branches of `if`
        layer.weight = numbers(dtype, {n, k});
        layer.block = of_rows;
        layer.roundings = 2;
        layer.apply = [=, this](Graph& g, const Value& w) {
          const Value x = input(g, dtype, {rows, k});
          std::vector<std::shared_ptr<Graph>> bodies;
          for (int i = 0; i < 2; ++i) {
            const auto body = bodies.emplace_back(std::make_shared<Graph>());
            const Value a = body->input("a", in(dtype), {rows, k}),
                        b = body->input("b", in(dtype), {n, k});
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
        layer.roundings = 8;
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
      // Each group of the convolution has its own channels.
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
      if (shows_weights_) g.output("w" + std::to_string(i), w);
    }
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    return must(Model::from_graph(std::move(g)));
  }

  // The outputs of a run, with inputs that depend only on the element's place.
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
                    type.dtype == i64       ? random.below(most_.at(g.value_info(id).name) + 1)
                    : type.dtype == boolean ? static_cast<double>(random.below(2))
                                            : static_cast<double>(random.below(65) - 32) / 16);
      inputs.push_back(std::move(data));
      EXPECT_TRUE(
          session.set_input(static_cast<int>(inputs.size()) - 1, inputs.back().tensor).ok());
    }
    must(session.run());
    for (const ProfileRow& row : session.profile()) {
      products_ += row.op == "quantized_linear";
      embeddings_ += row.op == "quantized_embedding";
    }
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

  // Widened weights give the same bits. Products that read levels sum in another order, and do not
  // round the weights of layers with 16 bits, as `wide` does not.
  void check_outputs(const Model& small, const Model& exact, const Model& wide) {
    const auto want = answers_of(exact, {.threads = 1});
    const auto unrounded = answers_of(wide, {.threads = 1});
    const auto bits = answers_of(small, {.threads = 1, .disabled_passes = {"low_bits"}});
    const auto got = answers_of(small, {.threads = 1, .profile = true});
    const auto threads = answers_of(small, {.threads = 3});
    for (const auto& [name, tensor] : want) {
      const Tensor &a = bits.at(name).tensor, &b = tensor.tensor, &c = got.at(name).tensor,
                   &d = threads.at(name).tensor;
      ASSERT_EQ(a.shape, b.shape);
      ASSERT_EQ(c.shape, b.shape);
      const auto same = [](const Tensor& x, const Tensor& y) {
        return x.bytes() == 0 || std::memcmp(x.data, y.data, static_cast<size_t>(x.bytes())) == 0;
      };
      EXPECT_TRUE(same(a, b)) << name << "\n" << small.graph().text();
      EXPECT_TRUE(same(c, d)) << name << "\n" << small.graph().text();
      if (!is_float(b.dtype) || b.dtype == f64) {
        EXPECT_TRUE(same(c, b)) << name << "\n" << small.graph().text();
        continue;
      }
      if (same(c, b)) continue;
      const Tensor& near = b.dtype == f32 ? b : unrounded.at(name).tensor;
      const int roundings = layers_[static_cast<size_t>(std::stoi(name.substr(1)))].roundings;
      const double rounding = b.dtype == f32 ? 0 : b.dtype == f16 ? 0x1p-11 : 0x1p-8;
      double most = 1;
      for (int64_t i = 0; i < near.count(); ++i) most = std::max(most, std::abs(element(near, i)));
      for (int64_t i = 0; i < near.count(); ++i)
        ASSERT_NEAR(element(c, i), element(near, i), (1e-5 + roundings * rounding) * most)
            << name << " " << i << "\n"
            << small.graph().text();
    }
  }

  QuantizeOptions options_;
  std::vector<Layer> layers_;
  bool shows_weights_ = true;
  bool is_wide_ = false;                   // layers are built in f64
  int64_t products_ = 0, embeddings_ = 0;  // with levels, in all profiled runs
  std::map<std::string, int> most_;        // the end of each input's indices
};

TEST(Quantize, RandomLayersAreThoseOfRoundedWeights) {
  int64_t products = 0, embeddings = 0, cases = 0;
  test::for_cases(150, [&](uint64_t i) {
    Case each(i);
    each.run();
    products += each.products();
    embeddings += each.embeddings();
    ++cases;
  });
  EXPECT_GT(products, cases / 20);
  EXPECT_GT(embeddings, cases / 40);
}

}  // namespace
}  // namespace hg
