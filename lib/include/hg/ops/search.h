// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/search.cpp.
#pragma once

#include <optional>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Returns the distinct elements in ascending order, the index of each element of x among them (i64,
// x's shape), and the count of each (i64). Their number depends on data.
//
// With dim, compares slices along it instead of elements, and the second result is [size of dim].
// consecutive: merges only equal neighbors, in the order of x.
inline std::vector<Value> unique(const Value& x, std::optional<Dim> dim = {},
                                 bool consecutive = false) {
  NamedAttrs attrs = {{"consecutive", consecutive}};
  if (dim) attrs.push_back({"dim", *dim});
  return x.graph()->calls("unique", {x}, attrs);
}
// For each value, the first position in `sorted` (along its last dim) at which inserting it keeps
// the order; the last one if right. i64.
inline Value searchsorted(const Value& sorted, const Value& values, bool right = false) {
  return sorted.graph()->call("searchsorted", {sorted, values}, {{"right", right}});
}
// True for each element of x that occurs in test: bool.
inline Value isin(const Value& x, const Value& test) { return x.graph()->call("isin", {x, test}); }
// Number of occurrences of 0, 1, ... in x, or the sums of their weights. x: i64[n], not negative.
// The result has at least minlength elements; its size depends on data.
inline Value bincount(const Value& x, const Value& weights = {}, Dim minlength = 0) {
  return x.graph()->call("bincount", {x, weights}, {{"minlength", minlength}});
}
// Number of elements in each of `bins` equal intervals of [min, max], or of the range of x if min
// equals max.
inline Value histc(const Value& x, Dim bins = 100, double min = 0, double max = 0) {
  return x.graph()->call("histc", {x}, {{"bins", bins}, {"min", min}, {"max", max}});
}

}  // namespace hg
