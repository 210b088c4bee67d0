// SPDX-License-Identifier: Apache-2.0
// Bytes from lanes of 32 bits. Included once for every instruction set, as kernels/simd/simd.h
// describes.
#if defined(HG_KERNELS_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_BYTES_INL_H_
#undef HG_KERNELS_BYTES_INL_H_
#else
#define HG_KERNELS_BYTES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// Stores the low bytes of the first `count` lanes, or of all if there are fewer.
template <class V32>
HWY_INLINE void store_low_bytes(V32 lanes, int64_t count, uint8_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  using D32 = hn::DFromV<V32>;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D32()));
  const hn::Rebind<uint8_t, D32> bytes;
#if HWY_TARGET == HWY_AVX3
  const hn::Vec<decltype(bytes)> low{_mm512_cvtepi32_epi8(lanes.raw)};
#else
  const hn::RebindToUnsigned<D32> du;
  const auto low = hn::U8FromU32(hn::And(hn::BitCast(du, lanes), hn::Set(du, 255)));
#endif
  if (count >= kLanes) return hn::StoreU(low, bytes, to);
#if HWY_TARGET == HWY_AVX3
  hn::BlendedStore(low, hn::FirstN(bytes, static_cast<size_t>(count)), bytes, to);
#else
  HWY_ALIGN uint8_t part[kLanes];
  hn::StoreU(low, bytes, part);
#pragma GCC unroll 1
  for (int64_t i = 0; i < count; ++i) to[i] = part[i];
#endif
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
