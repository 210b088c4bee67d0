// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions of one to three dims, with groups. A group computes 64 positions
// of kOutputs output channels of one image: all of its invocations use the same weights.
//
// Parameters: channels of a group, outputs of a group, groups, in[3], out[3], kernel[3], stride[3],
// padding[3], dilation[3], blocks of outputs in a group.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kOutputs = 4;
layout(constant_id = 1) const bool kBias = false;
layout(constant_id = 2) const bool kResidual = false;
layout(constant_id = 3) const uint kActivation = 0;
layout(constant_id = 4) const bool kTransposed = false;
#include "common.glsl"
#include "activation.glsl"
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer X { REAL x[]; };
layout(binding = 3) readonly buffer W { REAL w[]; };
layout(binding = 4) readonly buffer Bias { REAL bias[]; };
layout(binding = 5) readonly buffer Residual { REAL residual[]; };
#define AT 5
ivec3 V(const uint k) { return ivec3(S(AT + k), S(AT + k + 1), S(AT + k + 2)); }

void main() {
  const uint channels = P(AT), outputs = P(AT + 1), groups = P(AT + 2), blocks = P(AT + 21);
  const ivec3 in_size = V(3), out_size = V(6), kernel = V(9), stride = V(12), padding = V(15), dilation = V(18);
  const uint positions = uint(out_size.x * out_size.y * out_size.z);
  const uint in_positions = uint(in_size.x * in_size.y * in_size.z);
  const uint taps = uint(kernel.x * kernel.y * kernel.z);
  const uint group = gl_WorkGroupID.y / blocks, first = (gl_WorkGroupID.y % blocks) * kOutputs;
  const uint image = gl_WorkGroupID.z;
  const uint position = gl_WorkGroupID.x * 64 + gl_LocalInvocationID.x;
  const uint safe = min(position, positions - 1);
  const ivec3 o = ivec3(int(safe) / (out_size.y * out_size.z), int(safe) / out_size.z % out_size.y, int(safe) % out_size.z);
  float sum[kOutputs];
  for (uint i = 0; i < kOutputs; ++i) sum[i] = 0.0;
  // weight: [outputs, channels, taps], transposed: [channels, outputs, taps]
  const uint w_channel = kTransposed ? outputs * taps : taps;
  const uint w_output = kTransposed ? taps : channels * taps;
  const uint w_group = P(2) + group * channels * outputs * taps;
  const uint x_group = P(1) + (image * groups + group) * channels * in_positions;
  uint tap = 0;
  for (int kx = 0; kx < kernel.x; ++kx)
    for (int ky = 0; ky < kernel.y; ++ky)
      for (int kz = 0; kz < kernel.z; ++kz, ++tap) {
        ivec3 at;
        bool hits = true;
        if (kTransposed) {
          const ivec3 back = o + padding - ivec3(kx, ky, kz) * dilation;
          at = back / stride;
          hits = all(greaterThanEqual(back, ivec3(0))) && at * stride == back;
        } else {
          at = o * stride - padding + ivec3(kx, ky, kz) * dilation;
        }
        hits = hits && all(greaterThanEqual(at, ivec3(0))) && all(lessThan(at, in_size));
        uint from = x_group + (hits ? uint((at.x * in_size.y + at.y) * in_size.z + at.z) : 0u);
        uint weight = w_group + tap;
        for (uint c = 0; c < channels; ++c) {
          const float loaded = float(x[from]);
          const float value = hits ? loaded : 0.0;
          for (uint i = 0; i < kOutputs; ++i)
            sum[i] += value * float(w[weight + min(first + i, outputs - 1) * w_output]);
          from += in_positions;
          weight += w_channel;
        }
      }
  if (position >= positions) return;
  for (uint i = 0; i < kOutputs; ++i) {
    if (first + i >= outputs) return;
    const uint channel = group * outputs + first + i;
    const uint to = (image * groups * outputs + channel) * positions + position;
    float value = sum[i];
    if (kBias) value += float(bias[P(3) + channel]);
    if (kResidual) value += float(residual[P(4) + to]);
    y[P(0) + to] = REAL(activated(kActivation, value));
  }
}
