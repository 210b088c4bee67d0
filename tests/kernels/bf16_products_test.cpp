// SPDX-License-Identifier: Apache-2.0
// Random products in bf16, and products and convolutions with Precision::bf16, equal f64 sums of
// the rounded operands, for every instruction set and number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "hg/hg.h"
#include "kernels/gemm/gemm.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/elements.h"
#include "tests/support/emulated_instructions.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

double rounded(float x) { return static_cast<float>(BFloat16(x)); }

struct Sum {
  double value = 0, size = 0;  // of all terms
  double small = 0;            // of terms that may count as 0
  int64_t terms = 0;
  void add(double a, double b) {
    value += a * b;
    size += std::abs(a * b);
    ++terms;
  }
  // As the instructions for bf16, which read numbers below 2^-126 as 0.
  void add_rounded(float x, float w) {
    const double a = rounded(x), b = rounded(w);
    const bool is_small = std::min(std::abs(a), std::abs(b)) <= 0x1p-126;
    if (is_small && std::isfinite(a)) {
      small += std::abs(a * b);
      ++terms;
    } else {
      add(a, std::abs(b) < 0x1p-126 ? 0 : b);
    }
  }
};

class Bf16Product : test::Chance {
 public:
  explicit Bf16Product(uint64_t seed) : Chance(seed) {}

  void run() {
    const bool is_conv = chance(50);
    for_tiles_ = is_conv && chance(50);
    is_conv ? choose_conv() : choose_product();
    const bool is_empty = x_shape_.count() == 0 || w_shape_.count() == 0;
    dtype_ = !is_conv && !is_empty && chance(40) ? bf16 : f32;
    is_constant_ = dtype_ == f32 || chance(50);
    fill(x_, x_shape_.count(), true);
    fill(w_, w_shape_.count(), false);
    fill(bias_, is_conv ? w_shape_[0] : is_linear_ ? w_shape_[0] : w_shape_[1], false);
    const Isa best = chosen_isa();
    for (const Isa isa : kIsas) {
      if (!supports(isa) || (isa < best && !chance(30))) continue;
      SCOPED_TRACE(to_string(isa));
      limit_isa(isa);
      has_pairs_ = kernels::pair_table() != nullptr;
      if (for_tiles_ && (isa != Isa::avx512_amx || !fits_tiles())) continue;
      conv_ = for_tiles_ ? "tiles" : "gemm";
      const std::vector<float> got = answer(1);
      EXPECT_EQ(test::bits(got), test::bits(answer(2 + static_cast<int>(below(3)))));
      if (is_conv)
        check_conv(got);
      else
        check_product(got);
    }
    limit_isa(best);
  }

 private:
  int64_t size(int64_t most) { return 1 + below(chance(60) ? std::min<int64_t>(most, 9) : most); }

  void choose_product() {
    is_linear_ = chance(60);
    const int64_t m = chance(4) ? 0 : size(70), n = chance(4) ? 0 : size(150),
                  k = chance(4)    ? 0
                      : chance(10) ? 500 + below(600)
                                   : size(90);
    x_shape_ = chance(30) ? Sizes{2, m, k} : Sizes{m, k};
    is_turned_ = !is_linear_ && chance(30) && x_shape_.rank() == 2;
    w_shape_ = is_linear_ ? Sizes{n, k} : Sizes{k, n};
    if (is_turned_) x_shape_ = {k, m};
  }
  void choose_conv() {
    groups_ = chance(30) ? 1 + below(3) : 1;
    int64_t c = groups_ * size(chance(20) ? 300 : 20);
    const int64_t o = groups_ * size(60);
    if (for_tiles_ && chance(40)) c = groups_ * 32 * (1 + below(3));
    is_linear_ = false;
    // With many channels, the kernel skips weights that see only zeros, and rounds only weights.
    const bool pads = for_tiles_ || c / groups_ < 32;
    for (int d = 0; d < 2; ++d) {
      kernel_[d] = chance(60) ? 1 : 1 + below(4);
      stride_[d] = chance(70) ? 1 : 1 + below(3);
      padding_[d] = pads && chance(40) ? below(3) : 0;
      dilation_[d] = chance(80) ? 1 : 1 + below(6);
      in_[d] = dilation_[d] * (kernel_[d] - 1) + 1 + below(chance(30) ? 25 : 8);
      out_[d] = (in_[d] + 2 * padding_[d] - dilation_[d] * (kernel_[d] - 1) - 1) / stride_[d] + 1;
    }
    x_shape_ = {chance(5) ? 0 : 1 + below(2), c, in_[0], in_[1]};
    w_shape_ = {o, c / groups_, kernel_[0], kernel_[1]};
  }
  void fill(std::vector<float>& data, int64_t count, bool may_break) {
    data.resize(static_cast<size_t>(count));
    const float scale = chance(10) ? 1e-37f : chance(10) ? 1e17f : 1;
    for (float& x : data) x = static_cast<float>(below(200001) - 100000) / 100000 * scale;
    if (dtype_ == bf16)
      for (float& x : data) x = static_cast<float>(BFloat16(x));
    if (may_break && count > 0 && chance(10))
      data[static_cast<size_t>(below(count))] = chance(50) ? NAN : HUGE_VALF;
  }

