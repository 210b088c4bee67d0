// SPDX-License-Identifier: Apache-2.0
// y = A^T m A of each tile, with bias, residual and activation, from the products of
// winograd_in.comp. m: [36, outputs, tiles]. An invocation computes the 4x4 results of one tile.
// Parameters: tiles of all images, outputs, height, width, tile rows, tile columns.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const bool kBias = false;
layout(constant_id = 1) const bool kResidual = false;
layout(constant_id = 2) const uint kActivation = 0;
#include "common.glsl"
#include "activation.glsl"
layout(binding = 1) buffer Y { float y[]; };
layout(binding = 2) readonly buffer M { float m[]; };
layout(binding = 3) readonly buffer Bias { float bias[]; };
layout(binding = 4) readonly buffer Residual { float residual[]; };
#define AT 4

// A^T of six numbers, in the first four elements, for the points of winograd_in.comp.
#define A 0.70710678118654752
#define B 1.41421356237309505
#define TRANSFORM(a, b, c, d, e, f)                       \
  {                                                       \
    const float k0 = b + c, k1 = b - c;                   \
    const float k2 = d + e, k3 = d - e;                   \
    a = a + k0 + k2;                                      \
    b = A * k1 + B * k3;                                  \
    c = 0.5 * k0 + 2.0 * k2;                              \
    d = 0.5 * A * k1 + 2.0 * B * k3 + f;                  \
  }

void main() {
  const uint tiles = P(AT), outputs = P(AT + 1), i = invocation();
  if (i >= tiles * outputs) return;
  const uint height = P(AT + 2), width = P(AT + 3), rows = P(AT + 4), columns = P(AT + 5);
  const uint tile = i % tiles, output_ = i / tiles;
  const uint image = tile / (rows * columns), at = tile % (rows * columns);
  float d[36];
  [[unroll]] for (uint e = 0; e < 36; ++e) d[e] = m[P(1) + e * outputs * tiles + i];
  [[unroll]] for (int c = 0; c < 6; ++c)
    TRANSFORM(d[c], d[6 + c], d[12 + c], d[18 + c], d[24 + c], d[30 + c])
  [[unroll]] for (int r = 0; r < 4; ++r)
    TRANSFORM(d[6 * r], d[6 * r + 1], d[6 * r + 2], d[6 * r + 3], d[6 * r + 4], d[6 * r + 5])
  const float add = kBias ? bias[P(2) + output_] : 0.0;
  const uint top = 4 * (at / columns), left = 4 * (at % columns);
  const uint plane = (image * outputs + output_) * height * width;
  [[unroll]] for (uint r = 0; r < 4; ++r)
    [[unroll]] for (uint c = 0; c < 4; ++c) {
      if (top + r >= height || left + c >= width) continue;
      const uint to = plane + (top + r) * width + left + c;
      float value = d[6 * r + c] + add;
      if (kResidual) value += residual[P(3) + to];
      y[P(0) + to] = activated(kActivation, value);
    }
}
