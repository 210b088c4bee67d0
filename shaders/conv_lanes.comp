// SPDX-License-Identifier: Apache-2.0
// The convolution of conv.comp, with its parameters: a group computes kRows output channels at 8 kCols
// positions of one image.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 8) in;
layout(constant_id = 0) const uint kRows = 4;
layout(constant_id = 1) const bool kBias = false;
layout(constant_id = 2) const bool kResidual = false;
layout(constant_id = 3) const uint kActivation = 0;
layout(constant_id = 4) const bool kTransposed = false;
layout(constant_id = 5) const uint kCols = 2;
layout(constant_id = 6) const uint kSteps = 8;  // of channels in a round
#include "common.glsl"
#include "activation.glsl"
#include "lanes.glsl"
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer X { REAL x[]; };
layout(binding = 3) readonly buffer W { REAL w[]; };
layout(binding = 4) readonly buffer Bias { REAL bias[]; };
layout(binding = 5) readonly buffer Residual { REAL residual[]; };
#define AT 5
ivec3 V(const uint k) { return ivec3(S(AT + k), S(AT + k + 1), S(AT + k + 2)); }

// Steps beyond the last channel add nothing: they load the value of the last channel and use 0
// instead.
#define STEP(p)                                                        \
  if (kSteps > p) {                                                    \
    [[unroll]] for (uint j = 0; j < kCols; ++j) {                      \
      const float loaded = float(x[from[j]]);                          \
      v[j] = hits[j] && p < left ? loaded : 0.0;                       \
      from[j] += p + 1 < left ? in_positions : 0u;                                 \
    }                                                                  \
    PRODUCTS(p, told, v)                                               \
  }

// Sums of too many steps lose precision, so parts are summed separately.
#define LONG_SUM 128
float total[kRows][kCols];

void main() {
  const uint channels = P(AT), outputs = P(AT + 1), groups = P(AT + 2), blocks = P(AT + 21);
  const ivec3 in_size = V(3), out_size = V(6), kernel = V(9), stride = V(12), padding = V(15), dilation = V(18);
  const uint positions = uint(out_size.x * out_size.y * out_size.z);
  const uint in_positions = uint(in_size.x * in_size.y * in_size.z);
  const uint taps = uint(kernel.x * kernel.y * kernel.z);
  const uint group = gl_WorkGroupID.y / blocks, first = (gl_WorkGroupID.y % blocks) * kRows;
  const uint image = gl_WorkGroupID.z, lane = gl_SubgroupInvocationID;
  const uint position = gl_WorkGroupID.x * LANES * kCols + lane;
  ivec3 o[kCols];
  [[unroll]] for (uint j = 0; j < kCols; ++j) {
    const int at = int(min(position + LANES * j, positions - 1));
    o[j] = ivec3(at / (out_size.y * out_size.z), at / out_size.z % out_size.y, at % out_size.z);
  }
  [[unroll]] for (uint i = 0; i < kRows; ++i)
    [[unroll]] for (uint j = 0; j < kCols; ++j) sum[i][j] = total[i][j] = 0.0;
  // weight: [outputs, channels, taps], transposed: [channels, outputs, taps]
  const uint w_channel = kTransposed ? outputs * taps : taps;
  const uint w_output = kTransposed ? taps : channels * taps;
  const uint w_group = P(2) + group * channels * outputs * taps;
  const uint x_group = P(1) + (image * groups + group) * channels * in_positions;
  uint tap = 0, steps = 0;
  for (int kx = 0; kx < kernel.x; ++kx)
    for (int ky = 0; ky < kernel.y; ++ky)
      for (int kz = 0; kz < kernel.z; ++kz, ++tap) {
        bool hits[kCols];
        uint from[kCols];
        [[unroll]] for (uint j = 0; j < kCols; ++j) {
          ivec3 at;
          bool hit = true;
          if (kTransposed) {
            const ivec3 back = o[j] + padding - ivec3(kx, ky, kz) * dilation;
            at = back / stride;
            hit = all(greaterThanEqual(back, ivec3(0))) && at * stride == back;
          } else {
            at = o[j] * stride - padding + ivec3(kx, ky, kz) * dilation;
          }
          hits[j] = hit && all(greaterThanEqual(at, ivec3(0))) && all(lessThan(at, in_size));
          from[j] = x_group + (hits[j] ? uint((at.x * in_size.y + at.y) * in_size.z + at.z) : 0u);
        }
        for (uint c = 0; c < channels; c += kSteps) {
          const uint left = channels - c;
          const uint mine = min(c + lane, channels - 1) * w_channel + w_group + tap;
          float told[kRows], v[kCols];
          [[unroll]] for (uint i = 0; i < kRows; ++i)
            told[i] = lane < left ? float(w[mine + min(first + i, outputs - 1) * w_output]) : 0.0;
          STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
        }
        steps += channels;
        if (steps < LONG_SUM) continue;
        steps = 0;
        [[unroll]] for (uint i = 0; i < kRows; ++i)
          [[unroll]] for (uint j = 0; j < kCols; ++j) {
            total[i][j] += sum[i][j];
            sum[i][j] = 0.0;
          }
      }
  [[unroll]] for (uint j = 0; j < kCols; ++j)
    [[unroll]] for (uint i = 0; i < kRows; ++i) {
      const uint at = position + LANES * j;
      if (at >= positions || first + i >= outputs) continue;
      const uint channel = group * outputs + first + i;
      const uint to = (image * groups * outputs + channel) * positions + at;
      float value = total[i][j] + sum[i][j];
      if (kBias) value += float(bias[P(3) + channel]);
      if (kResidual) value += float(residual[P(4) + to]);
      y[P(0) + to] = REAL(activated(kActivation, value));
    }
}
