// SPDX-License-Identifier: Apache-2.0
#include "lib/platform/pages.h"
#ifdef __EMSCRIPTEN__
#include <cstdlib>
#include <cstring>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace hg {
#ifdef __EMSCRIPTEN__  // its memory is one array, all of it readable

size_t page_bytes() { return 64; }

void* map_pages(size_t bytes) {
  void* const pages = std::aligned_alloc(page_bytes(), bytes);
  if (pages != nullptr) std::memset(pages, 0, bytes);
  return pages;
}

bool hide_pages(void*, size_t) { return false; }

void unmap_pages(void* pages, size_t) { std::free(pages); }

#else

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void* map_pages(size_t bytes) {
  void* const pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages != MAP_FAILED ? pages : nullptr;
}

bool hide_pages(void* pages, size_t bytes) {
  return mmap(pages, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
              0) == pages;
}

void unmap_pages(void* pages, size_t bytes) { munmap(pages, bytes); }

#endif
}  // namespace hg
