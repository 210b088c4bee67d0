// SPDX-License-Identifier: Apache-2.0
// Counts allocations: the linker redirects the calls of this program and its static libraries here,
// and operator new calls malloc.
#include "tests/support/allocation_count.h"

#include <atomic>
#include <cstddef>

namespace {
std::atomic<int64_t> count{0};
}  // namespace

int64_t hg::test::allocation_count() { return count; }
#if !defined(_WIN32) && !defined(__EMSCRIPTEN__)
extern "C" {
void* __real_malloc(size_t bytes);
void* __real_calloc(size_t count, size_t bytes);
void* __real_realloc(void* memory, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void** memory, size_t alignment, size_t bytes);

void* __wrap_malloc(size_t bytes) {
  ++count;
  return __real_malloc(bytes);
}
void* __wrap_calloc(size_t members, size_t bytes) {
  ++count;
  return __real_calloc(members, bytes);
}
void* __wrap_realloc(void* memory, size_t bytes) {
  ++count;
  return __real_realloc(memory, bytes);
}
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  ++count;
  return __real_aligned_alloc(alignment, bytes);
}
int __wrap_posix_memalign(void** memory, size_t alignment, size_t bytes) {
  ++count;
  return __real_posix_memalign(memory, alignment, bytes);
}
}
#endif
