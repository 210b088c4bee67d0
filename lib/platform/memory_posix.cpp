// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>  // which says whether this is __GLIBC__

#include "lib/platform/checked_memory.h"
#include "lib/platform/memory.h"
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace hg {
#ifdef __linux__
namespace {

constexpr uintptr_t kLargePage = uintptr_t{2} << 20;

uintptr_t page_size() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

struct PageRange {
  void* first;
  size_t bytes;
};
// The pages that are completely inside a range.
PageRange whole_pages(const void* begin, uint64_t bytes, uintptr_t page) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (at + page - 1) / page * page;
  const uintptr_t last = (at + static_cast<uintptr_t>(bytes)) / page * page;
  return {reinterpret_cast<void*>(first), first < last ? last - first : 0};
}

}  // namespace
#endif

void* allocate_aligned(uint64_t bytes) {
  if (kChecksViews) return allocate_checked(bytes);
  if (!is_addressable(bytes)) return nullptr;
  return std::aligned_alloc(64, bytes == 0 ? 64 : (static_cast<size_t>(bytes) + 63) / 64 * 64);
}

void* allocate_on_large_pages(uint64_t bytes) {
#ifdef __linux__
  if (!kChecksViews && bytes >= kLargePage && is_addressable(bytes)) {
    const auto size = static_cast<size_t>(bytes);
    void* data = nullptr;
    if (posix_memalign(&data, kLargePage, size) != 0) return nullptr;
    madvise(data, size / kLargePage * kLargePage, MADV_HUGEPAGE);
    return data;
  }
#endif
  return allocate_aligned(bytes);
}

void move_to_large_pages(void* begin, uint64_t bytes) {
#ifdef __linux__
  const auto [first, size] = whole_pages(begin, bytes, kLargePage);
  if (kChecksViews || size == 0 || madvise(first, size, MADV_HUGEPAGE) != 0) return;
  constexpr int kCollapse = 25;  // MADV_COLLAPSE of Linux 6.1, which older headers lack
  madvise(first, size, kCollapse);
#else
  (void)begin;
  (void)bytes;
#endif
}

void take_pages(void* begin, uint64_t bytes) {
#ifdef __linux__
  if (kChecksViews) return;
  const auto large = whole_pages(begin, bytes, kLargePage);
  if (large.bytes > 0) madvise(large.first, large.bytes, MADV_HUGEPAGE);
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE of Linux 5.14
  const auto all = whole_pages(begin, bytes, page_size());
  if (all.bytes > 0) madvise(all.first, all.bytes, kPopulateWrite);
#else
  (void)begin;
  (void)bytes;
#endif
}

void free_aligned(void* memory) {
  if (kChecksViews) return free_checked(memory);
  std::free(memory);
}

void release_pages(const void* begin, uint64_t bytes) {
#ifdef __linux__
  const auto [first, size] = whole_pages(begin, bytes, page_size());
  if (size > 0) madvise(first, size, MADV_DONTNEED);
#else
  (void)begin;
  (void)bytes;
#endif
}

void trim_heap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace hg
