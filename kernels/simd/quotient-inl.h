// SPDX-License-Identifier: Apache-2.0
// Quotients and square roots, rounded once on every processor. Included once for every instruction
// set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_QUOTIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_QUOTIENT_INL_H_
#undef HG_KERNELS_QUOTIENT_INL_H_
#else
#define HG_KERNELS_QUOTIENT_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// 32-bit NEON has neither. Highway multiplies by an approximate reciprocal, which is 0 from 2^126
// on, and its square root of infinity is NaN. The scalar floating-point unit has both.
template <class V>
HWY_INLINE V quotient_of(V a, V b) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_ARM_V7
  const hn::DFromV<V> d;
  HWY_ALIGN hn::TFromD<decltype(d)> x[hn::MaxLanes(d)], y[hn::MaxLanes(d)];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  for (size_t i = 0; i < hn::Lanes(d); ++i) x[i] /= y[i];
  return hn::Load(d, x);
#else
  return hn::Div(a, b);
#endif
}

template <class V>
HWY_INLINE V root_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_ARM_V7
  const hn::DFromV<V> d;
  HWY_ALIGN hn::TFromD<decltype(d)> y[hn::MaxLanes(d)];
  hn::Store(x, d, y);
  for (size_t i = 0; i < hn::Lanes(d); ++i) y[i] = std::sqrt(y[i]);
  return hn::Load(d, y);
#else
  return hn::Sqrt(x);
#endif
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
