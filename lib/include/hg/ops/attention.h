// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/attention.cpp and rope.cpp.
#pragma once

#include <optional>

#include "hg/graph.h"

namespace hg {

// softmax(q k^T scale + mask) v. q: [..., heads, time, dim], k: [..., kv_heads, keys, dim],
// v: [..., kv_heads, keys, value_dim] -> [..., heads, time, value_dim]; heads is a multiple of
// kv_heads. mask: bool (false hides a key) or added; broadcasts to [..., heads, time, keys]. causal
// hides the keys behind a query's own position. scale: 1 / sqrt(dim) when not given.
inline Value attention(const Value& q, const Value& k, const Value& v, const Value& mask = {},
                       bool causal = false, std::optional<double> scale = {}) {
  NamedAttrs attrs = {{"causal", causal}};
  if (scale) attrs.push_back({"scale", *scale});
  return q.graph()->call("attention", {q, k, v, mask}, attrs);
}
// x cos + [-b, a] sin, where [a, b] = x are the halves of the last dim: rotary position embeddings
// (Su et al. 2021). cos and sin broadcast to x.
inline Value rope(const Value& x, const Value& cos, const Value& sin) {
  return x.graph()->call("rope", {x, cos, sin});
}

}  // namespace hg
