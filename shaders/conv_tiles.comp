// SPDX-License-Identifier: Apache-2.0
// The convolutions of conv.comp as tiled products (tiles.glsl): rows are outputs of a group, columns are
// positions of all images, steps are channels and taps. Patches of x are never stored.
//
// Parameters: those of conv.comp, then images.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#include "common.glsl"
#include "activation.glsl"
#include "tiles.glsl"
layout(constant_id = 15) const bool kTransposed = false;
layout(constant_id = 16) const uint kKernelY = 1;
layout(constant_id = 17) const uint kKernelZ = 1;
layout(constant_id = 18) const uint kTaps = 1;
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer X { REAL x[]; };
layout(binding = 3) readonly buffer W { REAL w[]; };
layout(binding = 4) readonly buffer Bias { REAL bias[]; };
layout(binding = 5) readonly buffer Residual { REAL residual[]; };
#define AT 5
ivec3 V(const uint k) { return ivec3(S(AT + k), S(AT + k + 1), S(AT + k + 2)); }

uint channels, outputs, positions, in_positions, row0, w_at;
bool inside;  // this invocation's column of b
uint x_at;
ivec3 origin, in_size, stride, dilation;

void fetch(const uint step) {
  const uint steps = channels * kTaps;
  [[unroll]] for (uint e = 0; e < kFetchA; ++e) {
    const uint t = gl_LocalInvocationID.x + e * kInvocations;
    const uint r = row0 + a_row(t), p = step + a_step(t);
    a_next[e] = 0.0;
    if (r < outputs && p < steps)
      a_next[e] = float(w[w_at + (kTransposed ? (p / kTaps * outputs + r) * kTaps + p % kTaps : r * steps + p)]);
  }
  [[unroll]] for (uint e = 0; e < kFetchB; ++e) {
    const uint p = step + b_step(gl_LocalInvocationID.x + e * kInvocations);
    const uint tap = p % kTaps;
    const ivec3 moved = ivec3(tap / (kKernelY * kKernelZ), tap / kKernelZ % kKernelY, tap % kKernelZ) * dilation;
    ivec3 at = origin + (kTransposed ? -moved : moved);
    bool hits = inside && p < steps;
    if (kTransposed) {
      const ivec3 back = at;
      at = back / stride;
      hits = hits && all(greaterThanEqual(back, ivec3(0))) && at * stride == back;
    }
    hits = hits && all(greaterThanEqual(at, ivec3(0))) && all(lessThan(at, in_size));
    b_next[e] = 0.0;
    if (hits)
      b_next[e] = float(x[x_at + p / kTaps * in_positions + uint((at.x * in_size.y + at.y) * in_size.z + at.z)]);
  }
}

void main() {
  channels = P(AT);
  outputs = P(AT + 1);
  const uint groups = P(AT + 2), images = P(AT + 21), group = gl_WorkGroupID.z;
  in_size = V(3);
  stride = V(12);
  dilation = V(18);
  const ivec3 out_size = V(6), padding = V(15);
  positions = uint(out_size.x * out_size.y * out_size.z);
  in_positions = uint(in_size.x * in_size.y * in_size.z);
  row0 = gl_WorkGroupID.y * kRows;
  w_at = P(2) + group * channels * outputs * kTaps;
  // kInvocations is a multiple of kCols, so each invocation fetches elements of one column of b.
  const uint col0 = gl_WorkGroupID.x * kCols, mine = col0 + b_col(gl_LocalInvocationID.x);
  inside = mine < positions * images;
  const uint image = mine / positions;
  const int place = int(mine % positions);
  const ivec3 o = ivec3(place / (out_size.y * out_size.z), place / out_size.z % out_size.y, place % out_size.z);
  origin = kTransposed ? o + padding : o * stride - padding;
  x_at = P(1) + (image * groups + group) * channels * in_positions;
  a_along = !kTransposed;
  multiply(channels * kTaps);
  EACH_RESULT(
    const uint row = row0 + r; const uint col = col0 + s;
    if (row >= outputs || col >= positions * images) continue;
    const uint channel = group * outputs + row;
    const uint to = (col / positions * groups * outputs + channel) * positions + col % positions;
    if (kBias) value += float(bias[P(3) + channel]);
    if (kResidual) value += float(residual[P(4) + to]);
    y[P(0) + to] = REAL(activated(kActivation, value));)
}
