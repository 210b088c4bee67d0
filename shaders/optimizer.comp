// SPDX-License-Identifier: Apache-2.0
// One in-place update of a parameter. lib/ops/optimizer.cpp has the formulas, kernels/train/optimizer.cpp the
// order of the operations.
//   kKind: 0 sgd, 1 adam, 2 rmsprop
//   kHas: bit s for state s (0 is x), bit 4 accumulated, bit 5 scale, bit 6 go
// Parameters: elements, group, sign, clip_value, weight_decay, decoupled decay, beta1, 1 - beta1, beta2, 1 -
// beta2, eps, ln beta1, ln beta2, nesterov. For sgd, beta1 is the momentum and beta2 the weight of a
// gradient; for rmsprop they are alpha and the momentum.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kKind = 0;
layout(constant_id = 1) const uint kHas = 1;
#include "common.glsl"
#include "math.glsl"
layout(binding = 1) buffer Y0 { float y0[]; };
layout(binding = 2) buffer Y1 { float y1[]; };
layout(binding = 3) buffer Y2 { float y2[]; };
layout(binding = 4) buffer Y3 { float y3[]; };
layout(binding = 5) buffer Y4 { float y4[]; };
layout(binding = 6) readonly buffer X0 { float x0[]; };
layout(binding = 7) readonly buffer X1 { float x1[]; };
layout(binding = 8) readonly buffer X2 { float x2[]; };
layout(binding = 9) readonly buffer X3 { float x3[]; };
layout(binding = 10) readonly buffer X4 { float x4[]; };
layout(binding = 11) readonly buffer Gradient { float gradient[]; };
layout(binding = 12) readonly buffer Rates { float rates[]; };
layout(binding = 13) readonly buffer Step { ivec2 steps[]; };
layout(binding = 14) readonly buffer Scale { float scales[]; };
layout(binding = 15) readonly buffer Go { uint8_t gos[]; };
#define AT 15

bool has(const uint bit) {
  uint bits = kHas;  // not const: tools disagree about operators on specialization constants
  return (bits >> bit & 1u) != 0u;
}

void main() {
  uint kind = kKind;
  const uint i = invocation();
  if (i >= P(AT)) return;
  float g = gradient[P(10) + i];
  const bool go = !has(6) || uint(gos[P(14)]) != 0u;
  float x = x0[P(5) + i], a = 0.0, b = 0.0, c = 0.0;
  if (has(1)) a = x1[P(6) + i];
  if (has(2)) b = x2[P(7) + i];
  if (has(3)) c = x3[P(8) + i];
  if (has(4)) {
    g += x4[P(9) + i];
    y4[P(4) + i] = go ? 0.0 : g;
  }
  if (go) {
    g *= F(AT + 2) * (has(5) ? scales[P(13)] : 1.0);
    const float limit = F(AT + 3);
    if (limit > 0.0) g = g > limit ? limit : g < -limit ? -limit : g;
    const float lr = rates[P(11) + P(AT + 1)], beta1 = F(AT + 6), part1 = F(AT + 7);
    const float beta2 = F(AT + 8), part2 = F(AT + 9), eps = F(AT + 10);
    const int t = steps[P(12)].x;
    g += F(AT + 4) * x;
    if (kind == 0u) {
      float move = g;
      if (has(1)) {
        a = t <= 1 ? g : beta1 * a + beta2 * g;
        move = P(AT + 13) != 0u ? g + beta1 * a : a;
      }
      x -= lr * move;
    } else if (kind == 1u) {
      a += part1 * (g - a);
      b = beta2 * b + part2 * g * g;
      if (has(3)) c = b > c ? b : c;
      // 1 - beta^t without cancellation.
      const float correction1 = -op_expm1(float(t) * F(AT + 11));
      const float correction2 = -op_expm1(float(t) * F(AT + 12));
      const float root = sqrt(has(3) ? c : b) / sqrt(correction2) + eps;
      x = x * (1.0 - lr * F(AT + 5)) - lr / correction1 * a / root;
    } else {
      a = beta1 * a + part1 * g * g;
      float variance = a;
      if (has(2)) {
        b += part1 * (g - b);
        variance -= b * b;
      }
      float move = g / (sqrt(variance) + eps);
      if (has(3)) move = c = c * beta2 + move;
      x -= lr * move;
    }
  }
  y0[P(0) + i] = x;
  if (has(1)) y1[P(1) + i] = a;
  if (has(2)) y2[P(2) + i] = b;
  if (has(3)) y3[P(3) + i] = c;
}
