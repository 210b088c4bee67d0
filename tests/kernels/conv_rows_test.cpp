// SPDX-License-Identifier: Apache-2.0
// Convolutions with channels last, of bf16 or with Precision::bf16: random ones equal f64 sums of
// the rounded operands, and random networks equal those that keep their layout, up to rounding.
// Convolutions of 16 bits in sessions equal f64 sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/activation.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/elements.h"
#include "tests/support/emulated_instructions.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

using Dims = std::vector<Dim>;

class Chances : protected test::Chance {
 public:
  explicit Chances(uint64_t seed) : Chance(seed) {}

 protected:
  float any() { return static_cast<float>(below(4001) - 2000) / 1000; }
  // f32, f16 or bf16.
  TensorData random(DType dtype, const Sizes& shape, float scale = 1) {
    TensorData data = must(TensorData::allocate(dtype, shape));
    for (int64_t i = 0; i < shape.count(); ++i)
      if (dtype == f32)
        data.tensor.as<float>()[i] = any() * scale;
      else if (dtype == f16)
        data.tensor.as<Half>()[i] = Half(any() * scale);
      else
        data.tensor.as<BFloat16>()[i] = BFloat16(any() * scale);
    return data;
  }
  static Shape shape_of(const TensorData& data) {
    return {data.tensor.shape.begin(), data.tensor.shape.end()};
  }
  // Windows along one dim; false if x is smaller than the kernel.
  struct Window {
    int64_t in = 1, kernel = 1, stride = 1, padding = 0, dilation = 1, out = 1;
  };
  bool choose(Window& w) {
    w.kernel = chance(40) ? 1 : chance(70) ? 3 : 1 + below(5);
    w.stride = chance(60) ? 1 : 1 + below(3);
    w.padding = chance(60) ? w.kernel / 2 : below(3);
    w.dilation = chance(80) ? 1 : 1 + below(2);
    const int64_t room = w.in + 2 * w.padding - w.dilation * (w.kernel - 1) - 1;
    w.out = room < 0 ? 0 : room / w.stride + 1;
    return room >= 0;
  }
  int64_t channels() { return chance(40) ? 32 * (1 + below(4)) : 1 + below(70); }
};

