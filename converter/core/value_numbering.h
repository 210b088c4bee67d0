// SPDX-License-Identifier: Apache-2.0
// Equalities that hold for all data, proved from the graph alone.
#pragma once

#include <string_view>

#include "hg/graph.h"

namespace hg::convert {

// Returns whether a bool is all(a == b) of two values that are computed in the same way from sizes
// alone, such as two causal masks.
bool is_always_true(const Value& value);

// Returns an earlier result of `op`, an op without attributes, for the same x; an invalid Value if
// there is none. Values are the same if the same ops compute them from the same values. So two
// equal data-dependent queries have one result, with one size.
Value computed_before(std::string_view op, const Value& x);

}  // namespace hg::convert
