// SPDX-License-Identifier: Apache-2.0
// Sums of products of four neighboring bytes in each lane of 32 bits. kDot: in one instruction
// (VPDPBUSD of Intel's Software Developer's Manual, SDOT of Arm's), for the first table of
// HG_SIMD_CHOOSE_BYTES. It is written in assembly, so that one copy of a loop can be compiled with
// it and another without; Highway 1.0.3 has no such function. Included once for every instruction
// set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_DOT_INL_H_
#undef HG_KERNELS_DOT_INL_H_
#else
#define HG_KERNELS_DOT_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/simd/arm_instruction.h"

// Defined where the processor multiplies unsigned by signed bytes, in vectors of at least 256 bits,
// or where it has kDot.
#undef HG_HAS_QUADS
#undef HG_HAS_DOT  // where the instruction is one of a set of Isa
#if HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_AVX2 && !defined(HG_SMALL)) || HWY_ARCH_ARM_A64
#define HG_HAS_DOT 1
#endif
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
#define HG_HAS_QUADS 1
#endif

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether add_quads<true>() reads both operands as signed, so that x is at most 127.
constexpr bool kSignedDot = HWY_ARCH_ARM_A64;

#if HWY_TARGET != HWY_SCALAR

#if HWY_TARGET == HWY_SSE4 || (defined(HG_HAS_QUADS) && !HWY_ARCH_ARM_A64)

// Adds to each lane of `sum` the products of its four bytes of x (unsigned) and w (signed). Without
// VNNI, the sums of two neighboring products must fit 16 bits.
template <bool kDot, class V32>
HWY_INLINE V32 add_quads(V32 sum, V32 x, V32 w) {
  if constexpr (kDot) {
#if HWY_TARGET == HWY_AVX2  // AVX-VNNI; other encodings are AVX-512
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(x.raw), "x"(w.raw));
#else
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
#endif
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
template <bool, class V32>
HWY_INLINE V32 add_signed_quads(V32 sum, V32 x, V32 w) {
#if defined(HG_HAS_QUADS)
  if constexpr (sizeof(V32) == 32)
    return add_quads<false>(sum, V32{_mm256_abs_epi8(x.raw)}, V32{_mm256_sign_epi8(w.raw, x.raw)});
  else
#endif
    return add_quads<false>(sum, V32{_mm_abs_epi8(x.raw)}, V32{_mm_sign_epi8(w.raw, x.raw)});
}

#else

template <bool kDot, class V32>
HWY_INLINE V32 add_signed_quads(V32 sum, V32 x, V32 w) {
  const hn::DFromV<V32> d32;
#if HWY_ARCH_ARM_A64
  if constexpr (kDot) {
    asm(HG_ARM_INSTRUCTION_3("0x4e809400") : "+w"(sum.raw) : "w"(x.raw), "w"(w.raw));  // sdot
    return sum;
  }
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
template <bool kDot, class V32>
HWY_INLINE V32 add_quads(V32 sum, V32 x, V32 w) {
  return add_signed_quads<kDot>(sum, x, w);
}

#endif

#endif

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
