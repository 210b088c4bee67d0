// SPDX-License-Identifier: Apache-2.0
// The product of matmul.comp in f16, with its parameters, on the device's matrix units: a group of four
// subgroups computes 64 x 64 results; each subgroup computes 2 x 2 pieces of 16 x 16 with sums in f32.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_NV_cooperative_matrix : require
layout(local_size_x = 128) in;
layout(constant_id = 0) const bool kBias = false;
layout(constant_id = 1) const bool kResidual = false;
layout(constant_id = 2) const uint kActivation = 0;
#include "common.glsl"
#include "activation.glsl"
layout(binding = 1) buffer Y { float16_t y[]; };
layout(binding = 2) readonly buffer A { float16_t a[]; };
layout(binding = 3) readonly buffer B { float16_t b[]; };
layout(binding = 4) readonly buffer Bias { float16_t bias[]; };
layout(binding = 5) readonly buffer Residual { float16_t residual[]; };
#define AT 5
#define SIDE 64
#define STEPS 32
// Rows are padded by eight elements, which spreads them over the banks.
#define A_ROW 40
#define B_ROW 72
#define Y_ROW 68
shared float16_t a_part[SIDE * A_ROW];
shared float16_t b_part[STEPS * B_ROW];
shared float y_part[SIDE * Y_ROW];

void main() {
  const uint m = P(AT), n = P(AT + 1), k = P(AT + 2), rank = P(AT + 8);
  const int a_row = S(AT + 3), a_col = S(AT + 4), b_row = S(AT + 5), b_col = S(AT + 6);
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
  const uint row0 = gl_WorkGroupID.y * SIDE, col0 = gl_WorkGroupID.x * SIDE;
  const uint my_row = gl_SubgroupID / 2u * 32u, my_col = gl_SubgroupID % 2u * 32u;
  const bool a_along = a_col <= a_row, b_along = b_row < b_col;
  fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> sum[4];
  [[unroll]] for (uint i = 0; i < 4; ++i) sum[i] = fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0);
  for (uint step = 0; step < k; step += STEPS) {
    barrier();
    [[unroll]] for (uint e = 0; e < SIDE * STEPS / 128; ++e) {
      const uint t = me + e * 128u;
      const uint i = a_along ? t / STEPS : t % SIDE, p = a_along ? t % STEPS : t / SIDE;
      const bool in_a = row0 + i < m && step + p < k;
      a_part[i * A_ROW + p] = in_a ? a[uint(a_at + int(row0 + i) * a_row + int(step + p) * a_col)] : float16_t(0.0);
      const uint j = b_along ? t / STEPS : t % SIDE, q = b_along ? t % STEPS : t / SIDE;
      const bool in_b = col0 + j < n && step + q < k;
      b_part[q * B_ROW + j] = in_b ? b[uint(b_at + int(step + q) * b_row + int(col0 + j) * b_col)] : float16_t(0.0);
    }
    barrier();
    [[unroll]] for (uint p = 0; p < STEPS; p += 16) {
      fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> u[2], v[2];
      [[unroll]] for (uint i = 0; i < 2; ++i) {
        coopMatLoadNV(u[i], a_part, (my_row + 16 * i) * A_ROW + p, A_ROW, false);
        coopMatLoadNV(v[i], b_part, p * B_ROW + my_col + 16 * i, B_ROW, false);
      }
      [[unroll]] for (uint i = 0; i < 4; ++i) sum[i] = coopMatMulAddNV(u[i / 2], v[i % 2], sum[i]);
    }
  }
  [[unroll]] for (uint i = 0; i < 4; ++i)
    coopMatStoreNV(sum[i], y_part, (my_row + 16 * (i / 2)) * Y_ROW + my_col + 16 * (i % 2), Y_ROW, false);
  barrier();
  for (uint t = me; t < SIDE * SIDE; t += 128u) {
    const uint row = row0 + t / SIDE, col = col0 + t % SIDE;
    if (row >= m || col >= n) continue;
    float value = y_part[t / SIDE * Y_ROW + t % SIDE];
    const uint to = uint(y_at) + row * P(AT + 7) + col;
    if (kBias) value += float(bias[P(3) + col]);
    if (kResidual) value += float(residual[P(4) + to]);
    y[P(0) + to] = float16_t(activated(kActivation, value));
  }
}
