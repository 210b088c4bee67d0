// SPDX-License-Identifier: Apache-2.0
// y = x + gain * sin(x), as an application would write it (docs/kernels.md).
#version 450
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint base; };
layout(set = 0, binding = 0) readonly buffer Table { uint table[]; };
layout(set = 0, binding = 1) readonly buffer X { float x[]; };
layout(set = 0, binding = 2) writeonly buffer Y { float y[]; };

void main() {
  const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint i = group * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  const uint count = table[base + 2];
  if (i >= count) return;
  const float gain = uintBitsToFloat(table[base + 3]);
  const float value = x[table[base] + i];
  y[table[base + 1] + i] = value + gain * sin(value);
}
