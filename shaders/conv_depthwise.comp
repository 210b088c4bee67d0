// SPDX-License-Identifier: Apache-2.0
// 2-D convolutions in which each channel of y reads one channel of x. An invocation computes kStrip results
// in a column, and loads shared values once. With TELL a group is a subgroup of eight lanes of a CPU vector:
// each lane loads one weight and broadcasts it to the others.
//
// Parameters: channels of y, channels of y for one of x, sizes of x and y, steps of columns, padding of rows
// and columns, dilation of columns.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#ifdef TELL
#extension GL_KHR_shader_subgroup_ballot : require
#define LANES 8
#else
#define LANES 64
#endif
layout(local_size_x = LANES) in;
layout(constant_id = 0) const uint kRows = 3;  // of the kernel
layout(constant_id = 1) const uint kColumns = 3;
layout(constant_id = 2) const uint kStep = 1;  // of rows
layout(constant_id = 3) const uint kStrip = 4;
layout(constant_id = 4) const bool kBias = false;
layout(constant_id = 5) const bool kResidual = false;
layout(constant_id = 6) const uint kActivation = 0;
#include "common.glsl"
#include "activation.glsl"
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer X { REAL x[]; };
layout(binding = 3) readonly buffer W { REAL w[]; };
layout(binding = 4) readonly buffer Bias { REAL bias[]; };
layout(binding = 5) readonly buffer Residual { REAL residual[]; };
#define AT 5

const uint kTaps = kRows * kColumns, kMet = (kStrip - 1) * kStep + kRows;
float weights[kTaps];

#ifdef TELL
#define PART(e) if (first + e < kTaps) weights[first + e] = subgroupBroadcast(told, e);
#endif

void main() {
  const uint channels = P(AT), shared_by = P(AT + 1);
  const int in_y = S(AT + 2), in_x = S(AT + 3), out_y = S(AT + 4), out_x = S(AT + 5);
  const uint channel = gl_WorkGroupID.y, image = gl_WorkGroupID.z;
  const uint w_at = P(2) + channel * kTaps;
#ifdef TELL
  [[unroll]] for (uint first = 0; first < kTaps; first += LANES) {
    const float told = float(w[w_at + min(first + gl_SubgroupInvocationID, kTaps - 1)]);
    PART(0) PART(1) PART(2) PART(3) PART(4) PART(5) PART(6) PART(7)
  }
#else
  [[unroll]] for (uint tap = 0; tap < kTaps; ++tap) weights[tap] = float(w[w_at + tap]);
#endif
  const uint number = gl_WorkGroupID.x * LANES + gl_LocalInvocationID.x;
  const int column = int(number % uint(out_x)), top = int(number / uint(out_x) * kStrip);
  const int first_x = column * S(AT + 6) - S(AT + 8), first_y = top * int(kStep) - S(AT + 7);
  const uint plane = P(1) + (image * (channels / shared_by) + channel / shared_by) * uint(in_y * in_x);
  float sum[kStrip];
  [[unroll]] for (uint i = 0; i < kStrip; ++i) sum[i] = 0.0;
  [[unroll]] for (uint kx = 0; kx < kColumns; ++kx) {
    const int at_x = first_x + int(kx) * S(AT + 9);
    const bool inside = at_x >= 0 && at_x < in_x;
    [[unroll]] for (uint r = 0; r < kMet; ++r) {
      const int at_y = first_y + int(r);
      const bool hit = inside && at_y >= 0 && at_y < in_y;
      const float loaded = float(x[plane + (hit ? uint(at_y * in_x + at_x) : 0u)]);
      const float v = hit ? loaded : 0.0;
      [[unroll]] for (uint i = 0; i < kStrip; ++i)
        if (r >= i * kStep && r - i * kStep < kRows)
          sum[i] += v * weights[(r - i * kStep) * kColumns + kx];
    }
  }
  [[unroll]] for (uint i = 0; i < kStrip; ++i) {
    const int row = top + int(i);
    if (row >= out_y) continue;
    const uint to = (image * channels + channel) * uint(out_y * out_x) + uint(row * out_x + column);
    float value = sum[i];
    if (kBias) value += float(bias[P(3) + channel]);
    if (kResidual) value += float(residual[P(4) + to]);
    y[P(0) + to] = REAL(activated(kActivation, value));
  }
}
