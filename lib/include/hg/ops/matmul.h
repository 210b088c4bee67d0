// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/matmul.cpp and grouped_mm.cpp.
#pragma once

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

// a: [..., m, k] or [k], b: [..., k, n] or [k] -> [..., m, n]; batch dims broadcast, a vector's
// missing dim is missing in the result too. Any dtype but bool.
inline Value matmul(const Value& a, const Value& b) { return a.graph()->call("matmul", {a, b}); }

// activation(x weight^T + bias + residual). x: [..., in], weight: [out, in], bias: [out],
// residual: [..., out].
inline Value linear(const Value& x, const Value& weight, const Value& bias = {},
                    const Value& residual = {}, Activation activation = Activation::none) {
  return x.graph()->call("linear", {x, weight, bias, residual}, {{"activation", activation}});
}

// p-norms of all differences of rows: a: [..., p, m], b: [..., r, m] -> [..., p, r].
inline Value cdist(const Value& a, const Value& b, double p = 2) {
  return a.graph()->call("cdist", {a, b}, {{"p", p}});
}

// Products of groups of rows; group e ends before row ends[e], where the next one begins. ends:
// i64[groups]. a: [rows, k], b: [groups, k, n] -> [rows, n], each row by the matrix of its group; or
// a: [m, rows], b: [rows, n] -> [groups, m, n], sums over the rows of each group. Floats only.
inline Value grouped_mm(const Value& a, const Value& b, const Value& ends) {
  return a.graph()->call("grouped_mm", {a, b, ends});
}

}  // namespace hg
