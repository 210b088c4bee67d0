// SPDX-License-Identifier: Apache-2.0
// The parts that are the same on every system.
#include "lib/platform/memory.h"

#include <cstdlib>
#include <cstring>

#include "lib/platform/checked_memory.h"

namespace hg {

void* allocate_zeros(uint64_t bytes) {
  if (kChecksViews) return allocate_checked(bytes);
  return is_addressable(bytes) ? std::calloc(1, static_cast<size_t>(bytes)) : nullptr;
}

void free_zeros(void* memory) {
  if (kChecksViews) return free_checked(memory);
  std::free(memory);
}

void mark_freed([[maybe_unused]] void* memory, [[maybe_unused]] uint64_t bytes) {
#ifndef NDEBUG
  std::memset(memory, 0xff, static_cast<size_t>(bytes));
#endif
}

}  // namespace hg
