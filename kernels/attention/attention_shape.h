// SPDX-License-Identifier: Apache-2.0
// The layout of attention heads, and which keys are hidden from queries. Shared by attention and
// its gradient, whose first inputs are the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "hg/kernel.h"
#include "kernels/element.h"

namespace hg::kernels {

struct AttentionShape {
  Sizes lead;                               // batch..., heads
  Sizes q_lead, k_lead, v_lead, mask_lead;  // strides of those dims
  // Of the scales of k and v, if these are levels.
  Sizes scale_lead[2];
  int64_t scale_time[2] = {};
  int64_t heads_per_key_head = 1;
  int64_t q_time = 0, q_dim = 0, k_time = 0, k_dim = 0, v_time = 0, v_dim = 0;  // strides
  int64_t mask_time = 0, mask_key = 0;
  int64_t times = 0, keys = 0, dim = 0, value_dim = 0;
  double scale = 1;
  bool causal = false;
};

// For the inputs q, k, v and mask?.
inline AttentionShape attention_shape(const PrepareContext& c) {
  AttentionShape s;
  const Tensor &q = c.in(0), &k = c.in(1), &v = c.in(2);
  const int rank = q.rank();
  s.times = q.shape[rank - 2];
  s.dim = q.shape[rank - 1];
  s.keys = k.shape[rank - 2];
  s.value_dim = v.shape[rank - 1];
  s.q_time = q.strides[rank - 2];
  s.q_dim = q.strides[rank - 1];
  s.k_time = k.strides[rank - 2];
  s.k_dim = k.strides[rank - 1];
  s.v_time = v.strides[rank - 2];
  s.v_dim = v.strides[rank - 1];
  auto mask_stride = [&](int i) -> int64_t {  // i counts from the end
    if (!c.has(3)) return 0;
    const Tensor& mask = c.in(3);
    if (i > mask.rank() || mask.shape[mask.rank() - i] == 1) return 0;
    return mask.strides[mask.rank() - i];
  };
  s.mask_key = mask_stride(1);
  s.mask_time = mask_stride(2);
  for (int i = 0; i < rank - 2; ++i) {
    s.lead.push_back(q.shape[i]);
    s.q_lead.push_back(q.strides[i]);
    s.k_lead.push_back(k.strides[i]);
    s.v_lead.push_back(v.strides[i]);
    s.mask_lead.push_back(mask_stride(rank - i));
  }
  for (int i = 0; i < 2; ++i) {
    if (k.dtype != i8) continue;
    const Tensor& scales = c.in(4 + i);
    s.scale_time[i] = scales.strides[rank - 2];
    for (int d = 0; d < rank - 2; ++d) s.scale_lead[i].push_back(scales.strides[d]);
  }
  if (rank > 2 && k.shape[rank - 3] > 0)
    s.heads_per_key_head = std::max<int64_t>(1, q.shape[rank - 3] / k.shape[rank - 3]);
  s.scale = c.attrs().has("scale")
                ? c.attrs().real("scale")
                : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, s.dim)));
  s.causal = c.attrs().flag("causal");
  return s;
}

// Where one head's matrices start.
struct AttentionOffsets {
  int64_t q = 0, k = 0, v = 0, mask = 0;
  int64_t scale[2] = {};
};
inline AttentionOffsets attention_offsets(const AttentionShape& s, int64_t head) {
  AttentionOffsets o;
  for (int i = s.lead.rank() - 1; i >= 0; --i) {
    const int64_t at = head % s.lead[i];
    head /= s.lead[i];
    const int64_t key_at = i == s.lead.rank() - 1 ? at / s.heads_per_key_head : at;
    o.q += at * s.q_lead[i];
    o.k += key_at * s.k_lead[i];
    o.v += key_at * s.v_lead[i];
    o.mask += at * s.mask_lead[i];
    for (int t = 0; t < 2; ++t)
      if (!s.scale_lead[t].empty()) o.scale[t] += key_at * s.scale_lead[t][i];
  }
  return o;
}

// scale * score + mask, or -inf if the key is hidden.
template <class T>
struct AttentionMask {
  const bool* hides = nullptr;  // false hides a key
  const T* adds = nullptr;
  int64_t time = 0, key = 0;
  bool causal = false;
  Wide<T> operator()(Wide<T> score, int64_t t, int64_t k) const {
    if (causal && k > t) return -std::numeric_limits<Wide<T>>::infinity();
    if (hides && !hides[t * time + k * key]) return -std::numeric_limits<Wide<T>>::infinity();
    return adds ? score + load(adds + t * time + k * key) : score;
  }
};
template <class T>
AttentionMask<T> attention_mask(const RunContext& c, const AttentionShape& s, int64_t offset) {
  AttentionMask<T> m{nullptr, nullptr, s.mask_time, s.mask_key, s.causal};
  if (!c.has(3)) return m;
  if (c.in(3).dtype == boolean)
    m.hides = c.in(3).as<bool>() + offset;
  else
    m.adds = c.in(3).as<T>() + offset;
  return m;
}

}  // namespace hg::kernels
