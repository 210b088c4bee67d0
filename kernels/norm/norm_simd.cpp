// SPDX-License-Identifier: Apache-2.0
// Rows of the norms in f32, for each instruction set.
#include "kernels/norm/norm_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/norm/sums-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

void moments(const float* x, int64_t count, float& mean, float& var) {
  mean = sum_of(
             x, count, [](V v, V s) HWY_ATTR { return hn::Add(s, v); },
             [](float v) HWY_ATTR { return v; }) /
         static_cast<float>(count);
  const float m = mean;
  const V centre = hn::Set(D(), m);
  var = sum_of(
            x, count,
            [&](V v, V s) HWY_ATTR {
              const V c = hn::Sub(v, centre);
              return hn::MulAdd(c, c, s);
            },
            [&](float v) HWY_ATTR { return (v - m) * (v - m); }) /
        static_cast<float>(count);
}

float mean_square(const float* x, int64_t count) {
  return sum_of(
             x, count, [](V v, V s) HWY_ATTR { return hn::MulAdd(v, v, s); },
             [](float v) HWY_ATTR { return v * v; }) /
         static_cast<float>(count);
}

// y = (x - mean) scale weight + bias; weight and bias per element, or null
void affine_row(const float* x, float* y, int64_t count, float mean, float scale,
                const float* weight, const float* bias) {
  const D d;
  const int64_t n = lanes();
  const V m = hn::Set(d, mean), s = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    V v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), s);
    if (weight) v = hn::Mul(v, hn::LoadU(d, weight + i));
    if (bias) v = hn::Add(v, hn::LoadU(d, bias + i));
    hn::StoreU(v, d, y + i);
  }
  for (; i < count; ++i) {
    float v = (x[i] - mean) * scale;
    if (weight) v *= weight[i];
    if (bias) v += bias[i];
    y[i] = v;
  }
}

// y = (x - mean) scale + shift
void affine_line(const float* x, float* y, int64_t count, float mean, float scale, float shift) {
  const D d;
  const int64_t n = lanes();
  const V m = hn::Set(d, mean), s = hn::Set(d, scale), b = hn::Set(d, shift);
  int64_t i = 0;
  for (; i + n <= count; i += n)
    hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(d, x + i), m), s, b), d, y + i);
  for (; i < count; ++i) y[i] = (x[i] - mean) * scale + shift;
}

void deviations(const float* x, int64_t count, float shift, double& sum, double& square) {
  const D d;
  const V m = hn::Set(d, shift);
  int64_t i = long_sums(count, sum, square, [&](int64_t at, V& a, V& b) HWY_ATTR {
    const V v = hn::Sub(hn::LoadU(d, x + at), m);
    a = hn::Add(a, v);
    b = hn::MulAdd(v, v, b);
  });
  for (; i < count; ++i) {
    const double v = static_cast<double>(x[i]) - static_cast<double>(shift);
    sum += v;
    square += v * v;
  }
}

}  // namespace

constexpr NormTable kTable = {moments, mean_square, affine_row, affine_line, deviations};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const NormTable& norm_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
