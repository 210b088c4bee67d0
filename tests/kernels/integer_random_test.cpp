// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of 8-bit integers with random sizes against plain loops: equal bits for
// every instruction set and number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/elements.h"
#include "tests/support/emulated_instructions.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

using Sizes3 = std::array<int64_t, 3>;
using Dims = std::vector<Dim>;

// A tensor of 8-bit integers, and the same numbers.
struct Bytes {
  TensorData data;
  int at(int64_t i) const {
    const Tensor& t = data.tensor;
    return t.dtype == i8 ? t.as<const int8_t>()[i] : t.as<const uint8_t>()[i];
  }
  bool empty() const { return data.empty(); }
};

class Case : protected test::Chance {
 public:
  explicit Case(uint64_t seed) : Chance(seed) {}

 protected:
  DType byte_dtype() { return chance(50) ? u8 : i8; }
  Bytes bytes(DType dtype, const Sizes& shape) {
    Bytes made{must(TensorData::allocate(dtype, shape))};
    const bool extreme = chance(15);
    auto* const to = made.data.tensor.as<uint8_t>();
    for (int64_t i = 0; i < shape.count(); ++i)
      to[i] = static_cast<uint8_t>(!extreme ? below(256)
                                            : (chance(50) ? 0 : 255) ^ (dtype == i8 ? 128 : 0));
    return made;
  }
  // Like trained weights: most are near the middle of the range.
  Bytes weights(DType dtype, const Sizes& shape) {
    Bytes made = bytes(dtype, shape);
    if (chance(40)) return made;
    const int64_t usual = 20 + below(60), far = below(most_far_);
    auto* const to = made.data.tensor.as<uint8_t>();
    for (int64_t i = 0; i < shape.count(); ++i)
      if (!chance(static_cast<int>(far)))
        to[i] = static_cast<uint8_t>(below(2 * usual + 1) - usual + (dtype == u8 ? 128 : 0));
    return made;
  }
  // Zero points of the weights, some of them in the middle of the range.
  Bytes weight_zeros(DType dtype, const Sizes& shape) {
    Bytes made = bytes(dtype, shape);
    if (chance(50)) return made;
    for (int64_t i = 0; i < shape.count(); ++i)
      made.data.tensor.as<uint8_t>()[i] =
          static_cast<uint8_t>(below(5) - 2 + (dtype == u8 ? 128 : 0));
    return made;
  }
  // Chooses bias, scale and zero point for `size` channels, so that results fit their range.
  void choose_result(int64_t size, int64_t depth) {
    if (chance(60)) {
      bias_ = must(TensorData::allocate(i32, {size}));
      for (int64_t i = 0; i < size; ++i)
        bias_.tensor.as<int32_t>()[i] = static_cast<int32_t>(below(200001) - 100000);
    }
    if (chance(25)) return;
    scale_ = must(TensorData::allocate(f32, chance(50) ? Sizes{} : Sizes{size}));
    const double usual = 1 / (60 * std::sqrt(static_cast<double>(depth) + 1));
    for (int64_t i = 0; i < scale_.tensor.count(); ++i)
      scale_.tensor.as<float>()[i] =
          chance(20) ? 0.5f
                     : static_cast<float>(usual * static_cast<double>(below(2000) - 200) / 1000);
    if (chance(20)) return;
    result_zero_ = bytes(byte_dtype(), {});
  }
  Value input(Graph& g, const char* name, const TensorData& data, bool constant) {
    if (data.empty()) return {};
    const Tensor& t = data.tensor;
    if (constant) return g.constant(data);
    inputs_.push_back({name, &data});
    return g.input(name, t.dtype, {t.shape.begin(), t.shape.end()});
  }
  IntegerOptions options(Graph& g, bool constant) {
    IntegerOptions o;
    o.x_zero = input(g, "x_zero", x_zero_.data, chance(70));
    o.weight_zero = input(g, "weight_zero", weight_zero_.data, constant && chance(90));
    o.bias = input(g, "bias", bias_, chance(70));
    o.scale = input(g, "scale", scale_, chance(70));
    o.zero = input(g, "zero", result_zero_.data, chance(70));
    return o;
  }
  // The result of a sum in channel `place`, as a double.
  double finished(int64_t sum, int64_t place) const {
    if (!bias_.empty()) sum += bias_.tensor.as<const int32_t>()[place];
    const auto whole = static_cast<int32_t>(static_cast<uint32_t>(sum));  // wraps around
    if (scale_.empty()) return whole;
    const int64_t at = scale_.tensor.count() == 1 ? 0 : place;
    const float scaled = static_cast<float>(whole) * scale_.tensor.as<const float>()[at];
    if (result_zero_.empty()) return scaled;
    const float rounded = std::nearbyintf(scaled) + static_cast<float>(result_zero_.at(0));
    const float low = result_zero_.data.tensor.dtype == i8 ? -128 : 0;
    return std::clamp(rounded, low, low + 255);
  }
  // Runs the graph with every instruction set and compares element i with want(i).
  void expect(Graph g, const std::vector<double>& want) {
    const Model model = must(Model::from_graph(std::move(g)));
    const Isa best = chosen_isa();
    for (const Isa isa : kIsas) {
      if (!supports(isa) || (isa < best && !chance(40))) continue;
      limit_isa(isa);
      SessionOptions how = {.threads = static_cast<int>(1 + below(3))};
      how.low_memory = chance(10);
      Session session = must(Session::create(model, how));
      for (const auto& [name, data] : inputs_)
        ASSERT_TRUE(session.set_input(name, data->tensor).ok());
      ASSERT_TRUE(session.run().ok());
      const std::vector<double> y = test::read_all(must(session.output("y")));
      ASSERT_EQ(y.size(), want.size());
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(y[i], want[i]) << "element " << i << " of " << y.size() << ", instruction set "
                                 << to_string(isa);
    }
    limit_isa(best);
  }

