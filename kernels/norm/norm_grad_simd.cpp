// SPDX-License-Identifier: Apache-2.0
// Rows of the gradients of norms in f32, for each instruction set.
#include "kernels/norm/norm_grad_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_grad_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/norm/sums-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

void grad_sums(const float* x, const float* dy, const float* weight, int64_t count, float mean,
               double& sum, double& product) {
  const D d;
  const V m = hn::Set(d, mean);
  int64_t i = long_sums(count, sum, product, [&](int64_t at, V& a, V& b) HWY_ATTR {
    V g = hn::LoadU(d, dy + at);
    if (weight) g = hn::Mul(g, hn::LoadU(d, weight + at));
    a = hn::Add(a, g);
    b = hn::MulAdd(g, hn::Sub(hn::LoadU(d, x + at), m), b);
  });
  for (; i < count; ++i) {
    const auto g = static_cast<double>(weight ? dy[i] * weight[i] : dy[i]);
    sum += g;
    product += g * (static_cast<double>(x[i]) - static_cast<double>(mean));
  }
}

void grad_line(const float* x, const float* dy, const float* weight, float* dx, int64_t count,
               float mean, float g_mean, float a, float b) {
  const D d;
  const int64_t n = lanes();
  const V m = hn::Set(d, mean), gm = hn::Set(d, g_mean), va = hn::Set(d, a), vb = hn::Set(d, b);
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    V g = hn::LoadU(d, dy + i);
    if (weight) g = hn::Mul(g, hn::LoadU(d, weight + i));
    const V v = hn::Sub(hn::LoadU(d, x + i), m);
    hn::StoreU(hn::Mul(hn::MulAdd(v, vb, hn::Sub(g, gm)), va), d, dx + i);
  }
  for (; i < count; ++i) {
    const float g = weight ? dy[i] * weight[i] : dy[i];
    dx[i] = ((g - g_mean) + (x[i] - mean) * b) * a;
  }
}

void grad_affine(const float* x, const float* dy, int64_t count, float mean, float scale,
                 float* dweight, float* dbias) {
  const D d;
  const int64_t n = lanes();
  const V m = hn::Set(d, mean), s = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    const V g = hn::LoadU(d, dy + i);
    const V z = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), s);
    hn::StoreU(hn::MulAdd(g, z, hn::LoadU(d, dweight + i)), d, dweight + i);
    hn::StoreU(hn::Add(g, hn::LoadU(d, dbias + i)), d, dbias + i);
  }
  for (; i < count; ++i) {
    dweight[i] += dy[i] * ((x[i] - mean) * scale);
    dbias[i] += dy[i];
  }
}

}  // namespace

constexpr NormGradTable kTable = {grad_sums, grad_line, grad_affine};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const NormGradTable& norm_grad_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
