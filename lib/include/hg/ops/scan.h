// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/scan.cpp: cumulative ops along one dim, in x's shape.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

// Integers and bool return i64.
inline Value cumsum(const Value& x, Dim dim) {
  return x.graph()->call("cumsum", {x}, {{"dim", dim}});
}
inline Value cumprod(const Value& x, Dim dim) {
  return x.graph()->call("cumprod", {x}, {{"dim", dim}});
}
// log of the cumulative sum of e^x. Floats only.
inline Value logcumsumexp(const Value& x, Dim dim) {
  return x.graph()->call("logcumsumexp", {x}, {{"dim", dim}});
}
// Largest and smallest element so far, and their indices (i64; the last of equal ones). NaN from
// the first NaN on.
inline std::vector<Value> cummax(const Value& x, Dim dim) {
  return x.graph()->calls("cummax", {x}, {{"dim", dim}});
}
inline std::vector<Value> cummin(const Value& x, Dim dim) {
  return x.graph()->calls("cummin", {x}, {{"dim", dim}});
}

}  // namespace hg
