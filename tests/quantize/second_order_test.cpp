// SPDX-License-Identifier: Apache-2.0
// Levels that are selected by samples: random layers beside GPTQ's algorithm 1, written plainly in
// f64, and what is rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/quantize.h"
#include "lib/graph/access.h"
#include "lib/graph/element.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

using Matrix = std::vector<std::vector<double>>;

// U with U^T U = a^-1, U upper triangular.
Matrix inverse_factor(const Matrix& a) {
  const size_t n = a.size();
  Matrix lower(n, std::vector<double>(n, 0)), inverse = lower, upper = lower;
  const auto cholesky = [n](const Matrix& from, Matrix& to) {
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j <= i; ++j) {
        double sum = from[i][j];
        for (size_t k = 0; k < j; ++k) sum -= to[i][k] * to[j][k];
        to[i][j] = i == j ? std::sqrt(sum) : sum / to[j][j];
      }
  };
  cholesky(a, lower);
  for (size_t c = 0; c < n; ++c) {
    std::vector<double> y(n, 0);
    for (size_t i = 0; i < n; ++i) {
      double sum = i == c;
      for (size_t k = 0; k < i; ++k) sum -= lower[i][k] * y[k];
      y[i] = sum / lower[i][i];
    }
    for (size_t i = n; i-- > 0;) {
      double sum = y[i];
      for (size_t k = i + 1; k < n; ++k) sum -= lower[k][i] * inverse[k][c];
      inverse[i][c] = sum / lower[i][i];
    }
  }
  cholesky(inverse, upper);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i; j < n; ++j) {
      upper[i][j] = upper[j][i];
      if (i != j) upper[j][i] = 0;
    }
  return upper;
}

// The rows of inputs that a row of the weight multiplies, per group.
struct Plain {
  int64_t groups = 1, rows = 0, columns = 0;
  bool by_column = false;
  std::vector<Matrix> inputs;  // [group][sample row][column]

  size_t at(int64_t group, int64_t row, int64_t column) const {
    return static_cast<size_t>(by_column ? column * rows + row
                                         : (group * rows + row) * columns + column);
  }
  // sum (x w)^2
  double size(const std::vector<double>& w) const {
    double sum = 0;
    for (int64_t g = 0; g < groups; ++g)
      for (const std::vector<double>& x : inputs[static_cast<size_t>(g)])
        for (int64_t r = 0; r < rows; ++r) {
          double y = 0;
          for (int64_t c = 0; c < columns; ++c) y += x[static_cast<size_t>(c)] * w[at(g, r, c)];
          sum += y * y;
        }
    return sum;
  }
  // The weights after GPTQ, for scales from the largest weight of each `group` columns.
  std::vector<double> gptq(const std::vector<double>& w, int bits, int64_t group) const {
    const double most = bits == 8 ? 127 : 7;
    const auto n = static_cast<size_t>(columns);
    std::vector<double> out = w;
    for (int64_t g = 0; g < groups; ++g) {
      Matrix h(n, std::vector<double>(n, 0));
      for (const std::vector<double>& x : inputs[static_cast<size_t>(g)])
        for (size_t i = 0; i < n; ++i)
          for (size_t j = 0; j < n; ++j) h[i][j] += x[i] * x[j];
      double mean = 0;
      for (size_t i = 0; i < n; ++i) mean += h[i][i] / static_cast<double>(n);
      if (mean == 0) continue;
      std::vector<size_t> order(n);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t i, size_t j) { return h[i][i] > h[j][j]; });
      Matrix damped(n, std::vector<double>(n));
      for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < n; ++j)
          damped[i][j] = h[order[i]][order[j]] + (i == j ? 0.01 * mean : 0);
      const Matrix u = inverse_factor(damped);
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<double> rest;
        for (const size_t c : order) rest.push_back(w[at(g, r, static_cast<int64_t>(c))]);
        for (size_t j = 0; j < n; ++j) {
          const auto c = static_cast<int64_t>(order[j]);
          const int64_t width = group == 0 ? columns : group, first = c / width * width;
          double largest = 0;
          for (int64_t k = first; k < std::min(first + width, columns); ++k)
            largest = std::max(largest, std::abs(w[at(g, r, k)]));
          const double scale = static_cast<float>(largest / most);
          const double level =
              scale == 0 ? 0
                         : std::clamp(std::round(rest[j] / scale), bits == 8 ? -most : -8, most);
          const double number = level * scale, off = (rest[j] - number) / u[j][j];
          for (size_t k = j; k < n; ++k) rest[k] -= off * u[j][k];
          out[at(g, r, c)] = number;
        }
      }
    }
    return out;
  }
};