  TensorData data_of(const std::vector<float>& from, const Sizes& shape) const {
    TensorData data = must(TensorData::allocate(dtype_, shape));
    for (size_t i = 0; i < from.size(); ++i)
      if (dtype_ == bf16)
        data.tensor.as<BFloat16>()[i] = BFloat16(from[i]);
      else
        data.tensor.as<float>()[i] = from[i];
    return data;
  }
  std::vector<float> answer(int threads) {
    Graph g;
    Value x = g.input("x", dtype_, to_shape(x_shape_));
    const Value w = is_constant_ ? g.buffer("w", data_of(w_, w_shape_))
                                 : g.input("w", dtype_, to_shape(w_shape_)),
                bias = g.buffer("bias", data_of(bias_, {static_cast<int64_t>(bias_.size())}));
    if (is_turned_) x = permute(x, {1, 0});
    const auto list = [](const int64_t* of) { return std::vector<Dim>{of[0], of[1]}; };
    if (w_shape_.rank() == 4)
      g.output("y", g.call("conv", {x, w, bias},
                           {{"stride", list(stride_)},
                            {"padding", list(padding_)},
                            {"dilation", list(dilation_)},
                            {"groups", groups_}}));
    else
      g.output("y", cast(is_linear_ ? linear(x, w, bias) : matmul(x, w) + bias, f32));
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    const std::string kernel = dtype_ == bf16 ? "gemm_half" : "gemm";
    Session session = must(
        Session::create(must(Model::from_graph(std::move(g))),
                        {.threads = threads,
                         .precision = dtype_ == bf16 ? Precision::f32 : Precision::bf16,
                         .disabled_passes = {"*"},
                         .kernels = {"conv=" + conv_, "linear=" + kernel, "matmul=" + kernel}}));
    const TensorData input = data_of(x_, x_shape_), weight = data_of(w_, w_shape_);
    EXPECT_TRUE(session.set_input(0, input.tensor).ok());
    if (!is_constant_) {
      EXPECT_TRUE(session.set_input(1, weight.tensor).ok());
    }
    must(session.run());
    const Tensor y = must(session.output(0));
    return {y.as<float>(), y.as<float>() + y.count()};
  }

  // Whether the kernel for tiles accepts the convolution.
  bool fits_tiles() const {
    const int64_t group_c = w_shape_[1];
    return x_shape_.count() > 0 && group_c > 1 && group_c * kernel_[0] * kernel_[1] >= 16 &&
           out_[0] * out_[1] >= 8;
  }