class RowConv : public Chances {
 public:
  using Chances::Chances;
  void run() {
    Window window[2];
    for (Window& w : window) {
      w.in = 1 + below(14);
      if (!choose(w)) return;
    }
    const bool is_entry = chance(25), bias = chance(60);
    const int64_t n = chance(5) ? 0 : 1 + below(2), c = is_entry ? 1 + below(4) : channels(),
                  o = channels();
    const int64_t h = window[0].in, w = window[1].in, oh = window[0].out, ow = window[1].out;
    if (n * o * oh * ow * c * window[0].kernel * window[1].kernel > 2'000'000) return;
    // Either all of an entry is f32, or its result is bf16.
    const bool is_wide = is_entry && chance(50);
    const auto half = [&] { return !is_wide && chance(50) ? bf16 : f32; };
    x_ = random(half(), is_entry ? Sizes{n, c, h, w} : Sizes{n, h, w, c});
    weight_ = random(half(), {o, c, window[0].kernel, window[1].kernel});
    bias_ = random(f32, {o});
    const bool has_residual = !is_entry && chance(40);
    residual_ = random(half(), {n, oh, ow, o});
    const DType to = is_entry && !is_wide ? bf16 : half();
    const bool is_exact = x_.tensor.dtype == bf16 && weight_.tensor.dtype == bf16;
    const Precision precision = chance(50) ? Precision::f32 : Precision::bf16;
    const bool has_infinity = x_.tensor.count() > 0 && chance(15);
    const auto activation = static_cast<Activation>(below(has_infinity ? 2
                                                          : chance(60) ? 3
                                                                       : kActivationCount));
    if (has_infinity) {
      const int64_t place = below(x_.tensor.count());
      if (x_.tensor.dtype == f32)
        x_.tensor.as<float>()[place] = std::numeric_limits<float>::infinity();
      else
        x_.tensor.as<BFloat16>()[place] = BFloat16(std::numeric_limits<float>::infinity());
    }
    Graph g;
    const Value x = g.input("x", x_.tensor.dtype, shape_of(x_));
    const Value residual =
        has_residual ? g.input("residual", residual_.tensor.dtype, shape_of(residual_)) : Value();
    NamedAttrs attrs = {{"activation", std::string(to_string(activation))}};
    const auto each = [&](const char* name, int64_t Window::*of) {
      attrs.push_back({name, Dims{window[0].*of, window[1].*of}});
    };
    each("stride", &Window::stride);
    each("padding", &Window::padding);
    each("dilation", &Window::dilation);
    std::vector<Value> inputs = {x, g.constant(weight_), bias ? g.constant(bias_) : Value()};
    if (!is_entry) inputs.push_back(residual);
    attrs.push_back({"dtype", to});
    g.output("y", g.call(is_entry ? "conv_to_channels_last" : "conv_dense_channels_last", inputs,
                         attrs));
    const Model model = must(Model::from_graph(std::move(g)));
    const Isa best = chosen_isa();
    for (const Isa isa : kIsas) {
      if (!supports(isa) || (isa < best && !chance(10))) continue;
      limit_isa(isa);
      const bool rounds =
          kernels::tile_pair_table() != nullptr && (is_exact || precision == Precision::bf16);
      if (is_entry && !is_wide && !rounds) continue;  // the pass does not create it
      Session session = must(Session::create(
          model, {.threads = static_cast<int>(1 + below(3)), .precision = precision}));
      ASSERT_TRUE(session.set_input("x", x_.tensor).ok());
      if (has_residual) {
        ASSERT_TRUE(session.set_input("residual", residual_.tensor).ok());
      }
      ASSERT_TRUE(session.run().ok());
      const Tensor y = must(session.output("y"));
      ASSERT_EQ(y.shape, (Sizes{n, oh, ow, o}));
      const auto number = [&](double v) {
        return rounds ? static_cast<float>(BFloat16(static_cast<float>(v))) : v;
      };
      for (int64_t i = 0; i < y.count(); ++i) {
        const int64_t k = i % o, column = i / o % ow, row = i / o / ow % oh,
                      image = i / o / ow / oh;
        double sum = 0, size = 0;
        for (int64_t tap = 0; tap < window[0].kernel * window[1].kernel; ++tap) {
          const int64_t a = row * window[0].stride - window[0].padding +
                            tap / window[1].kernel * window[0].dilation;
          const int64_t b = column * window[1].stride - window[1].padding +
                            tap % window[1].kernel * window[1].dilation;
          if (a < 0 || a >= h || b < 0 || b >= w) continue;
          for (int64_t j = 0; j < c; ++j) {
            const int64_t from =
                is_entry ? ((image * c + j) * h + a) * w + b : ((image * h + a) * w + b) * c + j;
            const double term =
                number(test::read_element(x_.tensor, from)) *
                number(test::read_element(weight_.tensor,
                                          (k * c + j) * window[0].kernel * window[1].kernel + tap));
            sum += term;
            size += std::abs(term);
          }
        }
        if (bias) sum += test::read_element(bias_.tensor, k);
        if (has_residual) sum += test::read_element(residual_.tensor, i);
        const double want = kernels::activate(activation, sum);
        if (!std::isfinite(want)) {
          ASSERT_TRUE(std::isnan(want) ? std::isnan(test::read_element(y, i))
                                       : test::read_element(y, i) == want)
              << i;
          continue;
        }
        const double error = (size + std::abs(sum) + 4) * 1e-5;
        ASSERT_NEAR(test::read_element(y, i), want,
                    error + (to == bf16 ? 0x1p-8 * std::abs(want) : 0))
            << "element " << i << ", instruction set " << to_string(isa);
      }
    }
    limit_isa(best);
  }

 private:
  TensorData x_, weight_, bias_, residual_;
};