// The weights that products of a model multiply, and the inputs of the product.
struct Seen {
  std::vector<double> weight;
  std::vector<TensorData> inputs;  // per sample
};
Seen seen(const Model& model, const std::vector<std::vector<ConstTensor>>& samples) {
  Graph g = model.graph();
  for (const Node& node : std::vector<Node>(g.nodes()))
    if (node.origin.module == "layer" && g.value_info(node.inputs[0]).name == "in") {
      g.output("weight seen", g.value(node.inputs[1]));
      g.output("input seen", g.value(node.inputs[0]));
    }
  Session session = must(Session::create(must(Model::from_graph(std::move(g)))));
  Seen out;
  for (const std::vector<ConstTensor>& sample : samples) {
    must(session.set_input(0, sample[0]));
    must(session.run());
    out.weight = test::read_all(must(session.output("weight seen")));
    out.inputs.push_back(must(TensorData::copy_of(must(session.output("input seen")))));
  }
  return out;
}

std::vector<double> difference(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

class Layer : test::Chance {
 public:
  explicit Layer(uint64_t seed) : Chance(seed) {
    options_ = {.bits = chance(70) ? 4 : 8,
                .group = chance(50) ? 0 : 1 + below(12),
                .least = 0,
                .rounding = Rounding::second_order};
    const int64_t kind = below(3), out = size();
    const int64_t in = size() + (chance(10) ? 150 : 0);  // some more than two blocks of columns
    const int64_t rows = 1 + below(40);
    if (kind < 2) {
      plain_ = {1, out, in, kind == 1, {}};
      x_shape_ = {rows, in};
      weight_ = numbers(plain_.by_column ? Sizes{in, out} : Sizes{out, in}, false);
      return;
    }
    plain_.groups = chance(60) ? 1 : 1 + below(3);
    const int rank = static_cast<int>(1 + below(3));
    x_shape_ = {1 + below(2), plain_.groups * (1 + below(5))};
    Sizes shape = {plain_.groups * (1 + below(6)), x_shape_[1] / plain_.groups};
    conv_.groups = plain_.groups;
    conv_.stride.clear();
    conv_.padding.clear();
    conv_.dilation.clear();
    for (int d = 0; d < rank; ++d) {
      shape.push_back(1 + below(3));
      x_shape_.push_back(5 + below(4));
      conv_.stride.emplace_back(1 + below(2));
      conv_.padding.emplace_back(below(2));
      conv_.dilation.emplace_back(1 + below(2));
    }
    is_conv_ = true;
    plain_.rows = shape[0] / plain_.groups;
    plain_.columns = shape.count() / shape[0];
    weight_ = numbers(shape, false);
  }

  void check() {
    std::vector<TensorData> data;
    std::vector<std::vector<ConstTensor>> samples;
    for (int64_t i = 0, count = 1 + below(4); i < count; ++i)
      data.push_back(numbers(x_shape_, true));
    for (const TensorData& x : data) samples.push_back({x.tensor});
    const Model model = build();
    const Quantized made = must(quantize(model, samples, options_, {.threads = 2}));
    const Quantized alone = must(quantize(model, samples, options_, {.threads = 1}));
    EXPECT_EQ(must(made.model.serialize()), must(alone.model.serialize()));
    if (made.weights.empty()) return;  // would not shrink
    QuantizeOptions near = options_;
    near.rounding = Rounding::nearest;
    const Quantized nearest = must(quantize(model, near));
    const Seen floats = seen(model, samples), chosen = seen(made.model, samples),
               rounded = seen(nearest.model, samples);
    for (const TensorData& x : floats.inputs) add_inputs(x.tensor);
    const double whole = plain_.size(floats.weight);
    const double off_chosen = plain_.size(difference(chosen.weight, floats.weight));
    const double off_nearest = plain_.size(difference(rounded.weight, floats.weight));
    const int64_t area = is_conv_ ? plain_.columns / weight_.tensor.shape[1] : 1;
    const double off_gptq = plain_.size(difference(
        plain_.gptq(floats.weight, options_.bits, options_.group * area), floats.weight));
    const double noise = 1e-9 * whole;
    EXPECT_LE(off_chosen, off_nearest * 1.0001 + noise);
    if (has_order_) {
      // Moments in f32 move numbers between two levels to the other one, and the rest follows.
      EXPECT_LE(off_chosen, off_gptq * 1.3 + noise);
      if (off_gptq > noise) beside_gptq += std::log(std::max(off_chosen, noise) / off_gptq);
    }
    ASSERT_TRUE(made.weights[0].output_error.has_value());
    const double expected = whole == 0 ? 0 : std::sqrt(off_chosen / whole);
    const double expected_nearest = whole == 0 ? 0 : std::sqrt(off_nearest / whole);
    EXPECT_NEAR(*made.weights[0].output_error, expected, expected * 0.01 + 1e-4);
    EXPECT_NEAR(*made.weights[0].nearest_output_error, expected_nearest,
                expected_nearest * 0.01 + 1e-4);
    gain += off_chosen < off_nearest * 0.9;
    ++checked;
  }
  int64_t gain = 0, checked = 0;
  double beside_gptq = 0;  // logarithm of the ratio of squared errors

 private:
  int64_t size() { return chance(10) ? 1 : 1 + below(chance(20) ? 90 : 30); }

  TensorData numbers(const Sizes& shape, bool correlated) {
    TensorData data = must(TensorData::allocate(f32, shape));
    const bool zeros = chance(4), constant = chance(4);
    if (correlated && constant) has_order_ = false;
    double common = 0;
    for (int64_t i = 0; i < shape.count(); ++i) {
      const double fresh = static_cast<double>(below(2001) - 1000) / 1000;
      common = correlated ? 0.8 * common + 0.6 * fresh : fresh;
      set_element(data.tensor, i, zeros ? 0 : constant ? 0.37 : common);
    }
    return data;
  }

  Model build() {
    Graph g;
    const Value x = g.input("x", f32, to_shape(x_shape_));
    g.set_origin({"layer", ""});
    const Value in = g.call("mul", {x, number_like(x, 1.5)});
    GraphAccess::rename(g, in.id(), "in");
    const Value w = g.parameter("w", weight_);
    g.output("y", is_conv_           ? conv(in, w, {}, conv_)
                  : plain_.by_column ? matmul(in, w)
                                     : linear(in, w));
    return must(Model::from_graph(std::move(g)));
  }

  void add_inputs(const Tensor& x) {
    plain_.inputs.resize(static_cast<size_t>(plain_.groups));
    if (!is_conv_) {
      for (int64_t r = 0; r < x.shape[0]; ++r) {
        std::vector<double>& row = plain_.inputs[0].emplace_back();
        for (int64_t c = 0; c < plain_.columns; ++c) row.push_back(element(x, r * x.shape[1] + c));
      }
      return;
    }
    // Each element of the result, by nested places.
    const Sizes& w = weight_.tensor.shape;
    const int dims = x.shape.rank() - 2;
    Sizes out;
    for (int d = 0; d < dims; ++d)
      out.push_back(
          (x.shape[d + 2] + 2 * at(conv_.padding, d) - at(conv_.dilation, d) * (w[d + 2] - 1) - 1) /
              at(conv_.stride, d) +
          1);
    for (int64_t g = 0; g < plain_.groups; ++g)
      for (int64_t n = 0; n < x.shape[0]; ++n)
        for (int64_t place = 0; place < out.count(); ++place) {
          std::vector<double>& row = plain_.inputs[static_cast<size_t>(g)].emplace_back();
          for (int64_t k = 0; k < plain_.columns; ++k) {
            int64_t rest = k, spot = place, index = 0, step = 1;
            bool is_inside = true;
            for (int d = dims; d-- > 0; rest /= w[d + 2], spot /= out[d]) {
              const int64_t i = spot % out[d] * at(conv_.stride, d) +
                                rest % w[d + 2] * at(conv_.dilation, d) - at(conv_.padding, d);
              is_inside = is_inside && i >= 0 && i < x.shape[d + 2];
              index += i * step;
              step *= x.shape[d + 2];
            }
            const int64_t channel = g * w[1] + rest;
            row.push_back(is_inside ? element(x, (n * x.shape[1] + channel) * step + index) : 0);
          }
        }
  }
  static int64_t at(const std::vector<Dim>& list, int d) {
    return list[static_cast<size_t>(d)].constant();
  }

  QuantizeOptions options_;
  ConvOptions conv_;
  bool is_conv_ = false;
  bool has_order_ = true;  // by the sizes of the inputs' columns, which are not equal
  Plain plain_;
  Sizes x_shape_;
  TensorData weight_;
};

TEST(SecondOrder, RandomLayersBesideGptq) {
  int64_t gain = 0, checked = 0;
  double beside_gptq = 0;
  test::for_cases(300, [&](uint64_t seed) {
    Layer layer(seed);
    layer.check();
    gain += layer.gain;
    checked += layer.checked;
    beside_gptq += layer.beside_gptq;
  });
  EXPECT_LE(beside_gptq, 0);  // rows have the best of several roundings
  // Inputs are correlated, so most layers gain.
  EXPECT_GE(gain * 2, checked);
}

TensorData ramp(const Sizes& shape) {
  TensorData data = must(TensorData::allocate(f32, shape));
  for (int64_t i = 0; i < shape.count(); ++i)
    data.tensor.as<float>()[i] = static_cast<float>(i * i % 97) / 50 - 1;
  return data;
}

Model one_linear() {
  Graph g;
  g.output("y", linear(g.input("x", f32, {"n", 32}), g.parameter("w", ramp({40, 32}))));
  return must(Model::from_graph(std::move(g)));
}
const QuantizeOptions kSecondOrder = {.bits = 4, .rounding = Rounding::second_order};

TEST(SecondOrder, WhatIsRejected) {
  const Model model = one_linear();
  EXPECT_EQ(quantize(model, kSecondOrder).status().message(),
            "quantize: `rounding` is second_order, which requires samples");
  EXPECT_EQ(
      quantize(model, std::vector<std::vector<ConstTensor>>{}, kSecondOrder).status().message(),
      "quantize: there are no samples");
  const TensorData x = ramp({3, 32});
  x.tensor.as<float>()[70] = std::nanf("");
  EXPECT_EQ(quantize(model, std::vector<std::vector<ConstTensor>>{{x.tensor}}, kSecondOrder)
                .status()
                .message(),
            "quantize: element 70 of input 0 of sample 0 is NaN");
  EXPECT_EQ(parse_rounding("best").status().message(),
            "there is no rounding 'best'; use one of nearest least_squares second_order");
}

// Without finite inputs, or without inputs, the scales of least squares remain.
TEST(SecondOrder, SamplesThatSayNothing) {
  const Model model = one_linear();
  QuantizeOptions least = kSecondOrder;
  least.rounding = Rounding::least_squares;
  const auto plain = must(must(quantize(model, least)).model.serialize());
  const TensorData x = ramp({3, 32});
  x.tensor.as<float>()[70] = std::numeric_limits<float>::infinity();
  const Quantized infinite =
      must(quantize(model, std::vector<std::vector<ConstTensor>>{{x.tensor}}, kSecondOrder));
  EXPECT_FALSE(infinite.weights[0].output_error.has_value());
  EXPECT_EQ(must(infinite.model.serialize()), plain);
  for (const int64_t rows : {0, 5}) {
    const TensorData none = must(TensorData::allocate(f32, {rows, 32}));
    for (int64_t i = 0; i < none.tensor.count(); ++i) none.tensor.as<float>()[i] = 0;
    const Quantized made =
        must(quantize(model, std::vector<std::vector<ConstTensor>>{{none.tensor}}, kSecondOrder));
    EXPECT_EQ(made.weights[0].output_error, 0.0);
  }
}

// The error of each weight is at most that of nearest levels, for each dtype.
TEST(LeastSquares, IsAtMostTheErrorOfNearestLevels) {
  test::for_cases(200, [](uint64_t seed) {
    test::Chance chance(seed);
    const DType dtypes[] = {f32, f64, f16, bf16};
    const DType dtype = dtypes[chance.below(4)];
    const int bits = chance.chance(50) ? 4 : 8;
    const int64_t group = chance.chance(50) ? 0 : 16, columns = 64 + chance.below(100);
    TensorData weight = must(TensorData::allocate(dtype, {24, columns}));
    for (int64_t i = 0; i < weight.tensor.count(); ++i) {
      double sum = 0;  // close to normal
      for (int k = 0; k < 4; ++k) sum += static_cast<double>(chance.below(2001) - 1000) / 1000;
      set_element(weight.tensor, i, sum * (dtype == f64 ? 1e200 : 1));
    }
    Graph g;
    g.output("y", linear(g.input("x", dtype, {"n", columns}), g.parameter("w", weight)));
    const Model model = must(Model::from_graph(std::move(g)));
    const auto error = [&](Rounding rounding) {
      return must(quantize(model, {.bits = bits, .group = group, .rounding = rounding}))
          .weights.at(0)
          .error;
    };
    const double nearest = error(Rounding::nearest), least = error(Rounding::least_squares);
    EXPECT_LE(least, nearest);
    if (bits == 4) {
      EXPECT_LT(least, nearest * 0.97);
    }
  });
}

}  // namespace
}  // namespace hg
