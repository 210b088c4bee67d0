// SPDX-License-Identifier: Apache-2.0
// Which of the instruction sets that kernels are compiled for (kernels/simd/simd.h) this processor
// has.
#pragma once

#include <cstdint>
#include <string_view>

namespace hg {

// In order of preference, worst first.
enum class Isa : uint8_t {
  baseline,  // what the compiler may assume: NEON on Arm, plain code on x86
  sse4,      // 4.2
  avx2,      // with FMA, BMI2 and F16C
  avx512,    // F, BW, CD, DQ, VL
};

// As HG_SIMD_TARGETS of CMake has them; "plain" for the baseline.
std::string_view name_of(Isa isa);

// The best set that this processor has and the system saves the registers of.
Isa processor_isa();
// That, unless limit_isa() says less.
Isa chosen_isa();
// Tables of kernels that are chosen from now on use no better set: for tests, and to tell what
// plans of other processors take. Safe from any thread.
void limit_isa(Isa isa);

}  // namespace hg
