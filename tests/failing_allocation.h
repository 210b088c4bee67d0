// SPDX-License-Identifier: Apache-2.0
// Programs that link failing_allocation.cpp, with --wrap of the functions that it names, choose a
// call of calloc, aligned_alloc or posix_memalign to fail; the library allocates bulk memory with
// these. With allocation_count.cpp they also count the blocks that operator new returned.
#pragma once

#include <cstdint>

namespace hg::test {

// The k-th call from now on, counted from 0, gives null.
void fail_allocation(int64_t k);
// Whether that call came; from here on none fails.
bool end_failing();
// Blocks of memory that are not freed yet.
int64_t live_blocks();

}  // namespace hg::test
