// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/attention.cpp and rope.cpp.
#pragma once

#include <optional>

#include "hg/graph.h"

namespace hg {

// Scaled dot product attention: softmax(q k^T * scale + mask) v.
//
// - q: [..., heads, time, dim], k: [..., kv_heads, keys, dim], v: [..., kv_heads, keys, value_dim].
//   heads must be a multiple of kv_heads.
// - Result: [..., heads, time, value_dim].
// - mask: bool (false hides a key) or added to the scores. Broadcasts to [..., heads, time, keys].
// - causal: hides keys after the query's position.
// - scale: 1 / sqrt(dim) by default.
//
// A query that sees no key gets zeros.
inline Value attention(const Value& q, const Value& k, const Value& v, const Value& mask = {},
                       bool causal = false, std::optional<double> scale = {}) {
  NamedAttrs attrs = {{"causal", causal}};
  if (scale) attrs.push_back({"scale", *scale});
  return q.graph()->call("attention", {q, k, v, mask}, attrs);
}
// Rotary position embedding (Su et al. 2021): x cos + [-b, a] sin, where a and b are the halves of
// the last dim of x. cos and sin broadcast to x.
inline Value rope(const Value& x, const Value& cos, const Value& sin) {
  return x.graph()->call("rope", {x, cos, sin});
}

}  // namespace hg