  int64_t most_far_ = 12;  // percent of weights that may be far from the middle
  Bytes x_, weight_, x_zero_, weight_zero_, result_zero_;
  TensorData bias_, scale_;
  std::vector<std::pair<std::string, const TensorData*>> inputs_;
};

class ProductCase : public Case {
 public:
  using Case::Case;
  void run() {
    const auto size = [&](int64_t most) {
      return chance(4) ? 0 : chance(20) ? 1 : 1 + below(most);
    };
    compare(size(chance(30) ? 90 : 14), size(chance(30) ? 150 : 40),
            chance(3) ? 33000 + below(2000) : size(chance(30) ? 700 : 70), chance(60));
  }

  // With constant weights, few of which are so large that sums of neighbors could saturate.
  void run_weights() {
    most_far_ = 3;
    compare(1 + below(chance(20) ? 600 : 70), 1 + below(chance(30) ? 200 : 60), 1 + below(200),
            true);
  }

 private:
  void compare(int64_t m, int64_t n, int64_t k, bool constant) {
    if (m * n * k > 4'000'000) return;
    const int64_t batch = chance(70) ? 1 : 1 + below(3);
    const bool shared_a = batch > 1 && chance(30), shared_b = batch > 1 && !shared_a && chance(50);
    const auto shape = [&](bool shared, int64_t rows, int64_t columns) {
      Sizes s = {rows, columns};
      if (batch > 1 && !(shared && chance(50))) s.insert(0, shared ? 1 : batch);
      return s;
    };
    x_ = bytes(byte_dtype(), shape(shared_a, m, k));
    weight_ = weights(byte_dtype(), shape(shared_b, k, n));
    const Sizes &a = x_.data.tensor.shape, &b = weight_.data.tensor.shape;
    const bool own_a = a.rank() == 3 && chance(30), own_b = b.rank() == 3 && chance(30);
    if (chance(70))
      x_zero_ = bytes(x_.data.tensor.dtype, chance(60) ? Sizes{}
                                            : own_a    ? Sizes{a[0], m, 1}
                                                       : Sizes{m});
    if (chance(70))
      weight_zero_ = weight_zeros(weight_.data.tensor.dtype, chance(60) ? Sizes{}
                                                             : own_b    ? Sizes{b[0], 1, n}
                                                                        : Sizes{n});
    choose_result(n, k);
    const auto zero = [](const Bytes& of, int64_t matrix, int64_t place, int64_t places) {
      if (of.empty()) return 0;
      const int rank = of.data.tensor.rank();
      return of.at(rank == 0 ? 0 : rank == 1 ? place : matrix * places + place);
    };
    std::vector<double> want;
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t in_a = a.rank() == 3 && a[0] > 1 ? i : 0,
                    in_b = b.rank() == 3 && b[0] > 1 ? i : 0;
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < n; ++c) {
          int64_t sum = 0;
          for (int64_t p = 0; p < k; ++p)
            sum += int64_t{x_.at((in_a * m + r) * k + p) - zero(x_zero_, in_a, r, m)} *
                   (weight_.at((in_b * k + p) * n + c) - zero(weight_zero_, in_b, c, n));
          want.push_back(finished(sum, c));
        }
    }
    Graph g;
    const Value in_a = input(g, "a", x_.data, chance(10));
    const Value in_b = input(g, "b", weight_.data, constant);
    g.output("y", matmul_integer(in_a, in_b, options(g, constant)));
    expect(std::move(g), want);
  }
};

