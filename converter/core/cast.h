// SPDX-License-Identifier: Apache-2.0
// Casts of graph values.
#pragma once

#include "hg/graph.h"

namespace hg::convert {

// Returns `value` as dtype; returns the same Value if it already has that dtype.
Value cast(const Value& value, DType dtype);

}  // namespace hg::convert
