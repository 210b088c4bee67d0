// SPDX-License-Identifier: Apache-2.0
// Runs kernels for instructions that the processor lacks: a signal handler computes them.
#pragma once

namespace hg::test {

// Makes supports(Isa::avx2_vnni) true on x86-64 processors with AVX2 (Linux only), for the rest of
// the program. An emulated instruction takes about a microsecond.
void emulate_instructions();

}  // namespace hg::test
