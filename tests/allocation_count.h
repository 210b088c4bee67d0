// SPDX-License-Identifier: Apache-2.0
// Programs that link allocation_count.cpp count their calls of operator new.
#pragma once

#include <cstdint>

namespace hg::test {

int64_t allocation_count();

}  // namespace hg::test