class ConvCase : public Case {
 public:
  using Case::Case;

  void run() {
    dims_ = chance(15) ? 1 : chance(15) ? 3 : 2;
    const bool depthwise = chance(35);
    n_ = chance(75) ? 1 : 1 + below(3);
    groups_ = depthwise ? 1 + below(8) : chance(80) ? 1 : 1 + below(4);
    const int64_t most = chance(50) ? 40 : 6;
    group_c_ = depthwise ? 1 : 1 + below(most);
    group_o_ = depthwise ? (chance(80) ? 1 : 1 + below(3)) : 1 + below(most);
    const int64_t usual = chance(60) ? 3 : 1 + below(5), step = chance(60) ? 1 : chance(70) ? 2 : 3;
    const bool even = chance(70);
    for (size_t d = static_cast<size_t>(3 - dims_); d < 3; ++d) {
      in_[d] = 1 + below(dims_ == 3 ? 9 : chance(50) ? 70 : 14);
      kernel_[d] = chance(80) ? usual : 1 + below(5);
      stride_[d] = chance(85) ? step : 1 + below(4);
      dilation_[d] = chance(75) ? 1 : 1 + below(4);
      begin_[d] = chance(60) ? dilation_[d] * (kernel_[d] / 2) : below(7);
      end_[d] = even ? begin_[d] : below(7);
      if (d == 0 && chance(40)) {  // images, but perhaps with padding after them
        in_[d] = kernel_[d] = 1;
        begin_[d] = 0;
      }
    }
    compare(3'000'000);
  }

  // A 3x3 convolution with stride 1, which Winograd's algorithm may compute.
  void run_square() {
    n_ = chance(80) ? 1 : below(4);
    const bool many = chance(15);  // whose sums come near the limit of 32 bits
    group_c_ = many ? 190 + below(90) : chance(80) ? 16 + below(60) : 1 + below(20);
    group_o_ = many ? 16 : chance(80) ? 16 + below(60) : 1 + below(20);
    if (chance(8)) groups_ = 2;
    for (const size_t d : {1, 2}) {
      in_[d] = many ? 5 + below(5) : 1 + below(chance(30) ? 60 : 20);
      kernel_[d] = chance(95) ? 3 : 1 + below(4);
      stride_[d] = chance(95) ? 1 : 2;
      dilation_[d] = chance(95) ? 1 : 2;
      begin_[d] = chance(60) ? 1 : below(8);
      end_[d] = chance(60) ? begin_[d] : below(8);
    }
    same_sign_ = many && chance(60);
    compare(many ? 6'000'000 : 3'000'000);
  }