// The op conv in f16 or bf16.
class HalfConv : public Chances {
 public:
  using Chances::Chances;
  void run() {
    Window window[2];
    for (Window& w : window) {
      w.in = 1 + below(14);
      if (!choose(w)) return;
    }
    const DType dtype = chance(70) ? bf16 : f16;
    const int64_t n = 1 + below(2), c = chance(25) ? 1 + below(4) : channels();
    const int64_t groups = chance(20) ? c : 1, o = groups == c && c > 1 ? c : channels();
    const int64_t h = window[0].in, w = window[1].in, oh = window[0].out, ow = window[1].out;
    const int64_t each = c / groups, taps = window[0].kernel * window[1].kernel;
    if (o % groups != 0 || n * o * oh * ow * each * taps > 2'000'000) return;
    const TensorData x = random(dtype, {n, c, h, w}), bias = random(dtype, {o}),
                     weight = random(dtype, {o, each, window[0].kernel, window[1].kernel}),
                     residual = random(dtype, {n, o, oh, ow});
    const bool has_bias = chance(60), has_residual = chance(40), is_relu = chance(50);
    Graph g;
    const Value image = g.input("x", dtype, shape_of(x));
    Value y = conv(image, g.constant(weight), has_bias ? g.constant(bias) : Value(),
                   {.stride = {window[0].stride, window[1].stride},
                    .padding = {window[0].padding, window[1].padding},
                    .dilation = {window[0].dilation, window[1].dilation},
                    .groups = groups});
    const bool rounds_twice = has_residual;
    if (has_residual) y = hg::add(y, g.input("residual", dtype, shape_of(residual)));
    if (is_relu) y = relu(y);
    g.output("y", y);
    if (test::prints_graphs()) std::printf("%s", g.text().c_str());
    const Model model = must(Model::from_graph(std::move(g)));
    const Isa best = chosen_isa();
    for (const Isa isa : kIsas) {
      if (!supports(isa) || (isa < best && !chance(20))) continue;
      limit_isa(isa);
      Session session = must(Session::create(
          model, {.threads = static_cast<int>(1 + below(3)), .low_memory = chance(10)}));
      ASSERT_TRUE(session.set_input("x", x.tensor).ok());
      if (has_residual) {
        ASSERT_TRUE(session.set_input("residual", residual.tensor).ok());
      }
      ASSERT_TRUE(session.run().ok());
      const Tensor result = must(session.output("y"));
      const std::vector<double> got = test::read_all(result);  // of any strides
      ASSERT_EQ(result.dtype, dtype);
      ASSERT_EQ(result.shape, (Sizes{n, o, oh, ow}));
      for (int64_t i = 0; i < result.count(); ++i) {
        const int64_t column = i % ow, row = i / ow % oh, k = i / ow / oh % o,
                      first = (i / ow / oh / o * c + k / (o / groups) * each) * h * w;
        double sum = has_bias ? test::read_element(bias.tensor, k) : 0, size = std::abs(sum);
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t a = row * window[0].stride - window[0].padding +
                            tap / window[1].kernel * window[0].dilation;
          const int64_t b = column * window[1].stride - window[1].padding +
                            tap % window[1].kernel * window[1].dilation;
          if (a < 0 || a >= h || b < 0 || b >= w) continue;
          for (int64_t j = 0; j < each; ++j) {
            const double term = test::read_element(x.tensor, first + (j * h + a) * w + b) *
                                test::read_element(weight.tensor, (k * each + j) * taps + tap);
            sum += term;
            size += std::abs(term);
          }
        }
        const double unit = dtype == bf16 ? 0x1p-8 : 0x1p-11;
        double error = size * 1e-6 + (rounds_twice ? std::abs(sum) * unit : 0) + 1e-6;
        if (has_residual) sum += test::read_element(residual.tensor, i);
        const double want = is_relu ? std::max(0.0, sum) : sum;
        error += (std::abs(sum) + error) * unit;
        ASSERT_NEAR(got[static_cast<size_t>(i)], want, error)
            << "element " << i << ", instruction set " << to_string(isa);
      }
    }
    limit_isa(best);
  }
};

