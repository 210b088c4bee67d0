// SPDX-License-Identifier: Apache-2.0
// Products by constant weights, which are packed in bytes where these hold them, beside the same
// weights as an input, which nothing packs: the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "hg/hg.h"
#include "kernels/gemm/gemv_simd.h"
#include "lib/platform/instruction_set.h"
#include "tests/must.h"
#include "tests/random_case.h"

namespace hg::test {
namespace {

constexpr int64_t kMostInCache = 98304;  // elements, of weights that stay as they are

class Case : private Chance {
 public:
  using Chance::Chance;
  void run();

 private:
  float activation() {
    if (chance(1)) return std::numeric_limits<float>::infinity();
    return static_cast<float>(below(2000001) - 1000000) * (chance(20) ? 0x1p-40f : 0x1p-20f);
  }
  TensorData filled(const Sizes& shape) {
    TensorData data = *TensorData::allocate(f32, shape);
    for (int64_t i = 0; i < shape.count(); ++i) data.tensor.as<float>()[i] = activation();
    return data;
  }
  // Sets `fits_`: whether a byte each holds them.
  TensorData weights(const Sizes& shape);
  // What the product is with the weight as a constant, or as an input; the bytes that were packed.
  std::vector<float> product(bool constant, int64_t& packed);

  bool fits_ = true, transposed_ = false, has_bias_ = false;
  int threads_ = 1;
  TensorData x_, w_, bias_;
};

TensorData Case::weights(const Sizes& shape) {
  TensorData data = *TensorData::allocate(f32, shape);
  float* const w = data.tensor.as<float>();
  const int64_t count = shape.count(), span = 1 + below(chance(50) ? 256 : 8);
  const int64_t least = chance(70) ? -below(256) : (below(2) * 2 - 1) * below((1 << 20) - 300);
  for (int64_t i = 0; i < count; ++i) w[i] = static_cast<float>(least + below(span));
  float& one = w[below(count)];
  if (chance(10)) {
    fits_ = false;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    switch (below(5)) {
      case 0:
        one += 0.5f;
        break;
      case 1:
        one = static_cast<float>(least + 256);
        w[(&one == w) ? 1 : 0] = static_cast<float>(least);
        break;
      case 2:
        one = -0.0f;
        break;
      case 3:
        one = kInfinity;
        break;
      default:
        one = std::numeric_limits<float>::quiet_NaN();
    }
  }
  fits_ = fits_ && count > kMostInCache;
  return data;
}

std::vector<float> Case::product(bool constant, int64_t& packed) {
  Graph g;
  const auto input = [&](const char* name, const Tensor& t) {
    return g.input(name, t.dtype, {t.shape.begin(), t.shape.end()});
  };
  Value w = constant ? g.constant(w_, "w") : input("w", w_.tensor);
  if (transposed_) w = permute(w, {1, 0});
  Value y = matmul(input("x", x_.tensor), w);
  if (has_bias_) y = relu(y + g.constant(bias_));
  g.output("y", y);
  Session session =
      must(Session::create(must(Model::from_graph(std::move(g))), {.threads = threads_}));
  EXPECT_TRUE(session.set_input("x", x_.tensor).ok());
  if (!constant) {
    EXPECT_TRUE(session.set_input("w", w_.tensor).ok());
  }
  EXPECT_TRUE(session.run().ok());
  packed = must(session.memory()).packed_bytes;
  const Tensor result = must(session.output("y"));
  return {result.as<float>(), result.as<float>() + result.count()};
}

void Case::run() {
  const int64_t m = 1 + below(chance(60) ? 5 : 90), k = 1 + below(chance(20) ? 40 : 900),
                n = 1 + below(chance(30) ? 3000 : 400);
  transposed_ = chance(50);
  has_bias_ = chance(40);
  threads_ = static_cast<int>(1 + below(3));
  x_ = filled({m, k});
  w_ = weights(transposed_ ? Sizes{n, k} : Sizes{k, n});
  bias_ = filled({n});
  limit_isa(static_cast<Isa>(below(4)));
  const bool has_bytes = kernels::gemv_table().dots_bytes != nullptr;
  int64_t packed = 0, none = 0;
  const std::vector<float> y = product(true, packed), expected = product(false, none);
  limit_isa(Isa::avx512);
  EXPECT_EQ(none, 0);
  if (m <= 64 && fits_ && has_bytes) {
    EXPECT_LT(packed, 2 * n * k);
  } else if (packed > 0) {
    EXPECT_GE(packed, 4 * n * k);
  }
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_TRUE(std::memcmp(&y[i], &expected[i], sizeof(float)) == 0 ||
                (std::isnan(y[i]) && std::isnan(expected[i])))
        << y[i] << " for " << expected[i] << " at " << i << " of [" << m << ", " << n << "], depth "
        << k;
}

TEST(WeightBytes, ProductsAreTheSameBits) {
  for_cases(300, [](uint64_t i) { Case(i + 8000).run(); });
}

}  // namespace
}  // namespace hg::test