 private:
  void compare(int64_t most_products) {
    const int64_t c = groups_ * group_c_, o = groups_ * group_o_;
    Sizes3 out = {1, 1, 1};
    for (size_t d = static_cast<size_t>(3 - dims_); d < 3; ++d) {
      const int64_t room = in_[d] + begin_[d] + end_[d] - dilation_[d] * (kernel_[d] - 1) - 1;
      if (room < 0) return;
      out[d] = room / stride_[d] + 1;
    }
    const int64_t taps = kernel_[0] * kernel_[1] * kernel_[2], depth = group_c_ * taps;
    if (n_ * o * out[0] * out[1] * out[2] * depth > most_products) return;
    const auto shape_of = [&](int64_t first, int64_t second, const Sizes3& rest) {
      Sizes shape = {first, second};
      for (size_t d = static_cast<size_t>(3 - dims_); d < 3; ++d) shape.push_back(rest[d]);
      return shape;
    };
    x_ = bytes(byte_dtype(), shape_of(n_, c, in_));
    weight_ = weights(byte_dtype(), shape_of(o, group_c_, kernel_));
    if (chance(80)) x_zero_ = bytes(x_.data.tensor.dtype, {});
    if (chance(60))
      weight_zero_ = weight_zeros(weight_.data.tensor.dtype, chance(50) ? Sizes{} : Sizes{o});
    if (same_sign_)
      for (Bytes* each : {&x_, &weight_}) {
        Tensor& t = each->data.tensor;
        std::fill_n(t.as<uint8_t>(), t.count(),
                    static_cast<uint8_t>((chance(50) ? 0 : 255) ^ (t.dtype == i8 ? 128 : 0)));
      }
    choose_result(o, depth);
    std::vector<double> want;
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j < o; ++j)
        for (int64_t z = 0; z < out[0]; ++z)
          for (int64_t y = 0; y < out[1]; ++y)
            for (int64_t x = 0; x < out[2]; ++x) {
              int64_t sum = 0;
              for (int64_t k = 0; k < depth; ++k) {
                const int64_t tap = k % taps;
                const int64_t from_z =
                    z * stride_[0] - begin_[0] + tap / (kernel_[1] * kernel_[2]) * dilation_[0];
                const int64_t from_y =
                    y * stride_[1] - begin_[1] + tap / kernel_[2] % kernel_[1] * dilation_[1];
                const int64_t from_x = x * stride_[2] - begin_[2] + tap % kernel_[2] * dilation_[2];
                if (from_z < 0 || from_y < 0 || from_x < 0 || from_z >= in_[0] ||
                    from_y >= in_[1] || from_x >= in_[2])
                  continue;
                const int64_t channel = i * c + j / group_o_ * group_c_ + k / taps;
                const int64_t at =
                    ((channel * in_[0] + from_z) * in_[1] + from_y) * in_[2] + from_x;
                const int zero =
                    weight_zero_.empty()
                        ? 0
                        : weight_zero_.at(weight_zero_.data.tensor.count() == 1 ? 0 : j);
                sum += int64_t{x_.at(at) - (x_zero_.empty() ? 0 : x_zero_.at(0))} *
                       (weight_.at(j * depth + k) - zero);
              }
              want.push_back(finished(sum, j));
            }
    const auto attr_of = [&](const Sizes3& all) {
      return std::vector<Dim>(all.begin() + (3 - dims_), all.end());
    };
    ConvIntegerOptions windows = {attr_of(stride_), attr_of(begin_), attr_of(dilation_), groups_};
    if (begin_ != end_ || chance(20))
      for (const Dim& each : attr_of(end_)) windows.padding.push_back(each);
    Graph g;
    const bool constant = chance(80);
    const Value x = input(g, "x", x_.data, false);
    const Value weight = input(g, "weight", weight_.data, constant);
    g.output("y", conv_integer(x, weight, options(g, constant), windows));
    expect(std::move(g), want);
  }

  int64_t dims_ = 2, n_ = 1, groups_ = 1, group_c_ = 1, group_o_ = 1;
  Sizes3 in_ = {1, 1, 1}, kernel_ = in_, stride_ = in_, dilation_ = in_, begin_ = {}, end_ = {};
  bool same_sign_ = false;
};

