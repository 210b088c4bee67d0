// SPDX-License-Identifier: Apache-2.0
// Casts of graph values, and sizes as values.
#pragma once

#include "hg/graph.h"

namespace hg::convert {

// Returns `value` as dtype; returns the same Value if it already has that dtype.
Value cast(const Value& value, DType dtype);
// Returns a size as an i64[] value.
Value size_value(Graph& g, const Dim& size);

}  // namespace hg::convert
