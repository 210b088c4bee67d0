// SPDX-License-Identifier: Apache-2.0
// Vectors of i32 sums, and the same as bytes. Included once for every instruction set, as
// kernels/simd/simd.h describes.
#if defined(HG_KERNELS_INTEGER_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_INTEGER_BYTES_INL_H_
#undef HG_KERNELS_INTEGER_BYTES_INL_H_
#else
#define HG_KERNELS_INTEGER_BYTES_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"
#include "kernels/integer/integer_simd.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<D32>;
using DF = hn::RebindToFloat<D32>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D32()));
// Rows and columns of sums in registers.
constexpr int kMr = HWY_TARGET == HWY_AVX3 ? 8 : 6;
constexpr int kNr = 2 * kLanes;

// The results as bytes, u8 or the bits of i8. Rounds, ties to even, by adding a number so large
// that the float has no fraction bits left.
struct AsBytes {
  hn::Vec<DF> low, high;
  V32 zero;
  HWY_INLINE explicit AsBytes(const IntegerFinish& f) {
    const float lowest = f.to == DType::i8 ? -128 : 0;
    low = hn::Set(DF(), lowest - f.zero);
    high = hn::Set(DF(), lowest + 255 - f.zero);
    zero = hn::Set(D32(), static_cast<int32_t>(f.zero));
#if HWY_TARGET == HWY_AVX2
    from_lowest = _mm256_set1_epi16(static_cast<int16_t>(f.zero - lowest));
    flip = _mm_set1_epi8(f.to == DType::i8 ? -128 : 0);
#endif
  }
#if HWY_TARGET == HWY_AVX2
  // Stores two vectors of results. Conversion turns what is too small, and NaN, into the smallest
  // integer, and packing saturates.
  HWY_INLINE void store(hn::Vec<DF> x, hn::Vec<DF> y, uint8_t* to) const {
    store_packed(_mm256_packs_epi32(whole(x), whole(y)), _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5),
                 to);
  }
  // The results of x and y alternate.
  HWY_INLINE void store_interleaved(hn::Vec<DF> x, hn::Vec<DF> y, uint8_t* to) const {
    const __m256i a = whole(x), b = whole(y);
    store_packed(_mm256_packs_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
                 _mm256_setr_epi32(0, 1, 4, 5, 0, 1, 4, 5), to);
  }
  HWY_INLINE __m256i whole(hn::Vec<DF> v) const {
    return _mm256_cvtps_epi32(_mm256_min_ps(high.raw, v.raw));
  }
  // order: of the results in fours.
  HWY_INLINE void store_packed(__m256i half, __m256i order, uint8_t* to) const {
    half = _mm256_add_epi16(half, from_lowest);
    const __m256i bytes = _mm256_packus_epi16(half, half);
    const __m128i ordered = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_xor_si128(ordered, flip));
  }
  __m256i from_lowest;
  __m128i flip;
#endif
  // In the low byte of each lane.
  HWY_INLINE V32 in_lanes(hn::Vec<DF> x) const {
    constexpr float kLarge = 12582912;  // 1.5 * 2^23
    x = hn::Add(hn::Min(hn::Max(x, low), high), hn::Set(DF(), kLarge));
    return hn::Add(hn::BitCast(D32(), x), zero);
  }
};

// The first `valid` numbers of some columns, each of 32 bits.
HWY_INLINE V32 columns_at(const void* from, int valid) {
  if (valid == kLanes) return hn::LoadU(D32(), static_cast<const int32_t*>(from));
  HWY_ALIGN int32_t part[kLanes] = {};
  std::memcpy(part, from, static_cast<size_t>(valid) * 4);
  return hn::Load(D32(), part);
}

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
