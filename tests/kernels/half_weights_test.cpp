// SPDX-License-Identifier: Apache-2.0
// Products and embeddings of f32 that read constant matrices of f16 and bf16, as the pass
// half_weights forms them, equal f64 sums, for every instruction set and number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/compiled.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

enum class Form { linear, matmul, turned, turned_first, tied, grouped };

class HalfWeight : test::Chance {
 public:
  explicit HalfWeight(uint64_t seed) : Chance(seed) {}

  void run() {
    constexpr int64_t kRows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 40, 63, 65, 130};
    form_ = static_cast<Form>(below(6));
    dtype_ = chance(50) ? f16 : bf16;
    m_ = kRows[below(14)];
    n_ = 1 + below(chance(70) ? 40 : 300);
    k_ = 1 + below(chance(70) ? 80 : 700);
    has_bias_ = chance(50);
    w_ = must(TensorData::allocate(dtype_, form_ == Form::matmul    ? Sizes{k_, n_}
                                           : form_ == Form::grouped ? Sizes{kGroups, n_, k_}
                                                                    : Sizes{n_, k_}));
    for (int64_t i = 0; i < w_.tensor.count(); ++i) {
      const float x = static_cast<float>(below(20001) - 10000) / 10000;
      if (dtype_ == f16)
        w_.tensor.as<Half>()[i] = Half(x);
      else
        w_.tensor.as<BFloat16>()[i] = BFloat16(x);
    }
    x_.resize(static_cast<size_t>(m_ * k_));
    for (float& x : x_) x = static_cast<float>(below(200001) - 100000) / 100000;
    bias_ = must(TensorData::allocate(f32, {n_}));
    for (int64_t i = 0; i < n_; ++i) bias_.tensor.as<float>()[i] = static_cast<float>(below(9) - 4);
    const Model model = must(Model::from_graph(graph()));
    const Isa best = chosen_isa();
    for (const Isa isa : kIsas) {
      if (!supports(isa) || (isa < best && !chance(30))) continue;
      SCOPED_TRACE(str_cat(to_string(isa), ", ", dtype_, ", form ", static_cast<int>(form_), ", ",
                           m_, " x ", k_, " x ", n_));
      limit_isa(isa);
      for (const Precision precision : {Precision::f32, Precision::bf16}) {
        const std::vector<float> got = answer(model, 1, precision);
        EXPECT_EQ(test::bits(got), test::bits(answer(model, 2, precision)));
        check(got);
      }
    }
    limit_isa(best);
  }

 private:
  Graph graph() const {
    Graph g;
    const Value half = g.parameter("w", w_), wide = cast(half, f32);
    Value x;
    if (form_ == Form::tied)
      x = g.call("embedding", {wide, g.input("ids", i64, {m_})});
    else
      x = g.input("x", f32, {m_, k_});
    Value y = form_ == Form::grouped        ? grouped_mm(x, permute(wide, {0, 2, 1}), ends(g))
              : form_ == Form::matmul       ? matmul(x, wide)
              : form_ == Form::turned       ? matmul(x, permute(wide, {1, 0}))
              : form_ == Form::turned_first ? matmul(x, cast(permute(half, {1, 0}), f32))
                                            : linear(x, wide);
    if (has_bias_) y = relu(y + g.parameter("bias", bias_));
    g.output("y", y);
    return g;
  }
  // Half of the rows belong to the first of two groups.
  Value ends(Graph& g) const {
    TensorData data = must(TensorData::allocate(i64, {kGroups}));
    data.tensor.as<int64_t>()[0] = m_ / 2;
    data.tensor.as<int64_t>()[1] = m_;
    return g.constant(std::move(data), "ends");
  }
  // low_memory: matrices of any size stay as they are.
  std::vector<float> answer(const Model& model, int threads, Precision precision) {
    Session session = must(
        Session::create(model, {.threads = threads, .low_memory = true, .precision = precision}));
    std::vector<int64_t> ids(static_cast<size_t>(m_));
    for (int64_t i = 0; i < m_; ++i) ids[static_cast<size_t>(i)] = id_of(i);
    must(session.set_input(
        0, form_ == Form::tied ? view(ids.data(), i64, {m_}) : view(x_.data(), f32, {m_, k_})));
    must(session.run());
    const Tensor y = must(session.output(0));
    return {y.as<float>(), y.as<float>() + y.count()};
  }
  int64_t id_of(int64_t row) const { return row * 7 % n_; }
  double weight(int64_t column, int64_t p, int64_t group = 0) const {
    const int64_t at = form_ == Form::matmul ? p * n_ + column : (group * n_ + column) * k_ + p;
    return dtype_ == f16 ? static_cast<float>(w_.tensor.as<Half>()[at])
                         : static_cast<float>(w_.tensor.as<BFloat16>()[at]);
  }
  void check(const std::vector<float>& got) const {
    ASSERT_EQ(static_cast<int64_t>(got.size()), m_ * n_);
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t j = 0; j < n_; ++j) {
        double sum = has_bias_ ? bias_.tensor.as<float>()[j] : 0, size = std::abs(sum);
        for (int64_t p = 0; p < k_; ++p) {
          const int64_t group = form_ == Form::grouped && i >= m_ / 2 ? 1 : 0;
          const double term =
              weight(j, p, group) *
              (form_ == Form::tied ? weight(id_of(i), p) : x_[static_cast<size_t>(i * k_ + p)]);
          sum += term;
          size += std::abs(term);
        }
        if (has_bias_) sum = std::fmax(sum, 0);
        ASSERT_NEAR(got[static_cast<size_t>(i * n_ + j)], sum,
                    0x1p-24 * size * static_cast<double>(k_ + 2))
            << i << ", " << j;
      }
  }

  static constexpr int64_t kGroups = 2;
  Form form_ = Form::linear;
  DType dtype_ = f16;
  int64_t m_ = 0, n_ = 0, k_ = 0;
  bool has_bias_ = false;
  TensorData w_, bias_;
  std::vector<float> x_;
};

TEST(HalfWeights, ProductsAreThoseOfF64) {
  test::for_cases(150, [](uint64_t i) { HalfWeight(i).run(); });
}

std::string compiled_product(DType stored, DType computed, int64_t width, bool is_read_twice) {
  Graph g;
  const Value x = g.input("x", computed, {3, width});
  const Value w = cast(g.parameter("w", stored, {width, width}, init::uniform(-1, 1, 1)), computed);
  g.output("y", linear(x, w) + g.parameter("b", computed, {width}, init::uniform(-1, 1, 2)));
  if (is_read_twice) g.output("w", w);
  return compiled(std::move(g));
}

TEST(HalfWeights, AreReadByProductsOfF32) {
  for (const DType stored : {f16, bf16}) {
    const std::string text = compiled_product(stored, f32, 768, false);
    EXPECT_NE(text.find("mixed_linear(x, w, b, none)"), std::string::npos) << text;
    EXPECT_EQ(text.find("cast("), std::string::npos) << text;
  }
  EXPECT_NE(compiled_product(f16, f32, 768, true).find("mixed_linear("), std::string::npos);
  // Small ones are widened once.
  EXPECT_EQ(compiled_product(f16, f32, 64, false).find("mixed_linear("), std::string::npos);
  for (const DType computed : {f64, bf16})
    EXPECT_EQ(compiled_product(f16, computed, 768, false).find("mixed_linear("), std::string::npos);
}

}  // namespace
}  // namespace hg
