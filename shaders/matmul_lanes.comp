// SPDX-License-Identifier: Apache-2.0
// The product of matmul.comp, with its parameters: a group computes kRows x 8 kCols results. With PAIRS, b is
// f32 and contiguous along k, and two steps of k are loaded as one 64-bit word.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#ifdef PAIRS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
layout(local_size_x = 8) in;
layout(constant_id = 0) const uint kRows = 4;
layout(constant_id = 1) const bool kBias = false;
layout(constant_id = 2) const bool kResidual = false;
layout(constant_id = 3) const uint kActivation = 0;
layout(constant_id = 4) const uint kCols = 2;
#include "common.glsl"
#include "activation.glsl"
#include "lanes.glsl"
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer A { REAL a[]; };
#ifdef PAIRS
layout(binding = 3) readonly buffer B { uint64_t b[]; };
#else
layout(binding = 3) readonly buffer B { REAL b[]; };
#endif
layout(binding = 4) readonly buffer Bias { REAL bias[]; };
layout(binding = 5) readonly buffer Residual { REAL residual[]; };
#define AT 5

// Steps beyond the last one add nothing: they load the last one and use 0 instead.
#ifdef PAIRS
#define STEPS(p, q)                                                             \
  [[unroll]] for (uint j = 0; j < kCols; ++j) {                                 \
    const uvec2 pair = unpack32(b[uint(b_from[j]) / 2u]);                       \
    v[j] = p < left ? uintBitsToFloat(pair.x) : 0.0;                            \
    next[j] = q < left ? uintBitsToFloat(pair.y) : 0.0;                         \
    b_from[j] += q + 1 < left ? 2 : 0;                                          \
  }                                                                             \
  PRODUCTS(p, told, v)                                                          \
  PRODUCTS(q, told, next)
#else
#define STEP(p)                                                                 \
  [[unroll]] for (uint j = 0; j < kCols; ++j) {                                 \
    const float loaded = float(b[uint(b_from[j])]);                             \
    v[j] = p < left ? loaded : 0.0;                                             \
    b_from[j] += p + 1 < left ? b_row : 0;                                      \
  }                                                                             \
  PRODUCTS(p, told, v)
#define STEPS(p, q) STEP(p) STEP(q)
#endif

void main() {
  const uint m = P(AT), n = P(AT + 1), k = P(AT + 2);
  const int a_row = S(AT + 3), a_col = S(AT + 4), b_row = S(AT + 5), b_col = S(AT + 6);
  const uint rank = P(AT + 8);
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
  const uint lane = gl_SubgroupInvocationID;
  const uint row = gl_WorkGroupID.y * kRows, col = gl_WorkGroupID.x * LANES * kCols + lane;
  int b_from[kCols];
  [[unroll]] for (uint j = 0; j < kCols; ++j) b_from[j] = b_at + int(min(col + LANES * j, n - 1)) * b_col;
  [[unroll]] for (uint i = 0; i < kRows; ++i)
    [[unroll]] for (uint j = 0; j < kCols; ++j) sum[i][j] = 0.0;
  for (uint step = 0; step < k; step += LANES) {
    const uint left = k - step;
    const int mine = a_at + int(min(step + lane, k - 1)) * a_col;
    float told[kRows], v[kCols];
#ifdef PAIRS
    float next[kCols];
#endif
    [[unroll]] for (uint i = 0; i < kRows; ++i)
      told[i] = lane < left ? float(a[uint(mine + int(min(row + i, m - 1)) * a_row)]) : 0.0;
    STEPS(0, 1)
    STEPS(2, 3)
    STEPS(4, 5)
    STEPS(6, 7)
  }
  [[unroll]] for (uint i = 0; i < kRows; ++i)
    [[unroll]] for (uint j = 0; j < kCols; ++j) {
      const uint r = row + i, s = col + LANES * j;
      if (r >= m || s >= n) continue;
      float value = sum[i][j];
      if (kBias) value += float(bias[P(3) + s]);
      const uint to = uint(y_at) + r * P(AT + 7) + s;
      if (kResidual) value += float(residual[P(4) + to]);
      y[P(0) + to] = REAL(activated(kActivation, value));
    }
}
