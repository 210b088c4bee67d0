// SPDX-License-Identifier: Apache-2.0
// Counts allocations. A program's own malloc also serves its shared libraries; glibc's remains
// available under other names.
#include "tests/support/malloc_count.h"

#include <atomic>
#include <cstddef>

namespace {
std::atomic<int64_t> count{0};
}  // namespace

int64_t hg::test::malloc_count() { return count; }

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t members, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  ++count;
  return __libc_malloc(bytes);
}
void* calloc(size_t members, size_t bytes) {
  ++count;
  return __libc_calloc(members, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++count;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++count;
  return __libc_memalign(alignment, bytes);
}
}
