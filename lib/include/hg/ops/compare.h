// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/compare.cpp: comparisons and logic on two tensors of one dtype. Shapes
// broadcast; the result is bool.
#pragma once

#include "hg/graph.h"

namespace hg {

inline Value eq(const Value& a, const Value& b) { return a.graph()->call("eq", {a, b}); }
inline Value ne(const Value& a, const Value& b) { return a.graph()->call("ne", {a, b}); }
inline Value lt(const Value& a, const Value& b) { return a.graph()->call("lt", {a, b}); }
inline Value le(const Value& a, const Value& b) { return a.graph()->call("le", {a, b}); }
inline Value gt(const Value& a, const Value& b) { return a.graph()->call("gt", {a, b}); }
inline Value ge(const Value& a, const Value& b) { return a.graph()->call("ge", {a, b}); }
inline Value logical_and(const Value& a, const Value& b) {
  return a.graph()->call("logical_and", {a, b});
}
inline Value logical_or(const Value& a, const Value& b) {
  return a.graph()->call("logical_or", {a, b});
}
inline Value logical_xor(const Value& a, const Value& b) {
  return a.graph()->call("logical_xor", {a, b});
}

}  // namespace hg
