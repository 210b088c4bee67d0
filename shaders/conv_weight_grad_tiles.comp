// SPDX-License-Identifier: Apache-2.0
// dw[o, c, k] = sum over images and positions of x dy, as a tiled product (tiles.glsl): rows are outputs of a
// group, columns are channels and taps, steps are positions of all images. Because steps far outnumber
// results, they are split into parts that are added later: dw[part, group, o, c, k].
//
// Parameters: those of conv.comp, except that the last is images; then the steps of a part.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "tiles.glsl"
layout(constant_id = 15) const uint kKernelY = 1;
layout(constant_id = 16) const uint kKernelZ = 1;
layout(constant_id = 17) const uint kTaps = 1;
layout(binding = 1) buffer DW { float dw[]; };
layout(binding = 2) readonly buffer X { float x[]; };
layout(binding = 3) readonly buffer DY { float dy[]; };
#define AT 3
ivec3 V(const uint k) { return ivec3(S(AT + k), S(AT + k + 1), S(AT + k + 2)); }

uint channels, outputs, groups, group, positions, in_positions, row0, col0, first, end;
ivec3 in_size, out_size, stride, padding, dilation;

void fetch(const uint step) {
  [[unroll]] for (uint e = 0; e < kFetchA; ++e) {
    const uint t = gl_LocalInvocationID.x + e * kInvocations;
    const uint r = row0 + a_row(t), p = first + step + a_step(t);
    a_next[e] = 0.0;
    if (r < outputs && p < end)
      a_next[e] = dy[P(2) + ((p / positions * groups + group) * outputs + r) * positions + p % positions];
  }
  // kInvocations is a multiple of kSteps, so each invocation fetches elements of one position of b.
  const uint mine = first + step + b_step(gl_LocalInvocationID.x);
  const int place = int(mine % positions);
  const ivec3 o = ivec3(place / (out_size.y * out_size.z), place / out_size.z % out_size.y, place % out_size.z);
  const ivec3 origin = o * stride - padding;
  const uint x_at = P(1) + (mine / positions * groups + group) * channels * in_positions;
  [[unroll]] for (uint e = 0; e < kFetchB; ++e) {
    const uint s = col0 + b_col(gl_LocalInvocationID.x + e * kInvocations), tap = s % kTaps;
    const ivec3 at = origin + ivec3(tap / (kKernelY * kKernelZ), tap / kKernelZ % kKernelY, tap % kKernelZ) * dilation;
    b_next[e] = 0.0;
    if (mine < end && s < channels * kTaps && all(greaterThanEqual(at, ivec3(0))) && all(lessThan(at, in_size)))
      b_next[e] = x[x_at + s / kTaps * in_positions + uint((at.x * in_size.y + at.y) * in_size.z + at.z)];
  }
}

void main() {
  channels = P(AT);
  outputs = P(AT + 1);
  groups = P(AT + 2);
  in_size = V(3);
  out_size = V(6);
  stride = V(12);
  padding = V(15);
  dilation = V(18);
  positions = uint(out_size.x * out_size.y * out_size.z);
  in_positions = uint(in_size.x * in_size.y * in_size.z);
  group = gl_WorkGroupID.z % groups;
  const uint part = gl_WorkGroupID.z / groups, steps = P(AT + 22);
  first = part * steps;
  end = min(first + steps, P(AT + 21) * positions);
  row0 = gl_WorkGroupID.y * kRows;
  col0 = gl_WorkGroupID.x * kCols;
  b_along = true;
  multiply(end - first);
  EACH_RESULT(
    const uint row = row0 + r; const uint col = col0 + s;
    if (row >= outputs || col >= channels * kTaps) continue;
    dw[P(0) + ((part * groups + group) * outputs + row) * channels * kTaps + col] = value;)
}
