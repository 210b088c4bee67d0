// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/composite.cpp (gates, similarities, distances) and for to_integer.
#pragma once

#include "hg/graph.h"

namespace hg {

// a * sigmoid(b), where a and b are the halves of x along dim.
inline Value glu(const Value& x, int dim = -1) {
  return x.graph()->call("glu", {x}, {{"dim", dim}});
}
// x > 0 ? x : weight * x. weight: [1], or [channels] for dim 1 of x.
inline Value prelu(const Value& x, const Value& weight) {
  return x.graph()->call("prelu", {x, weight});
}
// sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps)) along dim. Shapes broadcast.
inline Value cosine_similarity(const Value& x1, const Value& x2, int dim = 1, double eps = 1e-8) {
  return x1.graph()->call("cosine_similarity", {x1, x2}, {{"dim", dim}, {"eps", eps}});
}
// The p-norm of x1 - x2 + eps over the last dim. Shapes broadcast.
inline Value pairwise_distance(const Value& x1, const Value& x2, double p = 2, double eps = 1e-6,
                               bool keepdim = false) {
  return x1.graph()->call("pairwise_distance", {x1, x2},
                          {{"p", p}, {"eps", eps}, {"keepdim", keepdim}});
}

// Converts to i64 as Python's int() does: truncates toward zero. The run fails if i64 cannot hold a
// value.
inline Value to_integer(const Value& x) { return x.graph()->call("to_integer", {x}); }

}  // namespace hg
