// SPDX-License-Identifier: Apache-2.0
#include <windows.h>

#include "lib/platform/pages.h"

namespace hg {

size_t page_bytes() {
  SYSTEM_INFO system;
  GetSystemInfo(&system);
  return system.dwPageSize;
}

void* map_pages(size_t bytes) {
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

bool hide_pages(void* pages, size_t bytes) { return VirtualFree(pages, bytes, MEM_DECOMMIT) != 0; }

void unmap_pages(void* pages, size_t) { VirtualFree(pages, 0, MEM_RELEASE); }

}  // namespace hg
