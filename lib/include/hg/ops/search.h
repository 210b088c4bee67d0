// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/search.cpp.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

// Distinct elements in ascending order, for each element of x the place of its value (i64, of x's
// shape), and how often each occurs (i64). How many there are is known only when it runs.
inline std::vector<Value> unique(const Value& x) { return x.graph()->calls("unique", {x}); }
// For each value the first place in `sorted` (along its last dim) before which it can be inserted;
// with right, the last such place. i64.
inline Value searchsorted(const Value& sorted, const Value& values, bool right = false) {
  return sorted.graph()->call("searchsorted", {sorted, values}, {{"right", right}});
}
// Whether each element of x is among those of test: bool.
inline Value isin(const Value& x, const Value& test) { return x.graph()->call("isin", {x, test}); }
// Elements in each of `bins` equal parts of [min, max]; of the range of x when min equals max.
inline Value histc(const Value& x, Dim bins = 100, double min = 0, double max = 0) {
  return x.graph()->call("histc", {x}, {{"bins", bins}, {"min", min}, {"max", max}});
}

}  // namespace hg
