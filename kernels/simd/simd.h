// SPDX-License-Identifier: Apache-2.0
// Kernels written once with Highway and compiled for several instruction sets. A file that has such
// code exposes one table of functions for each set, and prepare() picks one:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/wave_simd.cpp"  // the file itself
//   #include "kernels/simd/simd.h"  // this order; keep clang-format from sorting it
//   #include "hwy/foreach_target.h"
//   #include "hwy/highway.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace hg::kernels::HWY_NAMESPACE {
//   constexpr WaveTable kTable = {...};
//   }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace hg::kernels {
//   const WaveTable& wave_table() { return *HG_SIMD_CHOOSE(kTable); }
//   }
//   #endif
//
// Only Highway's headers are used: nothing is linked and nothing runs before main.
#pragma once

#include <cstdint>

// Those that HG_SIMD_TARGETS leaves out.
#if defined(HG_WITHOUT_SSE4)
#define HG_DISABLED_SSE4 HWY_SSE4
#else
#define HG_DISABLED_SSE4 0
#endif
#if defined(HG_WITHOUT_AVX2)
#define HG_DISABLED_AVX2 HWY_AVX2
#else
#define HG_DISABLED_AVX2 0
#endif
#if defined(HG_WITHOUT_AVX512)
#define HG_DISABLED_AVX512 HWY_AVX3
#else
#define HG_DISABLED_AVX512 0
#endif
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS                                                                      \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HG_DISABLED_SSE4 | \
   HG_DISABLED_AVX2 | HG_DISABLED_AVX512)
#include "hwy/detect_targets.h"

namespace hg::kernels {

// In order of preference, worst first.
enum class Isa : uint8_t {
  baseline,  // what the compiler may assume: NEON on Arm, plain code on x86
  sse4,      // 4.2
  avx2,      // with FMA, BMI2 and F16C
  avx512,    // F, BW, CD, DQ, VL
};

// The best set that this processor has, unless limit_isa() says less.
Isa chosen_isa();
// For tests: tables chosen from now on use no better set. Safe from any thread.
void limit_isa(Isa isa);

}  // namespace hg::kernels

#if HWY_TARGETS & HWY_AVX3
#define HG_SIMD_AVX512(symbol) \
  ::hg::kernels::chosen_isa() >= ::hg::kernels::Isa::avx512 ? &N_AVX3::symbol:
#else
#define HG_SIMD_AVX512(symbol)
#endif
#if HWY_TARGETS & HWY_AVX2
#define HG_SIMD_AVX2(symbol) \
  ::hg::kernels::chosen_isa() >= ::hg::kernels::Isa::avx2 ? &N_AVX2::symbol:
#else
#define HG_SIMD_AVX2(symbol)
#endif
#if HWY_TARGETS & HWY_SSE4
#define HG_SIMD_SSE4(symbol) \
  ::hg::kernels::chosen_isa() >= ::hg::kernels::Isa::sse4 ? &N_SSE4::symbol:
#else
#define HG_SIMD_SSE4(symbol)
#endif
// A pointer to the symbol of the chosen set. Only where HWY_ONCE, in the namespace that encloses
// the sets'.
#define HG_SIMD_CHOOSE(symbol) \
  (HG_SIMD_AVX512(symbol) HG_SIMD_AVX2(symbol) HG_SIMD_SSE4(symbol) & HWY_NAMESPACE::symbol)
