// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/pointwise.cpp: elementwise selection, limits and conversion.
#pragma once

#include "hg/graph.h"

namespace hg {

// Converts to another dtype as torch's Tensor.to: floats are truncated toward zero, bool is x != 0.
inline Value cast(const Value& x, DType dtype) {
  NamedAttrs attrs(1);
  attrs[0].name = "dtype";
  attrs[0].value = dtype;
  return x.graph()->call("cast", {x}, attrs);
}
// condition ? a : b, elementwise. condition is bool. All three broadcast.
inline Value where(const Value& condition, const Value& a, const Value& b) {
  return condition.graph()->call("where", {condition, a, b});
}
// min(max(x, low), high). One limit may be an empty Value. All broadcast.
inline Value clamp(const Value& x, const Value& low, const Value& high) {
  return x.graph()->call("clamp", {x, low, high});
}
// a + weight * (b - a). All broadcast.
inline Value lerp(const Value& a, const Value& b, const Value& weight) {
  return a.graph()->call("lerp", {a, b, weight});
}

}  // namespace hg
