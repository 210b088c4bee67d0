// SPDX-License-Identifier: Apache-2.0
// Which of the instruction sets that kernels are compiled for (kernels/simd/simd.h) the processor
// supports.
#pragma once

#include <cstdint>
#include <string_view>

namespace hg {

// In order of preference, worst first. Sets with dot products of bytes (neon_dot, avx2_vnni,
// avx512_vnni) or of bf16 (avx512_bf16), with products of small matrices of them (neon_i8mm,
// neon_bf16), or of tiles of both (avx512_amx) have such loops of their own, and share all others
// with the set that they extend.
enum class Isa : uint8_t {
  baseline,   // of the compiler's target: NEON on Arm, portable code on x86
  neon_dot,   // with SDOT
  neon_i8mm,  // with SMMLA
  neon_bf16,  // with BFMMLA
  sse4,       // 4.2
  avx2,       // with FMA, BMI2 and F16C
  avx2_vnni,  // with AVX-VNNI
  avx512,     // F, BW, CD, DQ, VL
  avx512_vnni,
  avx512_bf16,
  avx512_amx,  // with AMX-INT8 and AMX-BF16
};
inline constexpr Isa kIsas[] = {Isa::baseline,    Isa::neon_dot,    Isa::neon_i8mm, Isa::neon_bf16,
                                Isa::sse4,        Isa::avx2,        Isa::avx2_vnni, Isa::avx512,
                                Isa::avx512_vnni, Isa::avx512_bf16, Isa::avx512_amx};
inline constexpr Isa kBestIsa = Isa::avx512_amx;

// Names as in CMake's HG_SIMD_TARGETS, where "avx2" and "avx512" stand for all names that begin
// with them; "plain" for the baseline.
std::string_view to_string(Isa isa);

// Whether the processor supports the set, and the system saves its registers. Thread-safe, as are
// all functions here.
bool supports(Isa isa);
// The best supported set.
Isa processor_isa();
// The best supported set up to the limit of limit_isa().
Isa chosen_isa();
// Limits the sets of kernels that are chosen from now on: for tests, and to find the needs of other
// processors.
void limit_isa(Isa isa);
// Counts the set as supported from now on: for tests that emulate its instructions.
void emulate_isa(Isa isa);

}  // namespace hg
