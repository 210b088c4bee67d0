// SPDX-License-Identifier: Apache-2.0
// y[b] = activation(a[b] b[b] + bias + residual), any strides of a and b, in tiles (tiles.glsl).
// Parameters: m, n, k, a_row, a_col, b_row, b_col, y_row, batch rank, sizes, a, b and y strides. With LEVELS, the
// rank is 0, and the parameters of levels.glsl follow.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#include "common.glsl"
#include "activation.glsl"
#include "tiles.glsl"
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer A { REAL a[]; };
layout(binding = 4) readonly buffer Bias { REAL bias[]; };
layout(binding = 5) readonly buffer Residual { REAL residual[]; };
int a_at, b_at;
#ifdef LEVELS
#define AT 7
#define SCALES 6
#define CONSTANTS 15
#define PARAMS (AT + 9)
#include "levels.glsl"
#define B_AT(p, s) weight_at(p, s)
#else
#define AT 5
layout(binding = 3) readonly buffer B { REAL b[]; };
#define B_AT(p, s) float(b[uint(b_at + int(p) * S(AT + 5) + int(s) * S(AT + 6))])
#endif
uint row0, col0;

void fetch(const uint step) {
  [[unroll]] for (uint e = 0; e < kFetchA; ++e) {
    const uint t = gl_LocalInvocationID.x + e * kInvocations;
    const uint r = row0 + a_row(t), p = step + a_step(t);
    a_next[e] = 0.0;
    if (r < P(AT) && p < P(AT + 2)) a_next[e] = float(a[uint(a_at + int(r) * S(AT + 3) + int(p) * S(AT + 4))]);
  }
  [[unroll]] for (uint e = 0; e < kFetchB; ++e) {
    const uint t = gl_LocalInvocationID.x + e * kInvocations;
    const uint s = col0 + b_col(t), p = step + b_step(t);
    b_next[e] = 0.0;
    if (s < P(AT + 1) && p < P(AT + 2)) b_next[e] = B_AT(p, s);
  }
}

void main() {
  const uint m = P(AT), n = P(AT + 1), rank = P(AT + 8);
  a_at = int(P(1));
  b_at = int(P(2));
  int y_at = 0;
  uint rest = gl_WorkGroupID.z;
  for (uint d = rank; d-- > 0u;) {
    const uint size = P(AT + 9 + d);
    const int at = int(rest % size);
    rest /= size;
    a_at += at * S(AT + 9 + rank + d);
    b_at += at * S(AT + 9 + 2 * rank + d);
    y_at += at * S(AT + 9 + 3 * rank + d);
  }
  row0 = gl_WorkGroupID.y * kRows;
  col0 = gl_WorkGroupID.x * kCols;
  a_along = S(AT + 4) <= S(AT + 3);
  b_along = S(AT + 5) < S(AT + 6);
  multiply(P(AT + 2));
  EACH_RESULT(
    const uint row = row0 + r; const uint col = col0 + s;
    if (row >= m || col >= n) continue;
    const uint to = uint(y_at) + row * P(AT + 7) + col;
    if (kBias) value += float(bias[P(3) + col]);
    if (kResidual) value += float(residual[P(4) + to]);
    y[P(0) + to] = REAL(activated(kActivation, value));)
}
