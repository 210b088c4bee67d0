// SPDX-License-Identifier: Apache-2.0
#include "tests/support/failing_allocation.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {

std::atomic<int64_t> live{0}, left{-1};
std::atomic<bool> failed{false};

// Whether this call must fail.
[[maybe_unused]] bool fails() {
  if (left.load() < 0 || left.fetch_sub(1) != 0) return false;
  failed = true;
  return true;
}
[[maybe_unused]] void* counted(void* memory) {
  if (memory != nullptr) ++live;
  return memory;
}

}  // namespace

void hg::test::fail_allocation(int64_t k) {
  failed = false;
  left = k;
}
bool hg::test::end_failing() {
  left = -1;
  return failed;
}
int64_t hg::test::live_blocks() { return live; }

// The linker sends calls of NAME in this program and its static libraries to __wrap_NAME, and gives
// the C library's as __real_NAME.
#if !defined(_WIN32) && !defined(__EMSCRIPTEN__)
extern "C" {
void* __real_malloc(size_t bytes);
void* __real_calloc(size_t count, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void** memory, size_t alignment, size_t bytes);
void __real_free(void* memory);

void* __wrap_malloc(size_t bytes) { return counted(__real_malloc(bytes)); }
void* __wrap_calloc(size_t count, size_t bytes) {
  return fails() ? nullptr : counted(__real_calloc(count, bytes));
}
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return fails() ? nullptr : counted(__real_aligned_alloc(alignment, bytes));
}
int __wrap_posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (fails()) return ENOMEM;
  const int error = __real_posix_memalign(memory, alignment, bytes);
  if (error == 0) counted(*memory);
  return error;
}
void __wrap_free(void* memory) {
  if (memory != nullptr) --live;
  __real_free(memory);
}
}
#endif
