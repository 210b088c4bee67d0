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

#include "lib/platform/instruction_set.h"

// The sets that HG_SIMD_TARGETS leaves out.
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

// Of the table for tiles, where kernels/simd/amx-inl.h defines HG_HAS_TILES.
#if (HWY_TARGETS & HWY_AVX3) && defined(__x86_64__) && !defined(HG_SMALL)
#define HG_SIMD_AMX(symbol) ::hg::chosen_isa() >= ::hg::Isa::avx512_amx ? &N_AVX3::symbol:
#else
#define HG_SIMD_AMX(symbol)
#endif
#if HWY_TARGETS & HWY_AVX3
#define HG_SIMD_BF16(symbol) ::hg::chosen_isa() >= ::hg::Isa::avx512_bf16 ? &N_AVX3::symbol:
#define HG_SIMD_VNNI(symbol) ::hg::chosen_isa() >= ::hg::Isa::avx512_vnni ? &N_AVX3::symbol:
#define HG_SIMD_AVX512(symbol) ::hg::chosen_isa() >= ::hg::Isa::avx512 ? &N_AVX3::symbol:
#else
#define HG_SIMD_BF16(symbol)
#define HG_SIMD_VNNI(symbol)
#define HG_SIMD_AVX512(symbol)
#endif
#if HWY_TARGETS & HWY_AVX2
#define HG_SIMD_AVX2_VNNI(symbol) ::hg::chosen_isa() >= ::hg::Isa::avx2_vnni ? &N_AVX2::symbol:
#define HG_SIMD_AVX2(symbol) ::hg::chosen_isa() >= ::hg::Isa::avx2 ? &N_AVX2::symbol:
#else
#define HG_SIMD_AVX2_VNNI(symbol)
#define HG_SIMD_AVX2(symbol)
#endif
#if HWY_TARGETS & HWY_SSE4
#define HG_SIMD_SSE4(symbol) ::hg::chosen_isa() >= ::hg::Isa::sse4 ? &N_SSE4::symbol:
#else
#define HG_SIMD_SSE4(symbol)
#endif
#if HWY_ARCH_ARM_A64
#define HG_SIMD_NEON_DOT(symbol) ::hg::chosen_isa() >= ::hg::Isa::neon_dot ? &N_NEON::symbol:
#else
#define HG_SIMD_NEON_DOT(symbol)
#endif
// Of the tables for small matrices (kernels/simd/mmla-inl.h).
#if HWY_ARCH_ARM_A64 && !defined(HG_SMALL)
#define HG_SIMD_NEON_I8MM(symbol) ::hg::chosen_isa() >= ::hg::Isa::neon_i8mm ? &N_NEON::symbol:
#define HG_SIMD_NEON_BF16(symbol) ::hg::chosen_isa() >= ::hg::Isa::neon_bf16 ? &N_NEON::symbol:
#else
#define HG_SIMD_NEON_I8MM(symbol)
#define HG_SIMD_NEON_BF16(symbol)
#endif
// A pointer to the symbol of the chosen set. Use it only inside HWY_ONCE, in the namespace that
// encloses those of the sets.
#define HG_SIMD_CHOOSE(symbol) \
  (HG_SIMD_AVX512(symbol) HG_SIMD_AVX2(symbol) HG_SIMD_SSE4(symbol) & HWY_NAMESPACE::symbol)
// The same for loops over bytes: `dot` with dot products of bytes. In small builds, AVX-512 without
// VNNI uses AVX2, which has no dot products.
#if defined(HG_SMALL)
#define HG_SIMD_CHOOSE_BYTES(dot, symbol)                                              \
  (HG_SIMD_VNNI(dot) HG_SIMD_AVX2(symbol) HG_SIMD_SSE4(symbol) HG_SIMD_NEON_DOT(dot) & \
   HWY_NAMESPACE::symbol)
#define HG_SIMD_VNNI_ONLY (HWY_TARGET == HWY_AVX3 && HWY_TARGET != HWY_STATIC_TARGET)
#else
#define HG_SIMD_CHOOSE_BYTES(dot, symbol)                                               \
  (HG_SIMD_VNNI(dot) HG_SIMD_AVX512(symbol) HG_SIMD_AVX2_VNNI(dot) HG_SIMD_AVX2(symbol) \
       HG_SIMD_SSE4(symbol) HG_SIMD_NEON_DOT(dot) &                                     \
   HWY_NAMESPACE::symbol)
#define HG_SIMD_VNNI_ONLY 0
#endif
