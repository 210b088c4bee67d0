// SPDX-License-Identifier: Apache-2.0
// y[b] = activation(a[b] b[b] + bias + residual), any strides of a and b. A group computes 64 x 64
// results, an invocation 4 x 4 of them.
//   kShared: pieces of a and b go through shared memory, 16 steps of k at a time. Without it each
//   invocation reads what it needs, which is better where shared memory is ordinary memory.
// Parameters: m, n, k, a_row, a_col, b_row, b_col, y_row, batch rank, sizes, a, b and y strides.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 256) in;
layout(constant_id = 0) const bool kShared = true;
layout(constant_id = 1) const bool kBias = false;
layout(constant_id = 2) const bool kResidual = false;
layout(constant_id = 3) const uint kActivation = 0;
#include "common.glsl"
#include "activation.glsl"
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer A { REAL a[]; };
layout(binding = 3) readonly buffer B { REAL b[]; };
layout(binding = 4) readonly buffer Bias { REAL bias[]; };
layout(binding = 5) readonly buffer Residual { REAL residual[]; };
#define AT 5
shared float a_part[16][65];
shared float b_part[16][65];

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
  const uint me = gl_LocalInvocationID.x;
  const uint row0 = gl_WorkGroupID.y * 64, col0 = gl_WorkGroupID.x * 64;
  // Invocations beside each other have columns beside each other; a row is shared by all of 16.
  const uint row = row0 + (me >> 4) * 4, col = col0 + (me & 15u);
  float sum[4][4];
  [[unroll]] for (uint i = 0; i < 4; ++i)
    [[unroll]] for (uint j = 0; j < 4; ++j) sum[i][j] = 0.0;
  if (kShared) {
    for (uint k0 = 0; k0 < k; k0 += 16) {
      for (uint t = me; t < 1024; t += 256) {
        // Neighbours read along the dim of the smaller stride.
        const bool along_k = a_col <= a_row;
        const uint i = along_k ? t >> 4 : t & 63u, p = along_k ? t & 15u : t >> 6;
        const bool inside_a = row0 + i < m && k0 + p < k;
        a_part[p][i] = inside_a ? float(a[uint(a_at + int(row0 + i) * a_row + int(k0 + p) * a_col)]) : 0.0;
        const bool down_k = b_row < b_col;
        const uint j = down_k ? t >> 4 : t & 63u, q = down_k ? t & 15u : t >> 6;
        const bool inside_b = col0 + j < n && k0 + q < k;
        b_part[q][j] = inside_b ? float(b[uint(b_at + int(k0 + q) * b_row + int(col0 + j) * b_col)]) : 0.0;
      }
      barrier();
      for (uint p = 0; p < 16; ++p) {
        float u[4], v[4];
        [[unroll]] for (uint i = 0; i < 4; ++i) u[i] = a_part[p][(me >> 4) * 4 + i];
        [[unroll]] for (uint j = 0; j < 4; ++j) v[j] = b_part[p][(me & 15u) + 16 * j];
        [[unroll]] for (uint i = 0; i < 4; ++i)
          [[unroll]] for (uint j = 0; j < 4; ++j) sum[i][j] += u[i] * v[j];
      }
      barrier();
    }
  } else {
    // Rows and columns beyond the end read the last one; their sums are not stored.
    int a_from[4], b_from[4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      a_from[i] = a_at + int(min(row + i, m - 1)) * a_row;
      b_from[i] = b_at + int(min(col + 16 * i, n - 1)) * b_col;
    }
    for (uint p = 0; p < k; ++p) {
      float u[4], v[4];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        u[i] = float(a[uint(a_from[i])]);
        v[i] = float(b[uint(b_from[i])]);
        a_from[i] += a_col;
        b_from[i] += b_row;
      }
      [[unroll]] for (uint i = 0; i < 4; ++i)
        [[unroll]] for (uint j = 0; j < 4; ++j) sum[i][j] += u[i] * v[j];
    }
  }
  [[unroll]] for (uint i = 0; i < 4; ++i)
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      const uint r = row + i, s = col + 16 * j;
      if (r >= m || s >= n) continue;
      float value = sum[i][j];
      const uint to = uint(y_at) + r * P(AT + 7) + s;
      if (kBias) value += float(bias[P(3) + s]);
      if (kResidual) value += float(residual[P(4) + to]);
      y[P(0) + to] = REAL(activated(kActivation, value));
    }
}
