// SPDX-License-Identifier: Apache-2.0
// Exported programs compute sizes and offsets only to assert something of them.
#pragma once

#include "converter/script/script.h"

namespace hg::convert {

// Leaves out nodes that only make numbers, constants and lists that nobody reads.
void drop_unused_numbers(ScriptBlock& block);

}  // namespace hg::convert
