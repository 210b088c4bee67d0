// SPDX-License-Identifier: Apache-2.0
// Attention that never stores the score matrix (Dao et al. 2022, FlashAttention, algorithm 1). A group
// handles kBlock queries of one head and passes keys and values through shared memory, kBlock at a time, with
// a running maximum and sum. Eight invocations work on the queries q and q + kBlock / 2.
//
// With HIDES the mask is bool, otherwise it is added.
//
// Parameters: times, keys, scale, strides of q, k, v along time and dim, and of the mask along time and keys;
// the number of leading dims; their sizes, and their strides in q, k, v and mask; how many heads share one of
// k and v.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#ifdef HIDES
#extension GL_EXT_shader_8bit_storage : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint kInvocations = 128;  // 4 kBlock
layout(constant_id = 1) const uint kBlock = 32;
layout(constant_id = 2) const uint kDim = 8;
layout(constant_id = 3) const uint kValueDim = 8;
layout(constant_id = 4) const uint kQueries = 288;  // kBlock (kDim + 1)
layout(constant_id = 5) const uint kKeys = 288;     // kBlock (the larger dim + 1)
layout(constant_id = 6) const uint kScores = 1056;  // kBlock (kBlock + 1)
layout(constant_id = 7) const uint kMyKeys = 4;     // kBlock / 8
layout(constant_id = 8) const uint kMyDims = 1;     // kValueDim / 8, rounded up
layout(constant_id = 9) const uint kHalf = 16;      // kBlock / 2
layout(constant_id = 10) const bool kMask = false;
layout(constant_id = 11) const bool kCausal = false;
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
shared float queries[kQueries];
shared float keys_part[kKeys];
shared float scores[kScores];

void main() {
  const int times = S(AT), keys = S(AT + 1);
  const float scale = F(AT + 2);
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
  const uint me = gl_LocalInvocationID.x, row = me / 8u, lane = me % 8u;
  const int first = int(gl_WorkGroupID.x * kBlock);
  for (uint e = me; e < kBlock * kDim; e += kInvocations) {
    const int time = min(first + int(e / kDim), times - 1);
    queries[e / kDim * (kDim + 1) + e % kDim] =
        float(q[uint(q_at + time * S(AT + 3) + int(e % kDim) * S(AT + 4))]) * scale;
  }
  float top[2], total[2], sum[2][kMyDims];
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    top[i] = -infinity();
    total[i] = 0.0;
    [[unroll]] for (uint j = 0; j < kMyDims; ++j) sum[i][j] = 0.0;
  }
  const int end = kCausal ? min(keys, first + int(kBlock)) : keys;
  for (int key0 = 0; key0 < end; key0 += int(kBlock)) {
    barrier();
    for (uint e = me; e < kBlock * kDim; e += kInvocations) {
      const int key = min(key0 + int(e / kDim), keys - 1);
      keys_part[e / kDim * (kDim + 1) + e % kDim] =
          float(k[uint(k_at + key * S(AT + 5) + int(e % kDim) * S(AT + 6))]);
    }
    barrier();
    float score[2][kMyKeys];
    [[unroll]] for (uint i = 0; i < 2; ++i)
      [[unroll]] for (uint j = 0; j < kMyKeys; ++j) score[i][j] = 0.0;
    for (uint d = 0; d < kDim; ++d) {
      const float q0 = queries[row * (kDim + 1) + d], q1 = queries[(row + kHalf) * (kDim + 1) + d];
      [[unroll]] for (uint j = 0; j < kMyKeys; ++j) {
        const float x = keys_part[(lane + 8 * j) * (kDim + 1) + d];
        score[0][j] += q0 * x;
        score[1][j] += q1 * x;
      }
    }
    [[unroll]] for (uint i = 0; i < 2; ++i) {
      const int time = first + int(row + i * kHalf);
      [[unroll]] for (uint j = 0; j < kMyKeys; ++j) {
        const int key = key0 + int(lane + 8 * j);
        bool hides = key >= keys || kCausal && key > time;
        if (kMask) {
          const uint at = uint(mask_at + min(time, times - 1) * S(AT + 9) + min(key, keys - 1) * S(AT + 10));
#ifdef HIDES
          hides = hides || uint(mask[at]) == 0u;
#else
          score[i][j] += float(mask[at]);
#endif
        }
        scores[(row + i * kHalf) * (kBlock + 1) + lane + 8 * j] = hides ? -infinity() : score[i][j];
      }
    }
    barrier();
    for (uint e = me; e < kBlock * kValueDim; e += kInvocations) {
      const int key = min(key0 + int(e / kValueDim), keys - 1);
      keys_part[e / kValueDim * (kValueDim + 1) + e % kValueDim] =
          float(v[uint(v_at + key * S(AT + 7) + int(e % kValueDim) * S(AT + 8))]);
    }
    // If all keys so far are hidden from a query, its maximum stays -inf, and its weights stay 0.
    [[unroll]] for (uint i = 0; i < 2; ++i) {
      const uint at = (row + i * kHalf) * (kBlock + 1);
      const float old_top = top[i];
      for (uint p = 0; p < kBlock; ++p) {
        const float s = scores[at + p];
        top[i] = is_nan(top[i]) || top[i] > s ? top[i] : s;
      }
      const float shrink = old_top == top[i] ? 1.0 : op_exp(old_top - top[i]);
      total[i] *= shrink;
      [[unroll]] for (uint j = 0; j < kMyDims; ++j) sum[i][j] *= shrink;
    }
    barrier();
    [[unroll]] for (uint i = 0; i < 2; ++i)
      [[unroll]] for (uint j = 0; j < kMyKeys; ++j) {
        const uint at = (row + i * kHalf) * (kBlock + 1) + lane + 8 * j;
        const float s = scores[at];
        scores[at] = s == -infinity() ? 0.0 : op_exp(s - top[i]);
      }
    barrier();
    for (uint p = 0; p < kBlock; ++p) {
      const float p0 = scores[row * (kBlock + 1) + p], p1 = scores[(row + kHalf) * (kBlock + 1) + p];
      total[0] += p0;
      total[1] += p1;
      [[unroll]] for (uint j = 0; j < kMyDims; ++j) {
        const float x = keys_part[p * (kValueDim + 1) + min(lane + 8 * j, kValueDim - 1)];
        sum[0][j] += p0 * x;
        sum[1][j] += p1 * x;
      }
    }
  }
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    const uint time = uint(first) + row + i * kHalf;
    if (time >= uint(times)) continue;
    // The result of a query that sees no key is 0.
    const float weight = total[i] == 0.0 ? 0.0 : 1.0 / total[i];
    const uint to = P(0) + (gl_WorkGroupID.y * uint(times) + time) * kValueDim;
    [[unroll]] for (uint j = 0; j < kMyDims; ++j)
      if (lane + 8 * j < kValueDim) y[to + lane + 8 * j] = REAL(sum[i][j] * weight);
  }
}
