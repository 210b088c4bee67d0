// SPDX-License-Identifier: Apache-2.0
// dw[o, c, k] = sum over images and positions of x dy. An invocation computes one element.
//
// Parameters: those of conv.comp, except that the last is images.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "common.glsl"
layout(binding = 1) buffer DW { float dw[]; };
layout(binding = 2) readonly buffer X { float x[]; };
layout(binding = 3) readonly buffer DY { float dy[]; };
#define AT 3
ivec3 V(const uint k) { return ivec3(S(AT + k), S(AT + k + 1), S(AT + k + 2)); }

void main() {
  const uint channels = P(AT), outputs = P(AT + 1), groups = P(AT + 2), images = P(AT + 21);
  const ivec3 in_size = V(3), out_size = V(6), kernel = V(9), stride = V(12), padding = V(15), dilation = V(18);
  const uint taps = uint(kernel.x * kernel.y * kernel.z);
  const uint i = invocation();
  if (i >= groups * outputs * channels * taps) return;
  const int tap = int(i % taps);
  const uint c = i / taps % channels, o = i / taps / channels;
  const ivec3 k = ivec3(tap / (kernel.y * kernel.z), tap / kernel.z % kernel.y, tap % kernel.z);
  const uint group = o / outputs;
  const uint in_positions = uint(in_size.x * in_size.y * in_size.z);
  const uint positions = uint(out_size.x * out_size.y * out_size.z);
  float sum = 0.0;
  for (uint image = 0; image < images; ++image) {
    const uint x_at = P(1) + ((image * groups + group) * channels + c) * in_positions;
    uint dy_at = P(2) + (image * groups * outputs + o) * positions;
    float part = 0.0;
    for (int ox = 0; ox < out_size.x; ++ox) {
      const int ix = ox * stride.x - padding.x + k.x * dilation.x;
      for (int oy = 0; oy < out_size.y; ++oy) {
        const int iy = oy * stride.y - padding.y + k.y * dilation.y;
        const bool row = ix >= 0 && ix < in_size.x && iy >= 0 && iy < in_size.y;
        float line = 0.0;
        for (int oz = 0; oz < out_size.z; ++oz, ++dy_at) {
          const int iz = oz * stride.z - padding.z + k.z * dilation.z;
          if (row && iz >= 0 && iz < in_size.z)
            line += dy[dy_at] * x[x_at + uint((ix * in_size.y + iy) * in_size.z + iz)];
        }
        part += line;
      }
    }
    sum += part;
  }
  dw[P(0) + i] = sum;
}
