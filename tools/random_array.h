// SPDX-License-Identifier: Apache-2.0
// Arrays of random numbers; equal seeds give equal numbers on every machine.
#pragma once

#include <cstdint>

#include "hg/array.h"
#include "tools/command_line/input_text.h"

namespace hg::tools {

// Without a range: floats in [-1, 1); integers and booleans 0 or 1. Fails if the dtype cannot hold
// the whole range.
Result<Array> random_array(DType dtype, const Sizes& shape, const Range& range, uint64_t seed);

}  // namespace hg::tools
