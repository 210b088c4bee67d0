// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/sort.cpp. Each returns values and their indices (i64) along dim. NaN is
// larger than every number.
#pragma once

#include <optional>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Stable: equal elements keep their order.
inline std::vector<Value> sort(const Value& x, Dim dim = -1, bool descending = false) {
  return x.graph()->calls("sort", {x}, {{"dim", dim}, {"descending", descending}});
}
// The k largest or smallest elements, sorted.
inline std::vector<Value> topk(const Value& x, Dim k, Dim dim = -1, bool largest = true) {
  return x.graph()->calls("topk", {x}, {{"k", k}, {"dim", dim}, {"largest", largest}});
}
// The k-th smallest element, k counting from 1.
inline std::vector<Value> kthvalue(const Value& x, Dim k, Dim dim = -1, bool keepdim = false) {
  return x.graph()->calls("kthvalue", {x}, {{"k", k}, {"dim", dim}, {"keepdim", keepdim}});
}
// The lower of two middle elements; NaN if any element is NaN. Without dim, of all elements.
inline std::vector<Value> median(const Value& x, std::optional<Dim> dim = {},
                                 bool keepdim = false) {
  NamedAttrs attrs = {{"keepdim", keepdim}};
  if (dim) attrs.push_back({"dim", *dim});
  return x.graph()->calls("median", {x}, attrs);
}
// As median, ignoring NaN.
inline std::vector<Value> nanmedian(const Value& x, std::optional<Dim> dim = {},
                                    bool keepdim = false) {
  NamedAttrs attrs = {{"keepdim", keepdim}};
  if (dim) attrs.push_back({"dim", *dim});
  return x.graph()->calls("nanmedian", {x}, attrs);
}
// The most frequent element, the smallest of several, and its last index.
inline std::vector<Value> mode(const Value& x, Dim dim = -1, bool keepdim = false) {
  return x.graph()->calls("mode", {x}, {{"dim", dim}, {"keepdim", keepdim}});
}

}  // namespace hg