// Convolutions, poolings, sums and concatenations of bytes.
class NetCase : public Case {
 public:
  using Case::Case;
  void run() {
    const int64_t n = chance(75) ? 1 : 1 + below(3);
    const Sizes shape = {n, chance(40) ? 1 + below(4) : channels(), 1 + below(20), 1 + below(20)};
    x_ = bytes(byte_dtype(), shape);
    Shape open(shape.begin(), shape.end());
    if (chance(40)) open[0] = Dim("n");
    images_ = {g_.input("x", x_.data.tensor.dtype, open)};
    const int64_t steps = 1 + below(6);
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t what = below(10);
      what < 5 ? convolve() : what < 6 ? pool() : what < 8 ? add() : join();
    }
    g_.output("y", images_.back());
    if (chance(30)) g_.output("z", images_[static_cast<size_t>(below(images()))]);
    if (test::prints_graphs()) std::printf("%s", g_.text().c_str());
    const Model model = must(Model::from_graph(std::move(g_)));
    const Isa best = chosen_isa();
    std::map<std::string, std::vector<double>> expected;  // those of the first set
    for (const Isa isa : kIsas) {
      if (!supports(isa) || (isa < best && !chance(20))) continue;
      limit_isa(isa);
      SessionOptions how = {.threads = static_cast<int>(1 + below(3))};
      how.low_memory = chance(5);
      Session session = must(Session::create(model, how));
      how.disabled_passes = {"channels_last"};
      Session other = must(Session::create(model, how));
      for (Session* each : {&session, &other}) {
        ASSERT_TRUE(each->set_input("x", x_.data.tensor).ok());
        ASSERT_TRUE(each->run().ok());
      }
      for (const char* name : {"y", "z"}) {
        if (!other.output(name).ok()) continue;
        const Tensor y = must(session.output(name)), plain = must(other.output(name));
        ASSERT_EQ(y.shape, plain.shape);
        const std::vector<double> one = test::read_all(y);
        std::vector<double>& two = expected[name];
        if (two.empty()) two = test::read_all(plain);
        ASSERT_EQ(one.size(), two.size());
        for (size_t i = 0; i < one.size(); ++i)
          ASSERT_EQ(one[i], two[i])
              << "element " << i << " of " << name << ", instruction set " << to_string(isa);
      }
    }
    limit_isa(best);
  }

 private:
  int64_t images() const { return static_cast<int64_t>(images_.size()); }
  Value any() { return images_[static_cast<size_t>(chance(60) ? images() - 1 : below(images()))]; }
  int64_t channels() { return chance(40) ? 64 * (1 + below(2)) : 1 + below(80); }
  Value constant(TensorData data) { return g_.constant(std::move(data)); }
  static TensorData scalar(double value) {
    TensorData data = must(TensorData::allocate(f32, {}));
    *data.tensor.as<float>() = static_cast<float>(value);
    return data;
  }
  Value number(double value) { return constant(scalar(value)); }

  void convolve() {
    const Value x = any();
    const int64_t c = x.dim(1).constant(), o = channels();
    Dims kernel, stride, padding, dilation;
    for (int d = 0; d < 2; ++d) {
      const int64_t in = x.dim(2 + d).constant();
      kernel.push_back(chance(40) ? 1 : chance(70) ? 3 : 1 + below(5));
      stride.push_back(chance(60) ? 1 : 1 + below(3));
      padding.push_back(chance(60) ? kernel.back().constant() / 2 : below(3));
      dilation.push_back(chance(80) ? 1 : 1 + below(2));
      if (in + 2 * padding.back().constant() <=
          dilation.back().constant() * (kernel.back().constant() - 1))
        return;
    }
    const int64_t depth = c * kernel[0].constant() * kernel[1].constant();
    weight_ = weights(byte_dtype(), {o, c, kernel[0].constant(), kernel[1].constant()});
    IntegerOptions options;
    const DType dtype = weight_.data.tensor.dtype;
    if (chance(70)) options.x_zero = constant(bytes(x.dtype(), {}).data);
    if (dtype == u8 || chance(60)) {
      Bytes zeros = bytes(dtype, chance(50) ? Sizes{} : Sizes{o});
      if (chance(85))
        std::fill_n(zeros.data.tensor.as<uint8_t>(), zeros.data.tensor.count(),
                    dtype == u8 ? 128 : 0);
      options.weight_zero = constant(std::move(zeros.data));
    }
    bias_ = {};
    scale_ = {};
    choose_result(o, depth);
    if (!bias_.empty()) options.bias = constant(std::move(bias_));
    if (scale_.empty()) scale_ = scalar(0.01);
    options.scale = constant(std::move(scale_));
    options.zero = constant(bytes(byte_dtype(), {}).data);
    images_.push_back(
        conv_integer(x, constant(std::move(weight_.data)), options, {stride, padding, dilation}));
  }
  void pool() {
    const Value x = any();
    const int64_t size = 1 + below(3);
    for (int d = 2; d < 4; ++d)
      if (x.dim(d).constant() < size) return;
    images_.push_back(max_pool(
        x, {size},
        {.stride = {1 + below(2)}, .padding = {below(size / 2 + 1)}, .ceil_mode = chance(30)}));
  }
  Value widened(const Value& x) {
    return mul(sub(cast(x, f32), number(static_cast<double>(below(256)))),
               number(0.01 + 0.01 * static_cast<double>(below(10))));
  }
  void add() {
    const Value a = any(), b = any();
    if (a.shape() != b.shape()) return;
    const DType to = byte_dtype();
    const double low = to == i8 ? -128 : 0;
    Value sum = hg::add(widened(a), widened(b));
    if (chance(30)) sum = relu(sum);
    const Value level = round(div(sum, number(0.02 + 0.01 * static_cast<double>(below(10)))));
    const Value shifted = hg::add(level, number(static_cast<double>(below(256)) + low));
    images_.push_back(cast(hardtanh(shifted, low, low + 255), to));
  }
  void join() {
    const Value a = any(), b = any();
    if (a.dtype() != b.dtype() || a.dim(2) != b.dim(2) || a.dim(3) != b.dim(3)) return;
    images_.push_back(concat({a, b}, 1));
  }

  Graph g_;
  std::vector<Value> images_;
};

