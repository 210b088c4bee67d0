// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions with random sizes, strides, padding, dilation and
// groups, in all float dtypes, against a plain loop in f64. All kernels that accept a shape give
// the same sums; sums of integers are exact; sums of halves are rounded once. Huge, infinite and
// NaN elements of x affect only the windows that contain them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include "hg/hg.h"
#include "kernels/element.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

class Case : private test::Chance {
 public:
  using Chance::Chance;
  void run();
  void run_with_outliers();
  void run_in_halves();

 private:
  // Numbers of dtype_ in f32.
  TensorData random(const Sizes& shape) {
    TensorData data = must(TensorData::allocate(f32, shape));
    for (int64_t i = 0; i < shape.count(); ++i) {
      const float x = exact_ ? static_cast<float>(below(2 * kMost + 1) - kMost)
                             : static_cast<float>(below(2001) - 1000) / 1000;
      data.tensor.as<float>()[i] = dtype_ == f16    ? static_cast<float>(Half(x))
                                   : dtype_ == bf16 ? static_cast<float>(BFloat16(x))
                                                    : x;
    }
    return data;
  }
  bool is_half() const { return dtype_ == f16 || dtype_ == bf16; }
  bool choose();
  void run_chosen();
  TensorData answer(const Model& model, bool is_constant, int threads) const;
  template <class T>
  void expect(const Tensor& y) const;
  // Calls f(index of y, x, weight) for each product.
  template <class F>
  void each_product(const F& f) const;

  static constexpr int64_t kMost = 180;  // of exact cases: sums of 500 products stay below 2^24
  int64_t n_ = 1, c_ = 1, o_ = 1, groups_ = 1, dims_ = 2;
  std::array<int64_t, 3> in_ = {1, 1, 1}, out_ = {1, 1, 1}, kernel_ = {1, 1, 1};
  std::array<int64_t, 3> stride_ = {1, 1, 1}, padding_ = {0, 0, 0}, dilation_ = {1, 1, 1};
  TensorData x_, weight_, bias_, residual_;
  bool relu_ = false, exact_ = false, has_outliers_ = false, transposed_ = false;
  DType dtype_ = f32;
};

// False if the shape has no windows or would take too long.
bool Case::choose() {
  dims_ = chance(15) ? 1 : chance(15) ? 3 : 2;
  n_ = chance(80) ? 1 : 1 + below(4);
  groups_ = chance(80) ? 1 : 1 + below(4);
  const int64_t most = chance(60) ? 40 : 6;
  // The kernels of some convolutions read halves.
  enum : int64_t { kAny, kDepthwise, kOneTap, kOnePixel };
  const int64_t kind = is_half() ? below(4) : int64_t{kAny};
  if (kind != kAny) groups_ = kind == kDepthwise ? 1 + below(40) : 1;
  c_ = groups_ * (kind == kDepthwise ? 1 : 1 + below(most));
  o_ = groups_ * (1 + below(most));
  const int64_t kernel = kind >= kOneTap ? 1 : chance(60) ? 3 : 1 + below(5);
  const int64_t stride = chance(70) ? 1 : 1 + below(3);
  const int64_t dilation = chance(50) ? 1 : 1 + below(6);
  transposed_ = !has_outliers_ && chance(25);
  if (!is_half()) dtype_ = !has_outliers_ && chance(20) ? f64 : f32;
  for (int64_t d = 3 - dims_; d < 3; ++d) {
    const auto at = static_cast<size_t>(d);
    in_[at] = kind == kOnePixel ? 1 : 1 + below(dims_ == 3 ? 10 : chance(50) ? 40 : 14);
    kernel_[at] = kind >= kOneTap || chance(80) ? kernel : 1 + below(4);
    stride_[at] = chance(80) ? stride : 1 + below(3);
    dilation_[at] = chance(70) ? dilation : 1 + below(4);
    padding_[at] = kind >= kOneTap || chance(60) ? dilation_[at] * (kernel_[at] / 2) : below(6);
    const int64_t wide = dilation_[at] * (kernel_[at] - 1) + 1;
    const int64_t room = transposed_ ? (in_[at] - 1) * stride_[at] + wide - 2 * padding_[at] - 1
                                     : in_[at] + 2 * padding_[at] - wide;
    if (room < 0) return false;
    out_[at] = transposed_ ? room + 1 : room / stride_[at] + 1;
  }
  const int64_t depth = c_ / groups_ * kernel_[0] * kernel_[1] * kernel_[2];
  exact_ = !is_half() && chance(25) && depth < 500;
  return n_ * o_ * out_[0] * out_[1] * out_[2] * depth < 20'000'000;
}

