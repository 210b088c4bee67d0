// SPDX-License-Identifier: Apache-2.0
// Random networks, and plain loops of doubles that round each layer's input and weights to levels.
// Each element of the loops has a bound for the accumulated f32 roundings. If a number is too close
// to the middle between two levels, either level is right and the bound grows by one level. All
// other elements must be exact in f32.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/quantize.h"
#include "kernels/reference/reference.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg::test {

constexpr double kRounding = 0x1p-21;

// A tensor of numbers, and the bound for the error of each.
struct Numbers {
  Sizes shape;
  std::vector<double> at, off;

  explicit Numbers(const Sizes& sizes = {})
      : shape(sizes), at(static_cast<size_t>(sizes.count())), off(at.size()) {}
  void set(size_t i, double value, double bound) {
    at[i] = value;
    off[i] = bound + std::abs(value) * kRounding;
  }
};
using Inputs = std::vector<const Numbers*>;

// The results of calibration, by the name of the layer; null while the model runs in floats.
using Layers = std::map<std::string, CalibratedLayer>;

struct Step {
  Value value;
  std::vector<size_t> inputs;
  std::function<Numbers(const Inputs&, const Layers*)> compute;
  bool is_bare_layer = false;
  std::string layer = {};  // its layer's name
  std::string name = {};   // its value's name
};

// x rounded to 256 levels between low and high.
inline Numbers rounded(const Numbers& x, double low, double high, double& scale) {
  scale = (high - low) / 255;
  const double zero = std::nearbyint(-low / scale);
  Numbers y(x.shape);
  for (size_t i = 0; i < x.at.size(); ++i) {
    const double place = x.at[i] / scale;
    const double unsure = x.off[i] / scale + (std::abs(place) + 1) * 4 * kRounding;
    const auto level = [&](double p) { return std::clamp(std::nearbyint(p) + zero, 0.0, 255.0); };
    const double q = level(place);
    y.at[i] = (q - zero) * scale;
    y.off[i] = std::max(q - level(place - unsure), level(place + unsure) - q) * scale;
  }
  return y;
}

// y[o] = sum of weight * x over the pairs of each element, times factor[o], plus offset[o].
struct Affine {
  int64_t out = 0, depth = 0;
  std::vector<float> weight;  // [out, depth]
  std::vector<double> factor, offset;
  Sizes shape;  // of y
  std::string name;
  // The channel of element i of y, and the element of x that it reads; -1 in padding.
  std::function<int64_t(int64_t i)> channel;
  std::function<int64_t(int64_t i, int64_t k)> place;

  Numbers operator()(const Numbers& x, const Layers* layers) const {
    Numbers levels;
    const Numbers* from = &x;
    double x_scale = 0;
    const bool is_integer =
        layers != nullptr && layers->contains(name) && layers->at(name).stays.empty();
    if (is_integer) {
      levels = rounded(x, layers->at(name).low, layers->at(name).high, x_scale);
      from = &levels;
    }
    std::vector<double> numbers(weight.size()), added(offset), unsure(offset.size());
    for (int64_t o = 0; o < out; ++o) {
      const auto c = static_cast<size_t>(o);
      double most = 0;
      for (int64_t k = 0; k < depth; ++k) {
        double& w = numbers[static_cast<size_t>(o * depth + k)];
        w = factor[c] * weight[static_cast<size_t>(o * depth + k)];
        most = std::max(most, std::abs(w));
      }
      if (!is_integer) continue;
      const double scale =
          std::max({most / 127, std::abs(offset[c]) / (0x1p29 * x_scale), 0x1p-126 / x_scale});
      for (int64_t k = 0; k < depth; ++k) {
        double& w = numbers[static_cast<size_t>(o * depth + k)];
        w = std::nearbyint(w / scale) * scale;
      }
      const double bias = offset[c] / (scale * x_scale);
      added[c] = std::nearbyint(bias) * scale * x_scale;
      unsure[c] = std::abs(offset[c]) * kRounding;
      if (std::abs(std::abs(bias - std::floor(bias)) - 0.5) < (std::abs(bias) + 1) * kRounding)
        unsure[c] += scale * x_scale;
    }
    Numbers y(shape);
    for (int64_t i = 0; i < shape.count(); ++i) {
      const int64_t o = channel(i);
      double sum = 0, off = 0, size = 0;
      for (int64_t k = 0; k < depth; ++k) {
        const int64_t at = place(i, k);
        if (at < 0) continue;
        const double w = numbers[static_cast<size_t>(o * depth + k)];
        const double one = from->at[static_cast<size_t>(at)];
        sum += w * one;
        size += std::abs(w * one);
        off += std::abs(w) * from->off[static_cast<size_t>(at)];
      }
      const auto c = static_cast<size_t>(o);
      const double inexact = is_integer ? std::abs(sum) + std::abs(added[c]) : size * 8;
      y.set(static_cast<size_t>(i), sum + added[c], off + unsure[c] + inexact * kRounding);
    }
    return y;
  }
};

