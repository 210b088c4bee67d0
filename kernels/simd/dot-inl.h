// SPDX-License-Identifier: Apache-2.0
// Sums of products of four neighboring bytes in each lane of 32 bits. kVnni: in one instruction
// (Intel's Software Developer's Manual, VPDPBUSD), for the tables of HG_SIMD_VNNI. It is written in
// assembly, so that one copy of a loop can be compiled with it and another without; Highway 1.0.3
// has no such function. Included once for every instruction set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_DOT_INL_H_
#undef HG_KERNELS_DOT_INL_H_
#else
#define HG_KERNELS_DOT_INL_H_
#endif

#include "hwy/highway.h"

// Defined where the processor multiplies unsigned by signed bytes, in vectors of at least 256 bits.
#undef HG_HAS_QUADS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define HG_HAS_QUADS 1
#endif

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SSE4 || defined(HG_HAS_QUADS)

// Adds to each lane of `sum` the products of its four bytes of x (unsigned) and w (signed). Without
// VNNI, the sums of two neighboring products must fit 16 bits.
template <bool kVnni, class V32>
HWY_INLINE V32 add_quads(V32 sum, V32 x, V32 w) {
  if constexpr (kVnni) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
    return sum;
  } else if constexpr (sizeof(V32) == 16) {
    const __m128i pairs = _mm_maddubs_epi16(x.raw, w.raw);
    return hn::Add(sum, V32{_mm_madd_epi16(pairs, _mm_set1_epi16(1))});
  }
#if defined(HG_HAS_QUADS)
  else if constexpr (sizeof(V32) == 32) {
    const __m256i pairs = _mm256_maddubs_epi16(x.raw, w.raw);
    return hn::Add(sum, V32{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
  }
#endif
#if HWY_TARGET == HWY_AVX3
  else {
    const __m512i pairs = _mm512_maddubs_epi16(x.raw, w.raw);
    return hn::Add(sum, V32{_mm512_madd_epi16(pairs, _mm512_set1_epi16(1))});
  }
#endif
}

// The same for two signed operands of at most 256 bits; w is at least -127.
template <class V32>
HWY_INLINE V32 add_signed_quads(V32 sum, V32 x, V32 w) {
#if defined(HG_HAS_QUADS)
  if constexpr (sizeof(V32) == 32)
    return add_quads<false>(sum, V32{_mm256_abs_epi8(x.raw)}, V32{_mm256_sign_epi8(w.raw, x.raw)});
  else
#endif
    return add_quads<false>(sum, V32{_mm_abs_epi8(x.raw)}, V32{_mm_sign_epi8(w.raw, x.raw)});
}

#else

template <class V32>
HWY_INLINE V32 add_signed_quads(V32 sum, V32 x, V32 w) {
  const hn::DFromV<V32> d32;
#if HWY_ARCH_ARM_A64
  const hn::Repartition<int8_t, decltype(d32)> d8;
  const int8x16_t a = hn::BitCast(d8, x).raw, b = hn::BitCast(d8, w).raw;
  const int32x4_t half = vpadalq_s16(sum.raw, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
  return V32(vpadalq_s16(half, vmull_high_s8(a, b)));
#else
  const hn::Repartition<int16_t, decltype(d32)> d16;
  const auto a = hn::BitCast(d16, x), b = hn::BitCast(d16, w);
  const auto even = [](auto v) HWY_ATTR { return hn::ShiftRight<8>(hn::ShiftLeft<8>(v)); };
  V32 more = hn::Zero(d32);
  sum = hn::ReorderWidenMulAccumulate(d32, even(a), even(b), sum, more);
  sum = hn::ReorderWidenMulAccumulate(d32, hn::ShiftRight<8>(a), hn::ShiftRight<8>(b), sum, more);
  return hn::Add(sum, more);
#endif
}

// x is at most 127.
template <bool, class V32>
HWY_INLINE V32 add_quads(V32 sum, V32 x, V32 w) {
  return add_signed_quads(sum, x, w);
}

#endif

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