template <class F>
void Case::each_product(const F& f) const {
  const int64_t group_c = c_ / groups_, group_o = o_ / groups_;
  const float *x = x_.tensor.as<const float>(), *w = weight_.tensor.as<const float>();
  const auto& moves = transposed_ ? in_ : out_;  // the kernel's positions, in the pixels of `over`
  const auto& over = transposed_ ? out_ : in_;
  for (int64_t n = 0; n < n_; ++n)
    for (int64_t o = 0; o < o_; ++o)
      for (int64_t c = 0; c < group_c; ++c) {
        const int64_t channel = o / group_o * group_c + c;
        const int64_t pair = transposed_ ? channel * group_o + o % group_o : o * group_c + c;
        const float* weight = w + pair * kernel_[0] * kernel_[1] * kernel_[2];
        const float* plane = x + (n * c_ + channel) * in_[0] * in_[1] * in_[2];
        const int64_t first = (n * o_ + o) * out_[0] * out_[1] * out_[2];
        int64_t at = 0;
        for (int64_t z = 0; z < moves[0]; ++z)
          for (int64_t y = 0; y < moves[1]; ++y)
            for (int64_t v = 0; v < moves[2]; ++v, ++at)
              for (int64_t kz = 0; kz < kernel_[0]; ++kz) {
                const int64_t to_z = z * stride_[0] - padding_[0] + kz * dilation_[0];
                if (to_z < 0 || to_z >= over[0]) continue;
                for (int64_t ky = 0; ky < kernel_[1]; ++ky) {
                  const int64_t to_y = y * stride_[1] - padding_[1] + ky * dilation_[1];
                  if (to_y < 0 || to_y >= over[1]) continue;
                  for (int64_t kx = 0; kx < kernel_[2]; ++kx) {
                    const int64_t to_x = v * stride_[2] - padding_[2] + kx * dilation_[2];
                    if (to_x < 0 || to_x >= over[2]) continue;
                    const int64_t other = (to_z * over[1] + to_y) * over[2] + to_x;
                    f(first + (transposed_ ? other : at), plane[transposed_ ? at : other],
                      weight[(kz * kernel_[1] + ky) * kernel_[2] + kx]);
                  }
                }
              }
      }
}

template <class T>
void Case::expect(const Tensor& y) const {
  const int64_t pixels = out_[0] * out_[1] * out_[2];
  struct Expected {
    double sum, size, largest = 0;
  };
  std::vector<Expected> all(static_cast<size_t>(n_ * o_ * pixels));
  for (size_t at = 0; at < all.size(); ++at) {
    const int64_t o = static_cast<int64_t>(at) / pixels % o_;
    const double bias = bias_.empty() ? 0 : double{bias_.tensor.as<const float>()[o]};
    all[at] = {bias, std::abs(bias)};
  }
  each_product([&](int64_t at, double x, double weight) {
    Expected& e = all[static_cast<size_t>(at)];
    e.sum += x * weight;
    e.size += std::abs(x * weight);
    e.largest = std::max(e.largest, std::abs(x));
  });
  for (size_t at = 0; at < all.size(); ++at) {
    double sum = all[at].sum;
    if (!residual_.empty()) sum += double{residual_.tensor.as<const float>()[at]};
    if (relu_) sum = std::max(sum, 0.0);
    const double of_y = kernels::load(y.as<const T>() + at);
    if (!std::isfinite(sum)) {
      ASSERT_TRUE(std::isnan(sum) ? std::isnan(of_y) : of_y == sum)
          << "element " << at << " is " << of_y << " for " << sum;
      continue;
    }
    // Winograd's transforms add an outlier to its neighbors, which rounds them.
    const double rounding = has_outliers_    ? 1e-6 * all[at].largest
                            : dtype_ == f16  ? std::abs(sum) * 0x1p-11
                            : dtype_ == bf16 ? std::abs(sum) * 0x1p-8
                                             : 0;
    const double tolerance =
        sizeof(T) == 8 ? 1e-14 * (all[at].size + 1) : 4e-6 * all[at].size + 1e-5 + rounding;
    ASSERT_NEAR(of_y, sum, exact_ ? 0 : tolerance) << "element " << at;
  }
}

void Case::run() {
  if (choose()) run_chosen();
}

void Case::run_with_outliers() {
  has_outliers_ = true;
  if (choose() && !exact_) run_chosen();
}

