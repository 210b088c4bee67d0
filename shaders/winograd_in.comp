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

// B^T of six numbers, for the points 0, +-A, +-B with A = sqrt(1/2), B = sqrt(2). Rounding errors are a
// third of those of integer points (as in kernels/conv/conv_winograd_simd.cpp).
#define A 0.70710678118654752
#define B 1.41421356237309505
#define TRANSFORM(a, b, c, d, e, f)                 \
  {                                                 \
    const float k0 = a + e - 2.5 * c;               \
    const float k1 = e - 2.0 * c, k2 = A * d - B * b; \
    const float k3 = e - 0.5 * c, k4 = B * d - A * b; \
    const float k5 = b + f - 2.5 * d;               \
    a = k0;                                         \
    b = k1 + k2;                                    \
    c = k1 - k2;                                    \
    d = k3 + k4;                                    \
    e = k3 - k4;                                    \
    f = k5;                                         \
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
