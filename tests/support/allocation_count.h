// SPDX-License-Identifier: Apache-2.0
// Programs that link allocation_count.cpp count their allocations by malloc and similar functions.
#pragma once

#include <cstdint>

namespace hg::test {

int64_t allocation_count();

}  // namespace hg::test
