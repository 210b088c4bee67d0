// SPDX-License-Identifier: Apache-2.0
// Removes sizes and offsets that an exported program computes only for assertions.
#pragma once

#include "converter/core/script.h"

namespace hg::convert {

// Removes unused nodes that only make numbers, constants and lists.
void drop_unused_numbers(ScriptBlock& block);

}  // namespace hg::convert