// HG_ISA names the best set of the machine, which an emulator decides.
TEST(IntegerRandom, RunsWithTheBestInstructionSet) {
  const std::string best = test::chosen("HG_ISA");
  if (best.empty()) GTEST_SKIP() << "HG_ISA is not set";
  EXPECT_EQ(to_string(processor_isa()), best);
}

// Before other tests emulate instructions, which takes long: only AVX2 alone has such a kernel.
TEST(IntegerRandom, ConvolutionsBySquaresAreThoseOfAPlainLoop) {
  test::for_cases(150, [](uint64_t i) { ConvCase(i + 50000).run_square(); });
}

TEST(IntegerRandom, LayoutsOfNetsGiveTheSameBits) {
  test::for_cases(test::emulate_instructions() ? 30 : 300,
                  [](uint64_t i) { NetCase(i + 20000).run(); });
}

TEST(IntegerRandom, ProductsAreThoseOfAPlainLoop) {
  test::for_cases(test::emulate_instructions() ? 60 : 600,
                  [](uint64_t i) { ProductCase(i + 100).run(); });
  test::for_cases(test::emulate_instructions() ? 20 : 300,
                  [](uint64_t i) { ProductCase(i + 70000).run_weights(); });
}

TEST(IntegerRandom, ConvolutionsAreThoseOfAPlainLoop) {
  test::for_cases(test::emulate_instructions() ? 60 : 600,
                  [](uint64_t i) { ConvCase(i + 7000).run(); });
}

}  // namespace
}  // namespace hg
