// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/special.cpp: floats only.
#pragma once

#include "hg/graph.h"

namespace hg {

// sum over k >= 0 of (k + q)^-s
inline Value zeta(const Value& s, const Value& q) { return s.graph()->call("zeta", {s, q}); }
// The n-th derivative of digamma.
inline Value polygamma(const Value& x, Dim n) {
  return x.graph()->call("polygamma", {x}, {{"n", n}});
}
inline Value erfcx(const Value& x) { return x.graph()->call("erfcx", {x}); }  // e^(x^2) erfc(x)
// Regularised incomplete gamma functions, lower and upper.
inline Value igamma(const Value& a, const Value& x) { return a.graph()->call("igamma", {a, x}); }
inline Value igammac(const Value& a, const Value& x) { return a.graph()->call("igammac", {a, x}); }

}  // namespace hg
