// SPDX-License-Identifier: Apache-2.0
// Queries the processor directly (Intel's Software Developer's Manual, volume 2A, CPUID). The
// compiler's __builtin_cpu_supports links a table of processors and code that runs before main.
#include "lib/platform/instruction_set.h"

#include <algorithm>
#include <atomic>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace hg {
namespace {

constinit std::atomic<Isa> limit{kBestIsa};

#if defined(__x86_64__) || defined(__i386__)

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;  // zeros if the processor does not have the leaf
  explicit Leaf(unsigned number, unsigned part = 0) {
    __get_cpuid_count(number, part, &a, &b, &c, &d);
  }
};

template <class... Bit>
bool has(unsigned word, Bit... bits) {
  return ((word >> bits & 1) && ...);
}

// The registers that the system saves, as bits of XCR0.
unsigned saved_registers() {
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

Isa detect() {
  const Leaf one(1), seven(7);
  if (!has(one.c, 1 /* PCLMULQDQ */, 20 /* SSE4.2 */, 25 /* AES */)) return Isa::baseline;
  if (!has(one.c, 12 /* FMA */, 27 /* XGETBV */, 28 /* AVX */, 29 /* F16C */) ||
      !has(seven.b, 3 /* BMI */, 5 /* AVX2 */, 8 /* BMI2 */))
    return Isa::sse4;
  const unsigned saved = saved_registers();
  if (!has(saved, 1 /* SSE */, 2 /* AVX */)) return Isa::sse4;
  const bool has_512 = has(seven.b, 16 /* F */, 17 /* DQ */, 28 /* CD */, 30 /* BW */, 31 /* VL */);
  // Mask registers, and the upper parts of registers 0 to 15 and 16 to 31.
  if (!has_512 || !has(saved, 5, 6, 7)) return Isa::avx2;
  if (!has(seven.c, 11 /* VNNI */)) return Isa::avx512;
  // Processors without the second part of the leaf say so in register a of the first.
  const bool has_bf16 = seven.a >= 1 && has(Leaf(7, 1).a, 5 /* AVX512_BF16 */);
  return has_bf16 ? Isa::avx512_bf16 : Isa::avx512_vnni;
}

#else

Isa detect() { return Isa::baseline; }

#endif

}  // namespace

std::string_view to_string(Isa isa) {
  constexpr std::string_view kNames[] = {"plain",  "sse4",        "avx2",
                                         "avx512", "avx512_vnni", "avx512_bf16"};
  return kNames[static_cast<size_t>(isa)];
}

Isa processor_isa() {
  static const Isa kIsa = detect();
  return kIsa;
}

Isa chosen_isa() { return std::min(limit.load(std::memory_order_relaxed), processor_isa()); }

void limit_isa(Isa isa) { limit.store(isa, std::memory_order_relaxed); }

}  // namespace hg
