// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/matmul.cpp and grouped_mm.cpp.
#pragma once

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

// a: [..., m, k] or [k], b: [..., k, n] or [k] -> [..., m, n]. Batch dims broadcast. The dim that a
// vector lacks is also absent from the result. Any dtype but bool.
inline Value matmul(const Value& a, const Value& b) { return a.graph()->call("matmul", {a, b}); }

// activation(x weight^T + bias + residual). x: [..., in], weight: [out, in], bias: [out], residual:
// [..., out].
inline Value linear(const Value& x, const Value& weight, const Value& bias = {},
                    const Value& residual = {}, Activation activation = Activation::none) {
  return x.graph()->call("linear", {x, weight, bias, residual}, {{"activation", activation}});
}

// p-norms of the differences of all pairs of rows: a: [..., p, m], b: [..., r, m] -> [..., p, r].
inline Value cdist(const Value& a, const Value& b, double p = 2) {
  return a.graph()->call("cdist", {a, b}, {{"p", p}});
}

// Matrix products of groups of rows. Group e ends before row ends[e], where group e + 1 begins.
// ends: i64[groups]. Floats only.
//
// - a: [rows, k], b: [groups, k, n] -> [rows, n]: each row times the matrix of its group; zeros
//   after the last end.
// - a: [m, rows], b: [rows, n] -> [groups, m, n]: sums over the rows of each group.
inline Value grouped_mm(const Value& a, const Value& b, const Value& ends) {
  return a.graph()->call("grouped_mm", {a, b, ends});
}

}  // namespace hg
