// SPDX-License-Identifier: Apache-2.0
// Which of the instruction sets that kernels are compiled for (kernels/simd/simd.h) the processor
// supports.
#pragma once

#include <cstdint>
#include <string_view>

namespace hg {

// In order of preference, worst first.
enum class Isa : uint8_t {
  baseline,  // of the compiler's target: NEON on Arm, portable code on x86
  sse4,      // 4.2
  avx2,      // with FMA, BMI2 and F16C
  avx512,    // F, BW, CD, DQ, VL
  // The same with VNNI, for loops over bytes, and with BF16, for products of bf16. All others take
  // those of avx512.
  avx512_vnni,
  avx512_bf16,
};
inline constexpr Isa kIsas[] = {Isa::baseline, Isa::sse4,        Isa::avx2,
                                Isa::avx512,   Isa::avx512_vnni, Isa::avx512_bf16};
inline constexpr Isa kBestIsa = Isa::avx512_bf16;

// Names as in CMake's HG_SIMD_TARGETS, where "avx512" stands for all names that begin with it;
// "plain" for the baseline.
std::string_view to_string(Isa isa);

// The best set that the processor supports and whose registers the system saves.
Isa processor_isa();
// The same, or the limit of limit_isa() if that is lower.
Isa chosen_isa();
// Limits the sets of kernels that are chosen from now on: for tests, and to find the needs of other
// processors. Thread-safe.
void limit_isa(Isa isa);

}  // namespace hg
