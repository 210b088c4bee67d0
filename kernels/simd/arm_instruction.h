// SPDX-License-Identifier: Apache-2.0
// Instructions of 64-bit Arm beyond the compiler's target, as numbers: an .arch directive would
// also apply to the code that follows.
#pragma once

// Symbols hold the numbers of the vector registers, as which "w" operands are printed.
#define HG_ARM_REGISTERS                                                                           \
  ".ifndef .Lhg_v0\n"                                                                              \
  ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n" \
  ".set .Lhg_v\\n, \\n\n"                                                                          \
  ".endr\n"                                                                                        \
  ".endif\n"
// With one source, and with two.
#define HG_ARM_INSTRUCTION_2(code) HG_ARM_REGISTERS ".inst " code " | .Lhg_%1 << 5 | .Lhg_%0"
#define HG_ARM_INSTRUCTION_3(code) \
  HG_ARM_REGISTERS ".inst " code " | .Lhg_%2 << 16 | .Lhg_%1 << 5 | .Lhg_%0"
