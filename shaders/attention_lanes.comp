// SPDX-License-Identifier: Apache-2.0
// Attention as in attention.comp, with its parameters, for a group that is a subgroup of eight lanes of a CPU
// vector. An invocation holds kCols queries and their partial results, and walks over the keys; each lane
// loads one element of a key and broadcasts it to the others.
//
// With HIDES the mask is bool, otherwise it is added.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#ifdef HIDES
#extension GL_EXT_shader_8bit_storage : require
#endif
#extension GL_KHR_shader_subgroup_ballot : require
#define LANES 8
layout(local_size_x = LANES) in;
layout(constant_id = 0) const uint kDim = 8;
layout(constant_id = 1) const uint kValueDim = 8;
layout(constant_id = 2) const bool kMask = false;
layout(constant_id = 3) const bool kCausal = false;
layout(constant_id = 4) const uint kCols = 1;
#include "common.glsl"
#include "math.glsl"
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer Q { REAL q[]; };
layout(binding = 3) readonly buffer K { REAL k[]; };
layout(binding = 4) readonly buffer V { REAL v[]; };
#ifdef HIDES
layout(binding = 5) readonly buffer Mask { uint8_t mask[]; };
#else
layout(binding = 5) readonly buffer Mask { REAL mask[]; };
#endif
#define AT 5

float query[kDim][kCols], sum[kValueDim][kCols];
float score[kCols];

// Runs body(d, x), with x = element d of the row of `from` at `at`, for d < size.
#define PART(e, size, body)                               \
  if (d0 + e < size) {                                    \
    const uint d = d0 + e;                                \
    const float x = subgroupBroadcast(told, e);           \
    body                                                  \
  }
#define EACH(from, at, step, size, body)                                                          \
  [[unroll]] for (uint d0 = 0; d0 < size; d0 += LANES) {                                          \
    const float told = float(from[uint((at) + int(min(d0 + gl_SubgroupInvocationID, size - 1)) * step)]); \
    PART(0, size, body) PART(1, size, body) PART(2, size, body) PART(3, size, body)               \
    PART(4, size, body) PART(5, size, body) PART(6, size, body) PART(7, size, body)               \
  }

void main() {
  const int times = S(AT), keys = S(AT + 1);
  const float scale = F(AT + 2);
  const int q_time = S(AT + 3), q_dim = S(AT + 4), k_time = S(AT + 5), k_dim = S(AT + 6);
  const int v_time = S(AT + 7), v_dim = S(AT + 8), mask_time = S(AT + 9), mask_key = S(AT + 10);
  const uint rank = P(AT + 12);
  int q_at = int(P(1)), k_at = int(P(2)), v_at = int(P(3)), mask_at = int(P(4));
  uint rest = gl_WorkGroupID.y;
  for (uint d = rank; d-- > 0u;) {
    const uint size = P(AT + 13 + d), at = rest % size;
    rest /= size;
    const int key_at = int(d + 1 == rank ? at / P(AT + 11) : at);
    q_at += int(at) * S(AT + 13 + rank + d);
    k_at += key_at * S(AT + 13 + 2 * rank + d);
    v_at += key_at * S(AT + 13 + 3 * rank + d);
    mask_at += int(at) * S(AT + 13 + 4 * rank + d);
  }
  const int group_first = int(gl_WorkGroupID.x * LANES * kCols);
  int time[kCols];
  float top[kCols], total[kCols];
  [[unroll]] for (uint j = 0; j < kCols; ++j) {
    time[j] = group_first + int(LANES * j + gl_LocalInvocationID.x);
    top[j] = -infinity();
    total[j] = 0.0;
    const int from = q_at + min(time[j], times - 1) * q_time;
    [[unroll]] for (uint d = 0; d < kDim; ++d) query[d][j] = float(q[uint(from + int(d) * q_dim)]) * scale;
    [[unroll]] for (uint d = 0; d < kValueDim; ++d) sum[d][j] = 0.0;
  }
  const int end = kCausal ? min(keys, group_first + int(LANES * kCols)) : keys;
  for (int key = 0; key < end; ++key) {
    [[unroll]] for (uint j = 0; j < kCols; ++j) score[j] = 0.0;
    EACH(k, k_at + key * k_time, k_dim, kDim,
         [[unroll]] for (uint j = 0; j < kCols; ++j) score[j] += x * query[d][j];)
    [[unroll]] for (uint j = 0; j < kCols; ++j) {
      bool hides = kCausal && key > time[j];
      if (kMask) {
        const uint at = uint(mask_at + min(time[j], times - 1) * mask_time + key * mask_key);
#ifdef HIDES
        hides = hides || uint(mask[at]) == 0u;
#else
        score[j] += float(mask[at]);
#endif
      }
      if (hides) score[j] = -infinity();
      const float old_top = top[j];
      top[j] = score[j] > old_top ? score[j] : old_top;
      const float shrink = old_top == top[j] ? 1.0 : op_exp(old_top - top[j]);
      score[j] = score[j] == -infinity() ? 0.0 : op_exp(score[j] - top[j]);
      total[j] = total[j] * shrink + score[j];
      [[unroll]] for (uint d = 0; d < kValueDim; ++d) sum[d][j] *= shrink;
    }
    EACH(v, v_at + key * v_time, v_dim, kValueDim,
         [[unroll]] for (uint j = 0; j < kCols; ++j) sum[d][j] += x * score[j];)
  }
  [[unroll]] for (uint j = 0; j < kCols; ++j) {
    if (time[j] >= times) continue;
    // The result of a query that sees no key is 0.
    const float weight = total[j] == 0.0 ? 0.0 : 1.0 / total[j];
    const uint to = P(0) + (gl_WorkGroupID.y * uint(times) + uint(time[j])) * kValueDim;
    [[unroll]] for (uint d = 0; d < kValueDim; ++d) y[to + d] = REAL(sum[d][j] * weight);
  }
}
