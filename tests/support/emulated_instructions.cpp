// SPDX-License-Identifier: Apache-2.0
// Emulates VPDPBUSD with registers in its VEX encoding, and the instructions for tiles (AMX), as
// Intel's Software Developer's Manual describes them. The kernel's signal frame holds the registers
// in the layout of XSAVE (volume 1, chapter 13); tiles are emulated memory of each thread.
#include "tests/support/emulated_instructions.h"

#include "lib/platform/instruction_set.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace hg::test {
namespace {

// ---- Instructions with a VEX prefix of three bytes ----

struct Instruction {
  unsigned prefix = 0;  // pp: none, 66, F3, F2
  unsigned map = 0, wide = 0, opcode = 0;
  bool is_256 = false, has_memory = false;
  unsigned reg = 0, vvvv = 0, rm = 0;  // registers
  const uint8_t* base = nullptr;       // of a memory operand, with its displacement
  int64_t index = 0;                   // scaled
  int64_t length = 0;
};

uint64_t general(const mcontext_t& machine, unsigned number) {
  constexpr int kPlace[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<uint64_t>(machine.gregs[kPlace[number]]);
}

template <class T>
int64_t number_at(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// False if there is no such prefix.
bool decode(const mcontext_t& machine, Instruction& to) {
  const auto* const code = reinterpret_cast<const uint8_t*>(machine.gregs[REG_RIP]);
  if (code[0] != 0xc4) return false;
  const unsigned rxb = code[1] >> 5 ^ 7, modrm = code[4], mod = modrm >> 6;
  to.map = code[1] & 31;
  to.wide = code[2] >> 7;
  to.vvvv = (code[2] >> 3 & 15) ^ 15;
  to.is_256 = code[2] >> 2 & 1;
  to.prefix = code[2] & 3;
  to.opcode = code[3];
  to.reg = (modrm >> 3 & 7) | (rxb & 4) << 1;
  to.rm = (modrm & 7) | (rxb & 1) << 3;
  to.has_memory = mod != 3;
  const uint8_t* at = code + 5;
  if (to.has_memory) {
    uint64_t base = 0;
    bool has_far = mod == 2, of_code = false;
    if ((modrm & 7) == 4) {
      const unsigned sib = *at++, index = (sib >> 3 & 7) | (rxb & 2) << 2;
      if (index != 4) to.index = static_cast<int64_t>(general(machine, index)) << (sib >> 6);
      if ((sib & 7) == 5 && mod == 0)
        has_far = true;
      else
        base = general(machine, (sib & 7) | (rxb & 1) << 3);
    } else if ((modrm & 7) == 5 && mod == 0) {
      has_far = of_code = true;
    } else {
      base = general(machine, to.rm);
    }
    if (mod == 1) base += static_cast<uint64_t>(number_at<int8_t>(at++));
    if (has_far) {
      base += static_cast<uint64_t>(number_at<int32_t>(at));
      at += 4;
    }
    if (of_code) base += reinterpret_cast<uint64_t>(at);
    to.base = reinterpret_cast<const uint8_t*>(base);
  }
  to.length = at - code;
  return true;
}

// ---- VPDPBUSD ----

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

bool run_vpdpbusd(const Instruction& i, mcontext_t& machine) {
  if (i.opcode != 0x50 || i.prefix != 1 || !i.is_256 || i.has_memory) return false;
  auto* const saved = reinterpret_cast<uint8_t*>(machine.fpregs);
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
  const Ymm y = add_products(read(i.reg), read(i.vvvv), read(i.rm));
  if (!has_high) std::memset(half(0, true), 0, size_t{16} * 16);
  std::memcpy(half(i.reg, false), y.data(), 16);
  std::memcpy(half(i.reg, true), &y[16], 16);
  state |= 6;
  std::memcpy(saved + kState, &state, 8);
  return true;
}

// ---- Tiles: what lies beyond their configured sizes is 0 ----

struct Tile {
  uint32_t word[16][16];
};
thread_local Tile tiles[8];
thread_local struct { uint8_t rows, row_bytes; } sizes[8];

float of_bf16(uint32_t bits) {
  const auto x = std::bit_cast<float>(bits << 16);
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

void add_bf16(Tile& sums, const Tile& a, const Tile& b) {
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      float even = 0, odd = 0;
      for (int k = 0; k < 16; ++k) {
        even += of_bf16(a.word[m][k] & 0xffff) * of_bf16(b.word[k][n] & 0xffff);
        odd += of_bf16(a.word[m][k] >> 16) * of_bf16(b.word[k][n] >> 16);
      }
      sums.word[m][n] = std::bit_cast<uint32_t>(std::bit_cast<float>(sums.word[m][n]) + even + odd);
    }
}

template <class A, class B>
void add_bytes(Tile& sums, const Tile& a, const Tile& b) {
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 16; ++n)
        for (int i = 0; i < 32; i += 8)
          sums.word[m][n] += static_cast<uint32_t>(static_cast<A>(a.word[m][k] >> i) *
                                                   static_cast<B>(b.word[k][n] >> i));
}

bool run_tiles(const Instruction& i) {
  constexpr unsigned kNone = 0, k66 = 1, kF3 = 2, kF2 = 3;
  if (i.is_256 || i.reg > 7) return false;
  if (i.opcode == 0x49 && i.prefix == kNone) {  // LDTILECFG, TILERELEASE
    if (!i.has_memory) return true;
    for (int t = 0; t < 8; ++t) {
      sizes[t] = {i.base[48 + t], i.base[16 + 2 * t]};
      if (sizes[t].rows > 16 || sizes[t].row_bytes > 64) std::abort();
    }
  } else if (i.opcode == 0x49 && i.prefix == kF2) {  // TILEZERO
    tiles[i.reg] = {};
  } else if (i.opcode == 0x4b && i.has_memory && (i.prefix == kF2 || i.prefix == kF3)) {
    if (i.prefix == kF2) tiles[i.reg] = {};
    for (int row = 0; row < sizes[i.reg].rows; ++row) {  // TILELOADD, TILESTORED
      uint32_t* const words = tiles[i.reg].word[row];
      auto* const memory = const_cast<uint8_t*>(i.base) + row * i.index;
      const size_t bytes = sizes[i.reg].row_bytes;
      i.prefix == kF2 ? std::memcpy(words, memory, bytes) : std::memcpy(memory, words, bytes);
    }
  } else if (i.opcode == 0x5e && i.prefix == kF3) {  // TDPBSUD
    add_bytes<int8_t, uint8_t>(tiles[i.reg], tiles[i.rm & 7], tiles[i.vvvv & 7]);
  } else if (i.opcode == 0x5e && i.prefix == kF2) {  // TDPBSSD
    add_bytes<int8_t, int8_t>(tiles[i.reg], tiles[i.rm & 7], tiles[i.vvvv & 7]);
  } else if (i.opcode == 0x5e && i.prefix == k66) {  // TDPBUSD
    add_bytes<uint8_t, int8_t>(tiles[i.reg], tiles[i.rm & 7], tiles[i.vvvv & 7]);
  } else if (i.opcode == 0x5c && i.prefix == kF3) {  // TDPBF16PS
    add_bf16(tiles[i.reg], tiles[i.rm & 7], tiles[i.vvvv & 7]);
  } else {
    return false;
  }
  return true;
}

void on_illegal_instruction(int, siginfo_t*, void* frame) {
  mcontext_t& machine = static_cast<ucontext_t*>(frame)->uc_mcontext;
  Instruction i;
  const bool is_known = decode(machine, i) && i.map == 2 && i.wide == 0;
  if (!is_known || (!run_vpdpbusd(i, machine) && !run_tiles(i))) {
    signal(SIGILL, SIG_DFL);  // the instruction fails again
    return;
  }
  machine.gregs[REG_RIP] += i.length;
}

bool has_vbmi() {
  unsigned a, b, c = 0, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 1 & 1) != 0;
}

}  // namespace

bool emulate_instructions() {
  static const bool emulates = [] {
    const bool lacks_vnni = supports(Isa::avx2) && !supports(Isa::avx2_vnni);
    const bool lacks_tiles = supports(Isa::avx512_bf16) && has_vbmi() && !supports(Isa::avx512_amx);
    if (!lacks_vnni && !lacks_tiles) return false;
    unsigned size, c, d;
    __cpuid_count(13, 2, size, high_halves, c, d);
    struct sigaction action = {};
    action.sa_sigaction = on_illegal_instruction;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, nullptr);
    if (lacks_vnni) emulate_isa(Isa::avx2_vnni);
    if (lacks_tiles) emulate_isa(Isa::avx512_amx);
    return true;
  }();
  return emulates;
}

}  // namespace hg::test

#else

namespace hg::test {

bool emulate_instructions() { return false; }

}  // namespace hg::test

#endif