// Convolutions, poolings and sums of floats: of f32 with Precision::bf16, or of 16 bits.
class RowNet : public Chances {
 public:
  using Chances::Chances;
  void run() {
    const int64_t n = 1 + below(2);
    const TensorData x =
        random(dtype_, {n, chance(50) ? 1 + below(4) : channels(), 1 + below(16), 1 + below(16)});
    Shape open(x.tensor.shape.begin(), x.tensor.shape.end());
    if (chance(40)) open[0] = Dim("n");
    images_ = {g_.input("x", dtype_, open)};
    for (int64_t i = 1 + below(6); i > 0; --i) {
      const int64_t what = below(8);
      what < 6 ? convolve() : what < 7 ? pool() : add();
    }
    g_.output("y", images_.back());
    if (chance(30)) g_.output("z", images_[static_cast<size_t>(below(images()))]);
    if (test::prints_graphs()) std::printf("%s", g_.text().c_str());
    const Model model = must(Model::from_graph(std::move(g_)));
    SessionOptions how = {.threads = static_cast<int>(1 + below(3)),
                          .precision = dtype_ == f32 ? Precision::bf16 : Precision::f32};
    Session session = must(Session::create(model, how));
    how.threads = 1 + how.threads % 3;
    Session again = must(Session::create(model, how));
    how.disabled_passes = {"channels_last"};
    Session other = must(Session::create(model, how));
    for (Session* each : {&session, &again, &other}) {
      ASSERT_TRUE(each->set_input("x", x.tensor).ok());
      ASSERT_TRUE(each->run().ok());
    }
    for (const char* name : {"y", "z"}) {
      if (!other.output(name).ok()) continue;
      const Tensor y = must(session.output(name)), expected = must(other.output(name));
      ASSERT_EQ(y.shape, expected.shape);
      const std::vector<double> one = test::read_all(y), two = test::read_all(expected);
      ASSERT_EQ(one, test::read_all(must(again.output(name)))) << "threads";
      double largest = 1;
      for (const double each : two) largest = std::max(largest, std::abs(each));
      for (size_t i = 0; i < one.size(); ++i)
        ASSERT_NEAR(one[i], two[i], 0.02 * largest) << "element " << i << " of " << name;
    }
  }

 private:
  int64_t images() const { return static_cast<int64_t>(images_.size()); }
  Value any_image() {
    return images_[static_cast<size_t>(chance(60) ? images() - 1 : below(images()))];
  }
  void convolve() {
    const Value x = any_image();
    Window window[2];
    for (int d = 0; d < 2; ++d) {
      window[d].in = x.dim(2 + d).constant();
      if (!choose(window[d])) return;
    }
    const int64_t c = x.dim(1).constant(), groups = chance(20) ? c : 1;
    const int64_t o = groups > 1 ? c : channels(), each = c / groups;
    const auto terms = static_cast<float>(each * window[0].kernel * window[1].kernel);
    Value y = conv(x,
                   g_.constant(random(dtype_, {o, each, window[0].kernel, window[1].kernel},
                                      1 / std::sqrt(terms))),
                   chance(60) ? g_.constant(random(dtype_, {o})) : Value(),
                   {.stride = {window[0].stride, window[1].stride},
                    .padding = {window[0].padding, window[1].padding},
                    .dilation = {window[0].dilation, window[1].dilation},
                    .groups = groups});
    const Value before = any_image();
    if (chance(40) && before.shape() == y.shape()) y = hg::add(y, before);
    if (chance(60)) y = chance(70) ? relu(y) : gelu(y);
    images_.push_back(y);
  }
  void pool() {
    const Value x = any_image();
    const int64_t size = 1 + below(3);
    if (x.dim(2).constant() < size || x.dim(3).constant() < size) return;
    images_.push_back(max_pool(
        x, {size},
        {.stride = {1 + below(2)}, .padding = {below(size / 2 + 1)}, .ceil_mode = chance(30)}));
  }
  void add() {
    const Value a = any_image(), b = any_image();
    if (a.shape() == b.shape()) images_.push_back(hg::add(a, b));
  }

  const DType dtype_ = chance(40) ? f32 : chance(80) ? bf16 : f16;
  Graph g_;
  std::vector<Value> images_;
};

TEST(ConvRows, AreThoseOfTheRoundedOperands) {
  test::emulate_instructions();
  test::for_cases(500, [](uint64_t i) { RowConv(i).run(); });
}

TEST(ConvRows, OfHalvesAreRoundedOnce) {
  test::emulate_instructions();
  test::for_cases(500, [](uint64_t i) { HalfConv(i + 5000).run(); });
}

TEST(ConvRows, LayoutsOfNetsAgree) {
  test::emulate_instructions();
  test::for_cases(300, [](uint64_t i) { RowNet(i + 9000).run(); });
}

}  // namespace
}  // namespace hg