  // Without instructions for bf16, only weights are rounded.
  void add(Sum& sum, float x, float w) const {
    if (has_pairs_)
      sum.add_rounded(x, w);
    else
      sum.add(x, rounded(w));
  }
  void expect(float got, const Sum& sum, float bias) const {
    const double want = sum.value + bias;
    if (!std::isfinite(want)) {
      ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == static_cast<float>(want)) << got;
      return;
    }
    const auto terms = static_cast<double>(sum.terms + 2);
    const double rounding =
        dtype_ == bf16 ? 0x1p-8 * (std::abs(sum.value) + std::abs(want)) * 1.01 : 0;
    ASSERT_NEAR(
        got, want,
        terms * (0x1p-24 * (sum.size + std::abs(bias)) + 0x1p-125) + rounding + 1.01 * sum.small);
  }

  void check_product(const std::vector<float>& got) {
    const auto n = static_cast<int64_t>(bias_.size());
    const int64_t k = is_linear_ ? w_shape_[1] : w_shape_[0],
                  m = got.size() / std::max<int64_t>(1, n);
    ASSERT_EQ(static_cast<int64_t>(got.size()) * k, x_shape_.count() * n);
    for (int64_t i = 0; i < m * n; ++i) {
      Sum sum;
      for (int64_t p = 0; p < k; ++p) {
        const int64_t row = i / n, column = i % n;
        add(sum, x_[static_cast<size_t>(is_turned_ ? p * m + row : row * k + p)],
            w_[static_cast<size_t>(is_linear_ ? column * k + p : p * n + column)]);
      }
      expect(got[static_cast<size_t>(i)], sum, bias_[static_cast<size_t>(i % n)]);
    }
  }
  void check_conv(const std::vector<float>& got) {
    const int64_t c = x_shape_[1], o = w_shape_[0], group_c = w_shape_[1];
    const int64_t pixels = out_[0] * out_[1];
    ASSERT_EQ(static_cast<int64_t>(got.size()), x_shape_[0] * o * pixels);
    for (int64_t at = 0; at < static_cast<int64_t>(got.size()); ++at) {
      const int64_t row = at / out_[1] % out_[0], column = at % out_[1], j = at / pixels % o;
      const int64_t first = at / pixels / o * c + j / (o / groups_) * group_c;
      Sum sum;
      for (int64_t i = 0; i < group_c * kernel_[0] * kernel_[1]; ++i) {
        const int64_t a = i / kernel_[1] % kernel_[0], b = i % kernel_[1];
        const int64_t y = row * stride_[0] + a * dilation_[0] - padding_[0],
                      x = column * stride_[1] + b * dilation_[1] - padding_[1],
                      channel = first + i / (kernel_[0] * kernel_[1]);
        const bool inside = y >= 0 && y < in_[0] && x >= 0 && x < in_[1];
        add(sum, inside ? x_[static_cast<size_t>((channel * in_[0] + y) * in_[1] + x)] : 0,
            w_[static_cast<size_t>(j * group_c * kernel_[0] * kernel_[1] + i)]);
      }
      expect(got[static_cast<size_t>(at)], sum, bias_[static_cast<size_t>(j)]);
    }
  }

  Sizes x_shape_, w_shape_;
  DType dtype_ = f32;       // bf16: of all values
  bool for_tiles_ = false;  // the convolution's kernel, which rounds all of x
  std::string conv_ = "gemm";
  bool is_constant_ = true;  // w
  bool is_linear_ = false, is_turned_ = false, has_pairs_ = false;
  int64_t groups_ = 1, kernel_[2], stride_[2], padding_[2], dilation_[2], in_[2], out_[2];
  std::vector<float> x_, w_, bias_;
};

// Attention with Precision::bf16. In tiles, queries, keys and values are rounded, and the weights
// too, each by at most 2^-8 of itself.
class Bf16Attention : test::Chance {
 public:
  explicit Bf16Attention(uint64_t seed) : Chance(seed) {}

