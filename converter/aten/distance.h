// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <vector>

#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"
#include "hg/ops/unary.h"
#include "lib/graph/real.h"

namespace hg::convert::rows {

// The p-norm of differences along the last dim, with torch's semantics for distances, if only the
// graph knows p. For p = 0, NaN counts as NaN. For infinite p, NaN is ignored if `passes_nan`.
inline Value distance_of(const Value& d, const Real& p, bool passes_nan) {
  const std::vector<Dim> last = {-1};
  const Value size = abs(d), order = p.like(d), zero = number_like(d, 0);
  const Value usual = call_with(*d.graph(), "norm", {d}, {{"ord", p}}, {{"dim", last}});
  const Value some = sum(minimum(ceil(size), number_like(d, 1)), last, false);
  const Value y = where(eq(order, zero), some, usual);
  if (!passes_nan) return y;
  const Value most = amax(where(isnan(size), zero, size), last, false);
  return where(eq(order, number_like(d, HUGE_VAL)), most, y);
}

}  // namespace hg::convert::rows
