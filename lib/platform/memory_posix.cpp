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
void* allocate_aligned(uint64_t bytes) {
  if (kChecksViews) return allocate_checked(bytes);
  if (!is_addressable(bytes)) return nullptr;
  return std::aligned_alloc(64, bytes == 0 ? 64 : (static_cast<size_t>(bytes) + 63) / 64 * 64);
}

void* allocate_on_large_pages(uint64_t bytes) {
#ifdef __linux__
  constexpr size_t kPage = size_t{2} << 20;
  if (!kChecksViews && bytes >= kPage && is_addressable(bytes)) {
    const auto size = static_cast<size_t>(bytes);
    void* data = nullptr;
    if (posix_memalign(&data, kPage, size) != 0) return nullptr;
    madvise(data, size / kPage * kPage, MADV_HUGEPAGE);
    return data;
  }
#endif
  return allocate_aligned(bytes);
}

void free_aligned(void* memory) {
  if (kChecksViews) return free_checked(memory);
  std::free(memory);
}

void release_file_pages(const void* begin, uint64_t bytes) {
#ifdef __linux__
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (at + page - 1) / page * page;
  const uintptr_t last = (at + static_cast<uintptr_t>(bytes)) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
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
