// SPDX-License-Identifier: Apache-2.0
// Runs kernels for instructions that the processor lacks: a signal handler computes them.
#pragma once

namespace hg::test {

// Makes supports() true on x86-64 (Linux only), for the rest of the program: for Isa::avx2_vnni
// where there is AVX2, and for Isa::avx512_amx where there are the other instructions that its
// kernels use. An emulated instruction takes a few microseconds: where this returns true, random
// tests run fewer cases, unless HG_CASES asks for more.
bool emulate_instructions();

}  // namespace hg::test