  void run() {
    heads_ = 1 + below(3);
    times_ = 1 + below(chance(30) ? 260 : 20);
    is_causal_ = chance(30);
    keys_ = is_causal_ ? times_ : 1 + below(chance(30) ? 300 : 40);
    dim_ = 1 + below(chance(50) ? 80 : 20);
    value_dim_ = chance(50) ? dim_ : 1 + below(80);
    for (auto [to, rows, columns] :
         {std::tuple{&q_, times_, dim_}, {&k_, keys_, dim_}, {&v_, keys_, value_dim_}}) {
      to->resize(static_cast<size_t>(heads_ * rows * columns));
      for (float& x : *to) x = static_cast<float>(below(4001) - 2000) / 1000;
    }
    const Isa best = chosen_isa();
    for (const Isa isa : kIsas) {
      if (!supports(isa) || (isa < best && !chance(20))) continue;
      SCOPED_TRACE(to_string(isa));
      limit_isa(isa);
      const std::vector<float> got = answer(1);
      EXPECT_EQ(test::bits(got), test::bits(answer(2 + static_cast<int>(below(3)))));
      check(got, kernels::tile_pair_table() != nullptr);
    }
    limit_isa(best);
  }

 private:
  static TensorData data_of(const std::vector<float>& from, const Sizes& shape) {
    TensorData data = must(TensorData::allocate(f32, shape));
    std::copy(from.begin(), from.end(), data.tensor.as<float>());
    return data;
  }
  std::vector<float> answer(int threads) {
    Graph g;
    const Value q = g.input("q", f32, {heads_, times_, dim_}),
                k = g.input("k", f32, {heads_, keys_, dim_}),
                v = g.input("v", f32, {heads_, keys_, value_dim_});
    g.output("y", attention(q, k, v, {}, is_causal_));
    Session session = must(
        Session::create(must(Model::from_graph(std::move(g))), {.threads = threads,
                                                                .precision = Precision::bf16,
                                                                .disabled_passes = {"*"},
                                                                .kernels = {"attention=blocks"}}));
    const TensorData inputs[] = {data_of(q_, {heads_, times_, dim_}),
                                 data_of(k_, {heads_, keys_, dim_}),
                                 data_of(v_, {heads_, keys_, value_dim_})};
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(session.set_input(i, inputs[i].tensor).ok());
    must(session.run());
    const Tensor y = must(session.output(0));
    return {y.as<float>(), y.as<float>() + y.count()};
  }
  void check(const std::vector<float>& got, bool has_tiles) const {
    const auto number = [&](float x) { return has_tiles ? rounded(x) : double{x}; };
    std::vector<double> weight(static_cast<size_t>(keys_));
    for (int64_t row = 0; row < heads_ * times_; ++row) {
      const int64_t head = row / times_;
      const int64_t seen = is_causal_ ? row % times_ + 1 : keys_;
      double total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        double score = 0;
        for (int64_t e = 0; e < dim_; ++e)
          score += number(q_[static_cast<size_t>(row * dim_ + e)]) *
                   number(k_[static_cast<size_t>((head * keys_ + j) * dim_ + e)]);
        total += weight[static_cast<size_t>(j)] =
            std::exp(score / std::sqrt(static_cast<double>(dim_)));
      }
      for (int64_t e = 0; e < value_dim_; ++e) {
        double sum = 0, size = 0;
        for (int64_t j = 0; j < seen; ++j) {
          const double x = weight[static_cast<size_t>(j)] / total *
                           number(v_[static_cast<size_t>((head * keys_ + j) * value_dim_ + e)]);
          sum += x;
          size += std::abs(x);
        }
        ASSERT_NEAR(got[static_cast<size_t>(row * value_dim_ + e)], sum,
                    (has_tiles ? 0x1p-8 : 0) * size + 1e-5 * (1 + size));
      }
    }
  }

  int64_t heads_ = 1, times_ = 1, keys_ = 1, dim_ = 1, value_dim_ = 1;
  bool is_causal_ = false;
  std::vector<float> q_, k_, v_;
};

TEST(Bf16Products, OfAttentionAreThoseOfTheRoundedOperands) {
  test::emulate_instructions();
  test::for_cases(150, [](uint64_t i) { Bf16Attention(i).run(); });
}

TEST(Bf16Products, AreThoseOfTheRoundedOperands) {
  test::emulate_instructions();
  test::for_cases(1500, [](uint64_t i) { Bf16Product(i).run(); });
}

}  // namespace
}  // namespace hg
