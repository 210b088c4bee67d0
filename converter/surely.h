// SPDX-License-Identifier: Apache-2.0
// What the graph itself proves, whatever the data.
#pragma once

#include "hg/graph.h"

namespace hg::convert {

// Whether a bool is all(a == b) of two values that are computed in the same way from nothing but
// sizes, such as two causal masks.
bool is_surely_true(const Value& value);

}  // namespace hg::convert
