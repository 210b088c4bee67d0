// SPDX-License-Identifier: Apache-2.0
// Programs that link failing_allocation.cpp, and that pass the linker --wrap for the functions it
// names, can make one call of calloc, aligned_alloc or posix_memalign fail. The library allocates
// bulk memory with these. With allocation_count.cpp, programs also count the blocks from operator
// new.
#pragma once

#include <cstdint>

namespace hg::test {

// Makes the k-th call from now on, counted from 0, return null.
void fail_allocation(int64_t k);
// Stops failing, and returns whether a call failed.
bool end_failing();
// The number of blocks that are not freed yet.
int64_t live_blocks();

}  // namespace hg::test
