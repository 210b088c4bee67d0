// SPDX-License-Identifier: Apache-2.0
// The product of matmul.comp, with its parameters, for few rows of a: reading b dominates the time. A group
// computes kRows x kWide results; kDeep invocations share the steps of each.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint kInvocations = 128;  // kDeep kWide
layout(constant_id = 1) const uint kRows = 1;
layout(constant_id = 2) const uint kDeep = 32;
layout(constant_id = 3) const uint kWide = 4;
layout(constant_id = 4) const uint kParts = 128;  // kRows kInvocations
layout(constant_id = 5) const bool kAlong = true;  // neighboring invocations read along k
layout(constant_id = 6) const bool kBias = false;
layout(constant_id = 7) const bool kResidual = false;
layout(constant_id = 8) const uint kActivation = 0;
#include "common.glsl"
#include "activation.glsl"
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer A { REAL a[]; };
layout(binding = 4) readonly buffer Bias { REAL bias[]; };
layout(binding = 5) readonly buffer Residual { REAL residual[]; };
#ifdef LEVELS
#define AT 7
#define SCALES 6
#define CONSTANTS 9
#define PARAMS (AT + 9)
#include "levels.glsl"
#define B_AT(p, s) weight_at(p, s)
#else
#define AT 5
layout(binding = 3) readonly buffer B { REAL b[]; };
#define B_AT(p, s) float(b[uint(b_at + int(p) * S(AT + 5) + int(s) * S(AT + 6))])
#endif
shared float part[kParts];

void main() {
  const uint n = P(AT + 1), k = P(AT + 2), rank = P(AT + 8);
  const int a_row = S(AT + 3), a_col = S(AT + 4);
  int a_at = int(P(1)), b_at = int(P(2)), y_at = 0;
  uint rest = gl_WorkGroupID.z;
  for (uint d = rank; d-- > 0u;) {
    const uint size = P(AT + 9 + d);
    const int at = int(rest % size);
    rest /= size;
    a_at += at * S(AT + 9 + rank + d);
    b_at += at * S(AT + 9 + 2 * rank + d);
    y_at += at * S(AT + 9 + 3 * rank + d);
  }
  const uint me = gl_LocalInvocationID.x;
  const uint deep = kAlong ? me % kDeep : me / kWide, wide = kAlong ? me / kDeep : me % kWide;
  const uint col0 = gl_WorkGroupID.x * kWide;
  const uint mine = min(col0 + wide, n - 1);
  float sum[kRows];
  [[unroll]] for (uint i = 0; i < kRows; ++i) sum[i] = 0.0;
  for (uint p = deep; p < k; p += 4 * kDeep) {
    float v[4];
    [[unroll]] for (uint q = 0; q < 4; ++q)
      v[q] = p + q * kDeep < k ? B_AT(p + q * kDeep, mine) : 0.0;
    [[unroll]] for (uint q = 0; q < 4; ++q) {
      const int from = a_at + int(min(p + q * kDeep, k - 1)) * a_col;
      [[unroll]] for (uint i = 0; i < kRows; ++i)
        sum[i] += p + q * kDeep < k ? v[q] * float(a[uint(from + int(i) * a_row)]) : 0.0;
    }
  }
  [[unroll]] for (uint i = 0; i < kRows; ++i) part[(i * kWide + wide) * kDeep + deep] = sum[i];
  barrier();
  for (uint e = me; e < kRows * kWide; e += kInvocations) {
    const uint row = e / kWide, col = col0 + e % kWide;
    if (col >= n) continue;
    float value = 0.0;
    for (uint d = 0; d < kDeep; ++d) value += part[e * kDeep + d];
    const uint to = uint(y_at) + row * P(AT + 7) + col;
    if (kBias) value += float(bias[P(3) + col]);
    if (kResidual) value += float(residual[P(4) + to]);
    y[P(0) + to] = REAL(activated(kActivation, value));
  }
}
