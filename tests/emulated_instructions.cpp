// SPDX-License-Identifier: Apache-2.0
// Emulates VPDPBUSD with registers in its VEX encoding, as Intel's Software Developer's Manual
// describes it. The kernel's signal frame holds the registers in the layout of XSAVE (volume 1,
// chapter 13).
#include "tests/emulated_instructions.h"

#include "lib/platform/instruction_set.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace hg::test {
namespace {

constexpr unsigned kXmm = 160, kState = 512;  // places in an XSAVE area
unsigned high_halves = 0;                     // of the ymm registers

using Ymm = std::array<uint8_t, 32>;

// Lane by lane: sum + the four products of unsigned and signed bytes, modulo 2^32.
Ymm add_products(const Ymm& sum, const Ymm& x, const Ymm& w) {
  Ymm result;
  for (size_t lane = 0; lane < 32; lane += 4) {
    uint32_t total;
    std::memcpy(&total, &sum[lane], 4);
    for (size_t i = lane; i < lane + 4; ++i)
      total += static_cast<uint32_t>(x[i] * static_cast<int8_t>(w[i]));
    std::memcpy(&result[lane], &total, 4);
  }
  return result;
}

void on_illegal_instruction(int, siginfo_t*, void* frame) {
  auto& machine = static_cast<ucontext_t*>(frame)->uc_mcontext;
  auto* const saved = reinterpret_cast<uint8_t*>(machine.fpregs);
  uint8_t code[5];
  std::memcpy(code, reinterpret_cast<const void*>(machine.gregs[REG_RIP]), sizeof(code));
  const unsigned rxb = code[1] >> 5 ^ 7, vvvv = (code[2] >> 3 & 15) ^ 15, operands = code[4];
  // VEX.256.66.0F38.W0 50 /r with a register as last operand
  const bool is_known = code[0] == 0xc4 && (code[1] & 31) == 2 && (code[2] & 0x87) == 5 &&
                        code[3] == 0x50 && operands >> 6 == 3;
  if (!is_known) {
    signal(SIGILL, SIG_DFL);  // the instruction fails again
    return;
  }
  uint64_t state;
  std::memcpy(&state, saved + kState, 8);
  const bool has_high = state >> 2 & 1;  // otherwise the upper halves are zeros
  const auto half = [&](unsigned index, bool high) {
    return saved + (high ? high_halves : kXmm) + index * 16;
  };
  const auto read = [&](unsigned index) {
    Ymm y{};
    std::memcpy(y.data(), half(index, false), 16);
    if (has_high) std::memcpy(&y[16], half(index, true), 16);
    return y;
  };
  const unsigned to = (operands >> 3 & 7) | (rxb & 4) << 1;
  const Ymm y = add_products(read(to), read(vvvv), read((operands & 7) | (rxb & 1) << 3));
  if (!has_high) std::memset(half(0, true), 0, size_t{16} * 16);
  std::memcpy(half(to, false), y.data(), 16);
  std::memcpy(half(to, true), &y[16], 16);
  state |= 6;
  std::memcpy(saved + kState, &state, 8);
  machine.gregs[REG_RIP] += sizeof(code);
}

}  // namespace

void emulate_instructions() {
  if (!supports(Isa::avx2) || supports(Isa::avx2_vnni)) return;
  unsigned size, c, d;
  __cpuid_count(13, 2, size, high_halves, c, d);
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, nullptr);
  emulate_isa(Isa::avx2_vnni);
}

}  // namespace hg::test

#else

namespace hg::test {

void emulate_instructions() {}

}  // namespace hg::test

#endif
