// SPDX-License-Identifier: Apache-2.0
// v[e, c, t] = element e of B^T d B, where d is the 6x6 patch of channel c at tile t: the input of
// F(4x4, 3x3) (Lavin and Gray 2016). An invocation makes the 36 elements of one tile.
// Parameters: tiles of all images, channels, height, width, tile rows, tile columns, padding.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "common.glsl"
layout(binding = 1) buffer V { float v[]; };
layout(binding = 2) readonly buffer X { float x[]; };
#define AT 2

// B^T of six numbers.
#define TRANSFORM(a, b, c, d, e, f)                           \
  {                                                           \
    const float k0 = 4.0 * a - 5.0 * c + e;                   \
    const float k1 = e - 4.0 * c, k2 = d - 4.0 * b;           \
    const float k3 = e - c, k4 = 2.0 * (d - b);               \
    const float k5 = 4.0 * b - 5.0 * d + f;                   \
    a = k0;                                                   \
    b = k1 + k2;                                              \
    c = k1 - k2;                                              \
    d = k3 + k4;                                              \
    e = k3 - k4;                                              \
    f = k5;                                                   \
  }

void main() {
  const uint tiles = P(AT), channels = P(AT + 1), i = invocation();
  if (i >= tiles * channels) return;
  const int height = S(AT + 2), width = S(AT + 3);
  const uint rows = P(AT + 4), columns = P(AT + 5);
  const uint tile = i % tiles, channel = i / tiles;
  const uint image = tile / (rows * columns), at = tile % (rows * columns);
  const int top = 4 * int(at / columns) - S(AT + 6), left = 4 * int(at % columns) - S(AT + 7);
  const uint plane = P(1) + (image * channels + channel) * uint(height * width);
  float d[36];
  [[unroll]] for (int r = 0; r < 6; ++r) {
    const int row = clamp(top + r, 0, height - 1);
    [[unroll]] for (int c = 0; c < 6; ++c) {
      const float loaded = x[plane + uint(row * width + clamp(left + c, 0, width - 1))];
      const bool inside = top + r == row && left + c >= 0 && left + c < width;
      d[6 * r + c] = inside ? loaded : 0.0;
    }
  }
  [[unroll]] for (int c = 0; c < 6; ++c)
    TRANSFORM(d[c], d[6 + c], d[12 + c], d[18 + c], d[24 + c], d[30 + c])
  [[unroll]] for (int r = 0; r < 6; ++r)
    TRANSFORM(d[6 * r], d[6 * r + 1], d[6 * r + 2], d[6 * r + 3], d[6 * r + 4], d[6 * r + 5])
  [[unroll]] for (uint e = 0; e < 36; ++e) v[P(0) + e * channels * tiles + i] = d[e];
}