void Case::run_in_halves() {
  dtype_ = chance(50) ? f16 : bf16;
  limit_isa(kIsas[below(std::size(kIsas))]);
  if (choose()) run_chosen();
  limit_isa(kBestIsa);
}

TensorData Case::answer(const Model& model, bool is_constant, int threads) const {
  Session session = must(Session::create(model, {.threads = threads}));
  EXPECT_TRUE(session.set_input("x", x_.tensor).ok());
  if (!residual_.empty()) {
    EXPECT_TRUE(session.set_input("residual", residual_.tensor).ok());
  }
  if (!is_constant) {
    EXPECT_TRUE(session.set_input("weight", weight_.tensor).ok());
  }
  EXPECT_TRUE(session.run().ok());
  return must(TensorData::copy_of(*session.output("y")));
}

void Case::run_chosen() {
  const auto shape_of = [&](int64_t first, int64_t second, const std::array<int64_t, 3>& rest) {
    Sizes shape = {first, second};
    for (int64_t d = 3 - dims_; d < 3; ++d) shape.push_back(rest[static_cast<size_t>(d)]);
    return shape;
  };
  const auto attr_of = [&](const std::array<int64_t, 3>& all) {
    return std::vector<Dim>(all.begin() + (3 - dims_), all.end());
  };
  x_ = random(shape_of(n_, c_, in_));
  if (has_outliers_) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr std::array kOutliers = {1e4f, -1e6f, 1e9f, -1e30f, 1e35f, kInfinity, -kInfinity, NAN};
    for (int64_t k = 1 + below(chance(80) ? 4 : 100); k > 0; --k)
      x_.tensor.as<float>()[below(x_.tensor.shape.count())] =
          kOutliers[static_cast<size_t>(below(kOutliers.size()))];
  }
  weight_ = random(transposed_ ? shape_of(c_, o_ / groups_, kernel_)
                               : shape_of(o_, c_ / groups_, kernel_));
  if (chance(70)) bias_ = random({o_});
  if (chance(30)) residual_ = random(shape_of(n_, o_, out_));
  relu_ = chance(30);

  Graph g;
  const auto in_dtype = [&](const Value& value) {
    return dtype_ == f32 ? value : cast(value, dtype_);
  };
  const auto input = [&](const char* name, const TensorData& data) {
    const Sizes& shape = data.tensor.shape;
    return in_dtype(g.input(name, f32, {shape.begin(), shape.end()}));
  };
  const Value x = input("x", x_);
  const Value residual = residual_.empty() ? Value() : input("residual", residual_);
  const bool constant = chance(85);
  const Value weight = constant ? in_dtype(g.constant(weight_)) : input("weight", weight_);
  ConvOptions options;
  options.stride = attr_of(stride_);
  options.padding = attr_of(padding_);
  options.dilation = attr_of(dilation_);
  options.groups = groups_;
  options.exact = exact_;
  options.activation = relu_ ? Activation::relu : Activation::none;
  const Value bias = bias_.empty() ? Value() : in_dtype(g.constant(bias_));
  const Value y = transposed_ ? conv_transposed(x, weight, bias, options, residual)
                              : conv(x, weight, bias, options, residual);
  g.output("y", y);
  const Model model = must(Model::from_graph(std::move(g)));
  const TensorData result = answer(model, constant, static_cast<int>(1 + below(3)));
  switch (dtype_) {
    case f16:
      expect<Half>(result.tensor);
      break;
    case bf16:
      expect<BFloat16>(result.tensor);
      break;
    case f64:
      return expect<double>(result.tensor);
    default:
      return expect<float>(result.tensor);
  }
  for (const int threads : {1, 2})
    EXPECT_EQ(0, std::memcmp(answer(model, constant, threads).tensor.data, result.tensor.data,
                             static_cast<size_t>(result.tensor.count()) * 2));
}

TEST(ConvRandom, SumsAreThoseOfAPlainLoop) {
  test::for_cases(400, [](uint64_t i) { Case(i + 9000).run(); });
}

TEST(ConvRandom, SumsOfHalvesAreRoundedOnce) {
  test::for_cases(400, [](uint64_t i) { Case(i + 200000).run_in_halves(); });
}

TEST(ConvRandom, LargeAndInfiniteElementsStayInTheirWindows) {
  test::for_cases(400, [](uint64_t i) { Case(i + 70000).run_with_outliers(); });
}

}  // namespace
}  // namespace hg
