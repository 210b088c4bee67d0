// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/search.cpp.
#pragma once

#include <optional>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Distinct elements in ascending order, for each element of x the place of its value (i64, of x's
// shape), and how often each occurs (i64). How many there are is known only when it runs.
//
// With dim, slices along it are compared instead of elements, and inverse is [size of dim].
// consecutive: only neighbours that are equal become one, in the order of x.
inline std::vector<Value> unique(const Value& x, std::optional<Dim> dim = {},
                                 bool consecutive = false) {
  NamedAttrs attrs = {{"consecutive", consecutive}};
  if (dim) attrs.push_back({"dim", *dim});
  return x.graph()->calls("unique", {x}, attrs);
}
// For each value the first place in `sorted` (along its last dim) before which it can be inserted;
// with right, the last such place. i64.
inline Value searchsorted(const Value& sorted, const Value& values, bool right = false) {
  return sorted.graph()->call("searchsorted", {sorted, values}, {{"right", right}});
}
// Whether each element of x is among those of test: bool.
inline Value isin(const Value& x, const Value& test) { return x.graph()->call("isin", {x, test}); }
// How often each number from 0 on stands in x, i64[n] and not negative: i64, or the sums of their
// weights. `minlength` numbers at least; how many there are is known only when it runs.
inline Value bincount(const Value& x, const Value& weights = {}, Dim minlength = 0) {
  return x.graph()->call("bincount", {x, weights}, {{"minlength", minlength}});
}
// Elements in each of `bins` equal parts of [min, max]; of the range of x when min equals max.
inline Value histc(const Value& x, Dim bins = 100, double min = 0, double max = 0) {
  return x.graph()->call("histc", {x}, {{"bins", bins}, {"min", min}, {"max", max}});
}

}  // namespace hg
