// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include "lib/platform/checked_memory.h"
#include "lib/platform/memory.h"

namespace hg {
void* allocate_aligned(uint64_t bytes) {
  if (kChecksViews) return allocate_checked(bytes);
  if (!is_addressable(bytes)) return nullptr;
  return _aligned_malloc(bytes == 0 ? 64 : (static_cast<size_t>(bytes) + 63) / 64 * 64, 64);
}

void* allocate_on_large_pages(uint64_t bytes) { return allocate_aligned(bytes); }

void free_aligned(void* memory) {
  if (kChecksViews) return free_checked(memory);
  _aligned_free(memory);
}

void move_to_large_pages(void*, uint64_t) {}

void take_pages(void*, uint64_t) {}

void release_pages(const void*, uint64_t) {}

void trim_heap() {}

}  // namespace hg
