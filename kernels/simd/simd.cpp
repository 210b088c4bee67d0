// SPDX-License-Identifier: Apache-2.0
// Which instruction set this processor has.
#include "kernels/simd/simd.h"

#include <atomic>
#include <initializer_list>

namespace hg::kernels {
namespace {

constinit std::atomic<Isa> limit{Isa::avx512};

Isa processor_isa() {
#if defined(__x86_64__) || defined(__i386__)
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul") ||
      !__builtin_cpu_supports("aes"))
    return Isa::baseline;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
    return Isa::sse4;
  for (bool has : {__builtin_cpu_supports("avx512f") != 0, __builtin_cpu_supports("avx512bw") != 0,
                   __builtin_cpu_supports("avx512cd") != 0, __builtin_cpu_supports("avx512dq") != 0,
                   __builtin_cpu_supports("avx512vl") != 0})
    if (!has) return Isa::avx2;
  return Isa::avx512;
#else
  return Isa::baseline;
#endif
}

}  // namespace

Isa chosen_isa() {
  const Isa most = limit.load(std::memory_order_relaxed), has = processor_isa();
  return has < most ? has : most;
}

void limit_isa(Isa isa) { limit.store(isa, std::memory_order_relaxed); }

}  // namespace hg::kernels