class RoundedNet : protected Chance {
 protected:
  explicit RoundedNet(uint64_t seed) : Chance(seed) { build(); }

  std::vector<Numbers> computed(const std::vector<std::vector<float>>& data,
                                const Layers* layers) const {
    std::vector<Numbers> all;
    const std::vector<ConstTensor> given = tensors(data);
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (i < given.size()) {
        Numbers x(given[i].shape);
        x.at.assign(data[i].begin(), data[i].end());
        all.push_back(std::move(x));
        continue;
      }
      Inputs inputs;
      for (const size_t in : steps_[i].inputs) inputs.push_back(&all[in]);
      all.push_back(steps_[i].compute(inputs, layers));
      if (layers == nullptr) continue;
      for (const auto& [name, layer] : *layers) {
        double scale;
        if (layer.rounded == steps_[i].name)
          all.back() = rounded(all.back(), layer.rounded_low, layer.rounded_high, scale);
      }
    }
    return all;
  }

  // The layers that outputs depend on.
  std::set<size_t> read_layers() const {
    std::set<size_t> layers;
    std::vector<bool> read(steps_.size());
    for (const size_t i : results_) read[i] = true;
    for (size_t i = steps_.size(); i-- > 0;) {
      if (!read[i]) continue;
      for (const size_t in : steps_[i].inputs) read[in] = true;
      if (!steps_[i].layer.empty()) layers.insert(i);
    }
    return layers;
  }

  std::vector<std::vector<float>> draw(int64_t n, float size) {
    std::vector<std::vector<float>> made;
    for (const Shape& shape : inputs_) made.push_back(numbers(sizes(shape, n).count(), size));
    return made;
  }
  std::vector<ConstTensor> tensors(const std::vector<std::vector<float>>& data) const {
    std::vector<ConstTensor> made;
    for (size_t i = 0; i < data.size(); ++i) {
      const int64_t each = sizes(inputs_[i], 1).count();
      made.push_back(view(data[i], sizes(inputs_[i], static_cast<int64_t>(data[i].size()) / each)));
    }
    return made;
  }

  Graph graph_;
  std::vector<Shape> inputs_;
  std::vector<Step> steps_;
  std::vector<size_t> results_;

 private:
  std::vector<float> numbers(int64_t count, double size, double middle = 0) {
    std::vector<float> made;
    for (int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += static_cast<double>(below(2001) - 1000) / 1000;
      made.push_back(static_cast<float>(middle + size * sum));
    }
    return made;
  }
  Value parameter(const std::vector<float>& from, const Sizes& shape) {
    return graph_.parameter("w" + std::to_string(parameters_++),
                            must(TensorData::copy_of(view(from, shape))));
  }
  const Shape& shape(size_t i) const { return steps_[i].value.shape(); }
  int64_t size(size_t i, int d) const { return shape(i)[static_cast<size_t>(d)].constant(); }
  int rank(size_t i) const { return steps_[i].value.rank(); }
  int64_t pixels(size_t i) const {
    int64_t count = 1;
    for (int d = 2; d < rank(i); ++d) count *= size(i, d);
    return count;
  }
  size_t add(Step step) {
    EXPECT_TRUE(graph_.status().ok()) << std::string(graph_.status().message());
    step.name = step.value.name();
    steps_.push_back(std::move(step));
    return steps_.size() - 1;
  }
  // The sizes of a value for n images, where its first size is the symbol n.
  static Sizes sizes(const Shape& shape, int64_t n) {
    Sizes made = {n};
    for (size_t d = 1; d < shape.size(); ++d) made.push_back(shape[d].constant());
    return made;
  }

  void build() {
    const int dims = chance(65) ? 2 : chance(50) ? 1 : 3;
    const int64_t inputs = chance(75) ? 1 : 2;
    Shape images = {chance(80) ? Dim("n") : Dim("n")};
    images.push_back(Dim(1 + below(5)));
    for (int d = 0; d < dims; ++d) images.push_back(Dim(one_of({1, 2, 5, 7, 8, 11})));
    for (int64_t i = 0; i < inputs; ++i) {
      const Value x = graph_.input("x" + std::to_string(i), f32, images);
      add({x, {}, {}});
      inputs_.push_back(images);
    }
    size_t last = convolve(0);
    if (inputs == 2) last = chance(50) ? join(last, 1) : both(last, convolve(1));
    for (int64_t i = 0, count = 1 + below(7); i < count; ++i) last = extend(last);
    if (chance(40)) last = product(flat(chance(50) ? mean(last) : last));
    if (chance(25) && rank(last) == 2) last = product(activate(last));
    graph_.output("y", steps_[last].value);
    results_.push_back(last);
    if (chance(25)) {
      const size_t other =
          inputs_.size() +
          static_cast<size_t>(below(static_cast<int64_t>(steps_.size() - inputs_.size())));
      graph_.output("other", steps_[other].value);
      results_.push_back(other);
    }
  }
  int64_t one_of(std::initializer_list<int64_t> all) {
    return all.begin()[below(static_cast<int64_t>(all.size()))];
  }

  size_t extend(size_t x) {
    const int64_t way = below(100);
    if (way < 40) {
      const size_t y = convolve(x);
      return chance(60) ? activate(y) : y;
    }
    if (way < 52) return residual(x);
    if (way < 60) return activate(x);
    if (way < 70) return pool(x);
    if (way < 76) return join(x, static_cast<size_t>(below(static_cast<int64_t>(x) + 1)));
    if (way < 82) return cut(x);
    if (way < 88) return border(x);
    if (way < 93) return turn(x);
    if (way < 97) return norm(x);
    return nothing(x);
  }

  // conv or linear, and most often batch_norm with conv.
  size_t convolve(size_t x) {
    const int dims = rank(x) - 2;
    const int64_t c = size(x, 1);
    const int64_t groups = chance(30) ? c : chance(20) && c % 2 == 0 ? 2 : 1;
    Affine layer;
    layer.out = groups * (1 + below(groups > 1 ? 2 : 9));
    std::array<int64_t, 3> in = {1, 1, 1}, out = in, kernel = in, stride = in, dilation = in,
                           padding = {};
    for (int d = 0; d < dims; ++d) {
      const auto at = static_cast<size_t>(3 - dims + d);
      in[at] = size(x, 2 + d);
      kernel[at] = one_of({1, 1, 3, 3, 2, 5});
      stride[at] = one_of({1, 1, 1, 2, 3});
      dilation[at] = one_of({1, 1, 1, 2});
      padding[at] = below(kernel[at] / 2 * dilation[at] + 2);
      if (in[at] + 2 * padding[at] < dilation[at] * (kernel[at] - 1) + 1) kernel[at] = 1;
      out[at] = (in[at] + 2 * padding[at] - dilation[at] * (kernel[at] - 1) - 1) / stride[at] + 1;
    }
    const int64_t taps = kernel[0] * kernel[1] * kernel[2], group_c = c / groups;
    layer.depth = group_c * taps;
    if (in[0] * in[1] * in[2] == 0) return x;
    layer.weight = weights(layer.out, layer.depth);
    Sizes weight_shape = {layer.out, group_c};
    ConvOptions options;
    options.stride = options.padding = options.dilation = {};
    options.groups = groups;
    for (int d = 0; d < dims; ++d) {
      const auto at = static_cast<size_t>(3 - dims + d);
      weight_shape.push_back(kernel[at]);
      options.stride.push_back(stride[at]);
      options.padding.push_back(padding[at]);
      options.dilation.push_back(dilation[at]);
    }
    layer.factor.assign(static_cast<size_t>(layer.out), 1);
    layer.offset.assign(static_cast<size_t>(layer.out), 0);
    Value bias;
    if (chance(60)) bias = biases(layer);
    const Value y = hg::conv(steps_[x].value, parameter(layer.weight, weight_shape), bias, options);
    layer.name = y.name();
    Value result = y;
    const bool has_norm = chance(60);
    if (has_norm) result = normalized(y, layer);
    const int64_t pixels = out[0] * out[1] * out[2], out_c = layer.out;
    layer.channel = [=](int64_t i) { return i / pixels % out_c; };
    layer.place = [=](int64_t i, int64_t k) -> int64_t {
      const int64_t n = i / (pixels * out_c), o = i / pixels % out_c, pixel = i % pixels;
      const int64_t channel = o / (out_c / groups) * group_c + k / taps, tap = k % taps;
      const std::array<int64_t, 3> to = {pixel / (out[1] * out[2]), pixel / out[2] % out[1],
                                         pixel % out[2]},
                                   of = {tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1],
                                         tap % kernel[2]};
      int64_t at = n * c + channel;
      for (size_t d = 0; d < 3; ++d) {
        const int64_t p = to[d] * stride[d] - padding[d] + of[d] * dilation[d];
        if (p < 0 || p >= in[d]) return -1;
        at = at * in[d] + p;
      }
      return at;
    };
    return affine(x, result, std::move(layer), !has_norm);
  }

  // linear, or a product with a plain or transposed matrix, and then perhaps batch_norm.
  size_t product(size_t x) {
    Affine layer;
    layer.depth = size(x, rank(x) - 1);
    layer.out = one_of({1, 2, 3, 7, 16});
    layer.weight = weights(layer.out, layer.depth);
    layer.factor.assign(static_cast<size_t>(layer.out), 1);
    layer.offset.assign(static_cast<size_t>(layer.out), 0);
    const Value bias = chance(60) ? biases(layer) : Value();
    Value y;
    if (chance(50)) {
      y = linear(steps_[x].value, parameter(layer.weight, {layer.out, layer.depth}), bias);
    } else if (chance(50)) {
      const Value turned = permute(parameter(layer.weight, {layer.out, layer.depth}), {1, 0});
      y = matmul(steps_[x].value, turned);
      if (bias) y = y + bias;
    } else {
      std::vector<float> columns(layer.weight.size());
      for (int64_t i = 0; i < layer.out * layer.depth; ++i)
        columns[static_cast<size_t>(i % layer.depth * layer.out + i / layer.depth)] =
            layer.weight[static_cast<size_t>(i)];
      y = matmul(steps_[x].value, parameter(columns, {layer.depth, layer.out}));
      if (bias) y = y + bias;
    }
    layer.name = y.name();
    Value result = y;
    const bool has_norm = chance(30);
    if (has_norm) result = normalized(y, layer);
    const int64_t out = layer.out, depth = layer.depth;
    layer.channel = [=](int64_t i) { return i % out; };
    layer.place = [=](int64_t i, int64_t k) { return i / out * depth + k; };
    return affine(x, result, std::move(layer), !has_norm);
  }
  size_t affine(size_t x, const Value& y, Affine layer, bool is_bare) {
    const std::string name = layer.name;
    const auto shared = std::make_shared<Affine>(std::move(layer));
    const Shape to = y.shape();
    return add({y,
                {x},
                [=](const Inputs& in, const Layers* layers) {
                  Affine now = *shared;
                  now.shape = sizes(to, in[0]->shape[0]);
                  return now(*in[0], layers);
                },
                is_bare,
                name});
  }
  std::vector<float> weights(int64_t out, int64_t depth) {
    std::vector<float> made = numbers(out * depth, 0.8 / std::sqrt(static_cast<double>(depth)));
    for (int64_t o = 0; o < out; ++o) {
      const double size = chance(4) ? 0 : chance(5) ? 1e-9 : chance(10) ? 20 : 1;
      for (int64_t k = 0; k < depth; ++k)
        made[static_cast<size_t>(o * depth + k)] *= static_cast<float>(size);
    }
    return made;
  }
  Value biases(Affine& layer) {
    const std::vector<float> made = numbers(layer.out, chance(10) ? 30 : 0.5);
    layer.offset.assign(made.begin(), made.end());
    return parameter(made, {layer.out});
  }
  Value normalized(const Value& y, Affine& layer) {
    const std::vector<float> weight = numbers(layer.out, 0.3, 1), bias = numbers(layer.out, 0.3),
                             mean = numbers(layer.out, 0.3);
    std::vector<float> var = numbers(layer.out, 0.3, 1.2);
    for (float& v : var) v = std::abs(v) + (chance(5) ? 0 : 0.05f);
    const bool has_weight = chance(85);
    const Sizes list = {layer.out};
    for (size_t o = 0; o < weight.size(); ++o) {
      layer.factor[o] = (has_weight ? double{weight[o]} : 1.0) / std::sqrt(double{var[o]} + 1e-3);
      layer.offset[o] =
          (layer.offset[o] - mean[o]) * layer.factor[o] + (has_weight ? double{bias[o]} : 0);
    }
    return batch_norm(y, has_weight ? parameter(weight, list) : Value(),
                      has_weight ? parameter(bias, list) : Value(), parameter(mean, list),
                      parameter(var, list), false, 0.1, 1e-3)
        .y;
  }

  // Adds an elementwise step: f(number, bound) returns the new number and its bound.
  template <class F>
  size_t each(size_t x, const Value& y, const F& f) {
    return add({y, {x}, [=](const Inputs& in, const Layers*) {
                  Numbers made(in[0]->shape);
                  for (size_t i = 0; i < made.at.size(); ++i) {
                    const auto [value, bound] = f(in[0]->at[i], in[0]->off[i]);
                    made.set(i, value, bound);
                  }
                  return made;
                }});
  }
  size_t activate(size_t x) {
    const Value v = steps_[x].value;
    using Pair = std::pair<double, double>;
    const auto cut = [](double low, double high) {
      return [=](double a, double off) { return Pair(std::clamp(a, low, high), off); };
    };
    const int64_t way = below(100);
    if (way < 45) return each(x, relu(v), cut(0, HUGE_VAL));
    if (way < 65) return each(x, hardtanh(v, 0, 6), cut(0, 6));
    if (way < 73) return each(x, hardtanh(v), cut(-1, 1));
    if (way < 80)
      return each(x, clamp(v, graph_.scalar(-0.5), graph_.scalar(1.25)), cut(-0.5, 1.25));
    if (way < 84) return each(x, clamp(v, Value(), graph_.scalar(0.75)), cut(-HUGE_VAL, 0.75));
    if (way < 88) return each(x, clamp(v, graph_.scalar(0.25), Value()), cut(0.25, HUGE_VAL));
    return each(x, hardswish(v), [](double a, double off) {
      return Pair(a * std::clamp(a + 3, 0.0, 6.0) / 6, off * 1.5 + std::abs(a) * kRounding);
    });
  }
  size_t nothing(size_t x) {  // nothing but 0
    return each(x, steps_[x].value * 0.0, [](double, double) { return std::pair(0.0, 0.0); });
  }
  size_t both(size_t a, size_t b) {
    if (shape(a) != shape(b)) return a;
    return moved({a, b}, steps_[a].value + steps_[b].value, true);
  }
  // A convolution, plus the latest earlier value of the same shape.
  size_t residual(size_t x) {
    const size_t y = convolve(x);
    for (size_t i = y; i-- > 0;)
      if (shape(i) == shape(y)) return chance(70) ? activate(both(y, i)) : both(y, i);
    return y;
  }
  // A batch_norm that is not folded into a layer.
  size_t norm(size_t x) {
    if (steps_[x].is_bare_layer) return x;
    Affine list;
    list.out = size(x, 1);
    list.factor.assign(static_cast<size_t>(list.out), 1);
    list.offset.assign(static_cast<size_t>(list.out), 0);
    const Value y = normalized(steps_[x].value, list);
    return add({y, {x}, [=, pixels = pixels(x)](const Inputs& in, const Layers*) {
                  Numbers made(in[0]->shape);
                  for (size_t i = 0; i < made.at.size(); ++i) {
                    const auto c = static_cast<size_t>(static_cast<int64_t>(i) / pixels % list.out);
                    made.set(i, in[0]->at[i] * list.factor[c] + list.offset[c],
                             in[0]->off[i] * std::abs(list.factor[c]) +
                                 (std::abs(in[0]->at[i] * list.factor[c]) +
                                  std::abs(list.offset[c]) + std::abs(list.factor[c])) *
                                     4 * kRounding);
                  }
                  return made;
                }});
  }

  // A step whose op moves, adds or compares elements: kernels/reference computes it from the
  // numbers and from their bounds. `is_rounded`: f32 rounds the result. `terms`: the elements that
  // a mean adds.
  size_t moved(std::vector<size_t> xs, const Value& y, bool is_rounded = false, int64_t terms = 0) {
    const Node& node = graph_.nodes().back();
    return add(
        {y, std::move(xs),
         [=, op = node.op, all = node.attrs, to = y.shape()](const Inputs& in, const Layers*) {
           Numbers made(sizes(to, in[0]->shape[0]));
           const KernelAttrs attrs{AttrReader(op, all)};
           const auto run = [&](const auto& part) {
             std::vector<reference::Array> x, y = {{f64, made.shape, made.at}};
             for (const Numbers* one : in) x.push_back({f64, one->shape, part(*one)});
             reference::find(op->name())->run({x, y, attrs});
             return y[0].values;
           };
           made.at = run([](const Numbers& x) { return x.at; });
           made.off = run([](const Numbers& x) { return x.off; });
           if (terms > 0) {
             const std::vector<double> magnitudes = run([](const Numbers& x) {
               std::vector<double> all = x.at;
               for (double& v : all) v = std::abs(v);
               return all;
             });
             for (size_t i = 0; i < made.off.size(); ++i)
               made.off[i] += magnitudes[i] * static_cast<double>(terms) * kRounding;
           }
           for (size_t i = 0; i < made.off.size() && is_rounded; ++i)
             made.set(i, made.at[i], made.off[i]);
           return made;
         }});
  }
  size_t join(size_t a, size_t b) {
    if (rank(a) != rank(b) || rank(a) < 3) return a;
    for (int d = 2; d < rank(a); ++d)
      if (size(a, d) != size(b, d)) return a;
    if (shape(a)[1].constant() + shape(b)[1].constant() > 4000 / pixels(a)) return a;
    return moved({a, b}, concat({steps_[a].value, steps_[b].value}, 1));
  }
  size_t cut(size_t x) {  // slices the last dim
    const int d = rank(x) - 1;
    const int64_t whole = size(x, d), start = below(whole), step = 1 + below(2);
    return moved({x}, slice(steps_[x].value, d, start, start + 1 + below(whole - start), step));
  }
  size_t border(size_t x) {  // pads the last dim with zeros
    std::vector<Dim> pads(static_cast<size_t>(2 * rank(x)), Dim(0));
    pads[pads.size() - 2] = below(3);
    pads.back() = below(3);
    return moved({x}, hg::pad(steps_[x].value, pads));
  }
  size_t turn(size_t x) {  // transposes the last two dims, or flips the last one
    if (rank(x) < 4 || chance(40)) return moved({x}, flip(steps_[x].value, {-1}));
    std::vector<Dim> dims;
    for (int d = 0; d < rank(x) - 2; ++d) dims.push_back(d);
    dims.push_back(rank(x) - 1);
    dims.push_back(rank(x) - 2);
    return moved({x}, permute(steps_[x].value, dims));
  }
  size_t flat(size_t x) {
    return moved({x}, reshape(steps_[x].value, {shape(x)[0], shape(x)[1] * pixels(x)}));
  }

  // Pools over windows along the last dim.
  size_t pool(size_t x) {
    const int d = rank(x) - 1;
    const int64_t k = std::min<int64_t>(size(x, d), 1 + below(3)), step = 1 + below(2);
    std::vector<Dim> kernel(static_cast<size_t>(d - 1), Dim(1)), stride = kernel,
                                                                 pads(kernel.size(), Dim(0));
    kernel.back() = k;
    stride.back() = step;
    pads.back() = below(k / 2 + 1);
    const Value v = steps_[x].value;
    if (chance(65))
      return moved({x}, max_pool(v, kernel, {.stride = stride, .padding = pads}), true);
    return moved({x}, avg_pool(v, kernel, {.stride = stride, .padding = pads}), true, k);
  }
  size_t mean(size_t x) {  // over all pixels
    std::vector<Dim> ones(static_cast<size_t>(rank(x) - 2), Dim(1));
    return moved({x}, adaptive_avg_pool(steps_[x].value, ones), true, pixels(x));
  }

  int parameters_ = 0;
};

}  // namespace hg::test
