// SPDX-License-Identifier: Apache-2.0
// What blocks of f32 vectors share. Included once for every instruction set, as kernels/simd/simd.h
// describes.
#if defined(HG_KERNELS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_VECTORS_INL_H_
#undef HG_KERNELS_VECTORS_INL_H_
#else
#define HG_KERNELS_VECTORS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

using DI = hn::RebindToSigned<D>;

// An attribute of the op in all lanes.
HWY_INLINE V spread(double value) { return hn::Set(D(), static_cast<float>(value)); }

// Calls f(first element, count) for all vectors of n elements.
template <class F>
HWY_INLINE void for_vectors(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, kLanes);
  if (i < n) f(i, static_cast<int>(n - i));
}

// At most kLanes bytes of type T as floats.
template <class T>
HWY_INLINE V floats_of(const T* from, int count) {
  const hn::Rebind<T, D> bytes;
  T part[kLanes] = {};
  if (count < kLanes) {
    std::memcpy(part, from, static_cast<size_t>(count));
    from = part;
  }
  return hn::ConvertTo(D(), hn::PromoteTo(DI(), hn::LoadU(bytes, from)));
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
