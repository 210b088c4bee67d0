// SPDX-License-Identifier: Apache-2.0
// Pages of the system that can be hidden: any use of a hidden page fails.
#pragma once

#include <cstddef>

namespace hg {

// A power of two.
size_t page_bytes();
// Returns zeroed memory of a whole number of pages, for unmap_pages(); null if memory is exhausted.
void* map_pages(size_t bytes);
// Returns their memory to the system but keeps their addresses: a read or write there ends with the
// system's signal. Returns false without an effect if the system does not support this or has no
// room.
bool hide_pages(void* pages, size_t bytes);
void unmap_pages(void* pages, size_t bytes);

}  // namespace hg
