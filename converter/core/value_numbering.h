// SPDX-License-Identifier: Apache-2.0
// Equalities that the graph itself proves, whatever the data.
#pragma once

#include <string_view>

#include "hg/graph.h"

namespace hg::convert {

// Whether a bool is all(a == b) of two values that are computed in the same way from nothing but
// sizes, such as two causal masks.
bool is_always_true(const Value& value);

// What `op`, one without attributes, has given for the same x in this graph, where the same is what
// the same ops compute of the same values: two questions of data get one answer, of one size. Not
// valid when there is none.
Value computed_before(std::string_view op, const Value& x);

}  // namespace hg::convert
