// SPDX-License-Identifier: Apache-2.0
// Programs that link malloc_count.cpp also count the allocations of shared libraries.
#pragma once

#include <cstdint>

namespace hg::test {

int64_t malloc_count();

}  // namespace hg::test
