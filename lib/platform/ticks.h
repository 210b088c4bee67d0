// SPDX-License-Identifier: Apache-2.0
// A counter that is cheap to read. It counts at a steady rate and may differ a little between
// processors; use it to compare durations within a thread, not to tell the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace hg {

inline int64_t ticks() {
#if defined(__x86_64__) && defined(__GNUC__)
  return static_cast<int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__) && defined(__GNUC__)
  int64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
#endif
}

// Ticks since `begin`; a very large number if the counter went back, as after a machine was
// suspended.
inline int64_t ticks_since(int64_t begin) {
  const int64_t passed = ticks() - begin;
  return passed >= 0 ? passed : std::numeric_limits<int64_t>::max();
}

// Rough: the counter of x86-64 runs at 2 to 4 GHz.
inline int64_t ticks_per_us() {
#if defined(__x86_64__) && defined(__GNUC__)
  return 3000;
#elif defined(__aarch64__) && defined(__GNUC__)
  int64_t hertz;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
  return hertz / 1000000;
#else
  return 1000;
#endif
}

// Tells the processor that this thread spins.
inline void relax() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) && defined(__GNUC__)
  asm volatile("yield");
#endif
}

}  // namespace hg
