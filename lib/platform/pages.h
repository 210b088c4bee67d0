// SPDX-License-Identifier: Apache-2.0
// Pages of the system, which whoever finds them hidden cannot use.
#pragma once

#include <cstddef>

namespace hg {

// A power of two.
size_t page_bytes();
// Zeros of a whole number of pages, for unmap_pages(); null when memory is short.
void* map_pages(size_t bytes);
// Gives the system their memory and keeps their addresses: who reads or writes there ends with the
// system's signal. False, and nothing is done, where the system has no such thing or no room.
bool hide_pages(void* pages, size_t bytes);
void unmap_pages(void* pages, size_t bytes);

}  // namespace hg
