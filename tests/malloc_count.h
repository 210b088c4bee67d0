// SPDX-License-Identifier: Apache-2.0
// Programs that link malloc_count.cpp count the allocations of shared libraries, too.
#pragma once

#include <cstdint>

namespace hg::test {

int64_t malloc_count();

}  // namespace hg::test
