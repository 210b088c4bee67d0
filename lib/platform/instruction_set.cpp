// SPDX-License-Identifier: Apache-2.0
// Queries x86 processors directly (Intel's Software Developer's Manual, volume 2A, CPUID): the
// compiler's __builtin_cpu_supports links a table of processors and code that runs before main.
// Queries the system for Arm processors.
#include "lib/platform/instruction_set.h"

#include <atomic>
#include <bit>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace hg {
namespace {

constinit std::atomic<Isa> limit{kBestIsa};
constinit std::atomic<unsigned> emulated{0};

constexpr unsigned bit(Isa isa) { return 1u << static_cast<unsigned>(isa); }

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

// Whether this build has kernels for tiles, and this process may use them. Linux asks each process
// to request them, because they make the frames of its signal handlers larger
// (Documentation/arch/x86/xstate.rst); other systems need no request, but are not tested.
bool may_use_tiles() {
#if defined(__x86_64__) && defined(__linux__) && !defined(HG_SMALL) && !defined(HG_WITHOUT_AVX512)
  constexpr long kRequest = 0x1023 /* ARCH_REQ_XCOMP_PERM */, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

// The bits of the supported sets beyond the baseline.
unsigned detect() {
  const Leaf one(1), seven(7);
  if (!has(one.c, 1 /* PCLMULQDQ */, 20 /* SSE4.2 */, 25 /* AES */)) return 0;
  unsigned sets = bit(Isa::sse4);
  if (!has(one.c, 12 /* FMA */, 27 /* XGETBV */, 28 /* AVX */, 29 /* F16C */) ||
      !has(seven.b, 3 /* BMI */, 5 /* AVX2 */, 8 /* BMI2 */))
    return sets;
  const unsigned saved = saved_registers();
  if (!has(saved, 1 /* SSE */, 2 /* AVX */)) return sets;
  sets |= bit(Isa::avx2);
  // Processors without the second part of the leaf say so in register a of the first.
  const unsigned more = seven.a >= 1 ? Leaf(7, 1).a : 0;
  if (has(more, 4 /* AVX-VNNI */)) sets |= bit(Isa::avx2_vnni);
  const bool has_512 = has(seven.b, 16 /* F */, 17 /* DQ */, 28 /* CD */, 30 /* BW */, 31 /* VL */);
  // Mask registers, and the upper parts of registers 0 to 15 and 16 to 31.
  if (!has_512 || !has(saved, 5, 6, 7)) return sets;
  sets |= bit(Isa::avx512);
  if (!has(seven.c, 11 /* VNNI */)) return sets;
  sets |= bit(Isa::avx512_vnni);
  if (!has(more, 5 /* AVX512_BF16 */)) return sets;
  sets |= bit(Isa::avx512_bf16);
  const bool has_tiles = has(seven.c, 1 /* AVX512_VBMI */) &&
                         has(seven.d, 22 /* AMX-BF16 */, 24 /* AMX-TILE */, 25 /* AMX-INT8 */) &&
                         has(saved, 17 /* TILECFG */, 18 /* TILEDATA */);
  if (has_tiles && may_use_tiles()) sets |= bit(Isa::avx512_amx);
  return sets;
}

#elif defined(__aarch64__)

#if defined(__APPLE__)
bool has_feature(const char* name) {
  int has = 0;
  size_t size = sizeof(has);
  return sysctlbyname(name, &has, &size, nullptr, 0) == 0 && has != 0;
}
#endif

unsigned detect() {
#if defined(__linux__)
  const unsigned long more = getauxval(AT_HWCAP2);
  const bool has_dot = getauxval(AT_HWCAP) >> 20 & 1;  // HWCAP_ASIMDDP
  const bool has_i8mm = more >> 13 & 1;                // HWCAP2_I8MM
  const bool has_bf16 = more >> 14 & 1;                // HWCAP2_BF16
#elif defined(__APPLE__)
  const bool has_dot = has_feature("hw.optional.arm.FEAT_DotProd");
  const bool has_i8mm = has_feature("hw.optional.arm.FEAT_I8MM");
  const bool has_bf16 = has_feature("hw.optional.arm.FEAT_BF16");
#else
  constexpr bool has_dot = false, has_i8mm = false, has_bf16 = false;
#endif
  if (!has_dot) return 0;
  unsigned sets = bit(Isa::neon_dot);
  if (!has_i8mm) return sets;
  sets |= bit(Isa::neon_i8mm);
  if (has_bf16) sets |= bit(Isa::neon_bf16);
  return sets;
}

#else

unsigned detect() { return 0; }

#endif

unsigned supported() {
  static const unsigned kSets = detect() | bit(Isa::baseline);
  return kSets | emulated.load(std::memory_order_relaxed);
}

// Kernels ask for each piece of their work, so this has no loop.
Isa best_up_to(Isa most) {
  const unsigned up_to = 2 * bit(most) - 1;
  return static_cast<Isa>(std::bit_width(supported() & up_to) - 1);
}

}  // namespace

std::string_view to_string(Isa isa) {
  constexpr std::string_view kNames[] = {"plain",       "neon_dot",    "neon_i8mm", "neon_bf16",
                                         "sse4",        "avx2",        "avx2_vnni", "avx512",
                                         "avx512_vnni", "avx512_bf16", "avx512_amx"};
  return kNames[static_cast<size_t>(isa)];
}

bool supports(Isa isa) { return supported() & bit(isa); }

Isa processor_isa() { return best_up_to(kBestIsa); }

Isa chosen_isa() { return best_up_to(limit.load(std::memory_order_relaxed)); }

void limit_isa(Isa isa) { limit.store(isa, std::memory_order_relaxed); }

void emulate_isa(Isa isa) { emulated.fetch_or(bit(isa), std::memory_order_relaxed); }

}  // namespace hg
