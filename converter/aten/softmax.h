// SPDX-License-Identifier: Apache-2.0
// A softmax without NaN for rows that are -inf alone.
#pragma once

#include <cmath>
#include <vector>

#include "hg/graph.h"

namespace hg::convert::rows {

// If all elements along dim are -inf, the result is 0 instead of NaN.
inline Value safe_softmax(const Value& x, const Dim& dim) {
  Graph& g = *x.graph();
  const std::vector<Dim> dims = x.rank() == 0 ? std::vector<Dim>{} : std::vector<Dim>{dim};
  const Value lowest = g.scalar(-HUGE_VAL, x.dtype()), zero = g.scalar(0.0, x.dtype());
  const Value dead = g.call("all", {g.call("eq", {x, lowest})}, {{"dim", dims}, {"keepdim", true}});
  const Value y = g.call("softmax", {g.call("where", {dead, zero, x})}, {{"dim", dim}});
  return g.call("where", {dead, zero, y});
}

}  // namespace hg::convert::rows
