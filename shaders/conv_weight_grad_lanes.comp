// SPDX-License-Identifier: Apache-2.0
// The result of conv_weight_grad.comp, with its parameters followed by the number of blocks of outputs: a
// group computes kRows outputs at 8 kCols positions of channel and tap, eight positions of a line at a time.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 8) in;
layout(constant_id = 0) const uint kRows = 4;
layout(constant_id = 1) const uint kCols = 2;
#include "common.glsl"
#include "lanes.glsl"
layout(binding = 1) buffer DW { float dw[]; };
layout(binding = 2) readonly buffer X { float x[]; };
layout(binding = 3) readonly buffer DY { float dy[]; };
#define AT 3
ivec3 V(const uint k) { return ivec3(S(AT + k), S(AT + k + 1), S(AT + k + 2)); }

// Positions beyond the line add nothing.
#define STEP(p)                                                     \
  [[unroll]] for (uint j = 0; j < kCols; ++j) {                     \
    const int iz = (oz + p) * stride.z + shift[j].z;                \
    const bool hit = hits[j] && p < left && iz >= 0 && iz < in_size.z; \
    const float loaded = x[hit ? line[j] + uint(iz) : P(1)];        \
    v[j] = hit ? loaded : 0.0;                                      \
  }                                                                 \
  PRODUCTS(p, told, v)

void main() {
  const uint channels = P(AT), outputs = P(AT + 1), groups = P(AT + 2), images = P(AT + 21);
  const uint blocks = P(AT + 22);
  const ivec3 in_size = V(3), out_size = V(6), kernel = V(9), stride = V(12), padding = V(15), dilation = V(18);
  const uint taps = uint(kernel.x * kernel.y * kernel.z), places = channels * taps;
  const uint positions = uint(out_size.x * out_size.y * out_size.z);
  const uint in_positions = uint(in_size.x * in_size.y * in_size.z);
  const uint group = gl_WorkGroupID.y / blocks, first = gl_WorkGroupID.y % blocks * kRows;
  const uint lane = gl_SubgroupInvocationID, place = gl_WorkGroupID.x * LANES * kCols + lane;
  uint plane[kCols];  // of the channel, in an image
  ivec3 shift[kCols];
  [[unroll]] for (uint j = 0; j < kCols; ++j) {
    const uint at = min(place + LANES * j, places - 1);
    const int tap = int(at % taps);
    plane[j] = at / taps * in_positions;
    shift[j] = ivec3(tap / (kernel.y * kernel.z), tap / kernel.z % kernel.y, tap % kernel.z) * dilation - padding;
  }
  float total[kRows][kCols];  // per row of dy, each summed separately
  [[unroll]] for (uint i = 0; i < kRows; ++i)
    [[unroll]] for (uint j = 0; j < kCols; ++j) total[i][j] = 0.0;
  for (uint image = 0; image < images; ++image) {
    const uint x_at = P(1) + (image * groups + group) * channels * in_positions;
    const uint dy_at = P(2) + (image * groups + group) * outputs * positions;
    for (int ox = 0; ox < out_size.x; ++ox)
      for (int oy = 0; oy < out_size.y; ++oy) {
        bool hits[kCols];
        uint line[kCols];
        [[unroll]] for (uint j = 0; j < kCols; ++j) {
          const int ix = ox * stride.x + shift[j].x, iy = oy * stride.y + shift[j].y;
          hits[j] = ix >= 0 && ix < in_size.x && iy >= 0 && iy < in_size.y;
          line[j] = hits[j] ? x_at + plane[j] + uint((ix * in_size.y + iy) * in_size.z) : P(1);
        }
        [[unroll]] for (uint i = 0; i < kRows; ++i)
          [[unroll]] for (uint j = 0; j < kCols; ++j) sum[i][j] = 0.0;
        const uint dy_line = dy_at + uint((ox * out_size.y + oy) * out_size.z);
        for (int oz = 0; oz < out_size.z; oz += LANES) {
          const uint left = uint(out_size.z - oz);
          const uint mine = dy_line + uint(oz) + min(lane, left - 1);
          float told[kRows], v[kCols];
          [[unroll]] for (uint i = 0; i < kRows; ++i)
            told[i] = lane < left ? dy[mine + min(first + i, outputs - 1) * positions] : 0.0;
          STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
        }
        [[unroll]] for (uint i = 0; i < kRows; ++i)
          [[unroll]] for (uint j = 0; j < kCols; ++j) total[i][j] += sum[i][j];
      }
  }
  [[unroll]] for (uint i = 0; i < kRows; ++i)
    [[unroll]] for (uint j = 0; j < kCols; ++j) {
      const uint at = place + LANES * j;
      if (first + i >= outputs || at >= places) continue;
      dw[P(0) + (group * outputs + first + i) * places + at] = total[i][j];
    }
}
