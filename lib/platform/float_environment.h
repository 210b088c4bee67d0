// SPDX-License-Identifier: Apache-2.0
// The calling thread's rounding mode and treatment of denormals. A thread that shares another
// thread's work adopts its settings, so that results do not depend on which thread computed what.
#pragma once

#include <cstdint>

namespace hg {

inline uint64_t float_environment() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_ia32_stmxcsr() & ~0x3fu;  // without the exception flags
#elif defined(__aarch64__) && defined(__GNUC__)
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
#else
  return 0;
#endif
}

inline void set_float_environment([[maybe_unused]] uint64_t environment) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (environment != float_environment())
    __builtin_ia32_ldmxcsr(static_cast<unsigned>(environment));
#elif defined(__aarch64__) && defined(__GNUC__)
  if (environment != float_environment()) asm volatile("msr fpcr, %0" ::"r"(environment));
#endif
}

}  // namespace hg
