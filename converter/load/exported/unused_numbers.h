// SPDX-License-Identifier: Apache-2.0
// Finds sizes and offsets that an exported program computes only for assertions.
#pragma once

#include "converter/core/script.h"

namespace hg::convert {

// Leaves out nodes that only make numbers, constants and lists that nobody reads.
void drop_unused_numbers(ScriptBlock& block);

}  // namespace hg::convert
