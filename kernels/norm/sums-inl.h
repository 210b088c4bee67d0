// SPDX-License-Identifier: Apache-2.0
// Sums over rows of floats. Included once for every instruction set, as kernels/simd/simd.h
// describes.
#if defined(HG_KERNELS_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_SUMS_INL_H_
#undef HG_KERNELS_SUMS_INL_H_
#else
#define HG_KERNELS_SUMS_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/simd/doubles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

// The sum of f(x[i]): two running vectors, then the remaining elements one by one.
template <class Many, class One>
HWY_INLINE float sum_of(const float* x, int64_t count, const Many& many, const One& one) {
  const D d;
  const int64_t n = lanes();
  V a = hn::Zero(d), b = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * n <= count; i += 2 * n) {
    a = many(hn::LoadU(d, x + i), a);
    b = many(hn::LoadU(d, x + i + n), b);
  }
  if (i + n <= count) {
    a = many(hn::LoadU(d, x + i), a);
    i += n;
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < count; ++i) sum += one(x[i]);
  return sum;
}

// Adds the lanes to a sum in double.
HWY_INLINE void add_lanes(V v, Doubles& sum) {
  HWY_ALIGN float terms[hn::MaxLanes(D())];
  hn::Store(v, D(), terms);
  for (int64_t i = 0; i < lanes(); i += kDoubles) sum = add(sum, widen(terms + i));
}
constexpr int64_t kTerms = 8;  // terms per lane that are added up in float

// The sums that terms(i, a, b) adds to a and b for the vectors at i. Returns the number of elements
// that were processed.
template <class Terms>
HWY_INLINE int64_t long_sums(int64_t count, double& first, double& second, const Terms& terms) {
  const D d;
  const int64_t n = lanes(), all = count / n * n;
  Doubles as = no_doubles(), bs = no_doubles();
  for (int64_t i = 0; i < all;) {
    V a = hn::Zero(d), b = hn::Zero(d);
    const int64_t end = i + kTerms * n < all ? i + kTerms * n : all;
    for (; i < end; i += n) terms(i, a, b);
    add_lanes(a, as);
    add_lanes(b, bs);
  }
  first = sum_of_lanes(as);
  second = sum_of_lanes(bs);
  return all;
}

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
