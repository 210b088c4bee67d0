// SPDX-License-Identifier: Apache-2.0
// Softmax and norms: one group of 64 invocations per line, or one invocation (not kTogether). With SUBGROUPS,
// subgroups combine partial results first.
//   kWhat: 0 softmax, 1 log_softmax, 2 layer_norm, 3 rms_norm, 4 group_norm
// Line l begins at l / inner * outer_step + l % inner * inner_step.
// Element i of it is at i / space * far + i % space.
//
// Parameters: lines, count, inner, outer_step, inner_step, space, far, channels of a line (group_norm), eps.
//
// Weights: layer_norm and rms_norm by i, group_norm by channel.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kWhat = 0;
layout(constant_id = 1) const bool kTogether = true;
layout(constant_id = 2) const bool kWeight = false;
layout(constant_id = 3) const bool kBias = false;
#include "common.glsl"
#include "math.glsl"
layout(binding = 1) buffer Y { REAL y[]; };
layout(binding = 2) readonly buffer X { REAL x[]; };
layout(binding = 3) readonly buffer Weight { REAL weight[]; };
layout(binding = 4) readonly buffer Bias { REAL bias[]; };
#define AT 4
shared float part[64];

// NaN is larger than all numbers.
float both(const float a, const float b, const bool largest) {
  return !largest ? a + b : is_nan(a) || a > b ? a : b;
}

float all_of(const float mine, const bool largest) {
  if (!kTogether) return mine;
  const uint me = gl_LocalInvocationID.x;
  barrier();
#ifdef SUBGROUPS
  float known = subgroupAdd(mine);
  if (largest) known = subgroupMax(is_nan(mine) ? 1u : 0u) != 0u ? known : subgroupMax(mine);
  if (subgroupElect()) part[gl_SubgroupID] = known;
  barrier();
  known = part[0];
  for (uint i = 1; i < gl_NumSubgroups; ++i) known = both(known, part[i], largest);
  return known;
#else
  part[me] = mine;
  for (uint half_of = 32u; half_of > 0u; half_of /= 2u) {
    barrier();
    if (me < half_of) part[me] = both(part[me], part[me + half_of], largest);
  }
  barrier();
  return part[0];
#endif
}

void main() {
  const uint lines = P(AT), count = P(AT + 1), inner = P(AT + 2), space = P(AT + 5), far = P(AT + 6);
  const uint line = kTogether ? group_number() : invocation();
  const bool mine = line < lines;
  const uint l = mine ? line : 0u;
  const uint start = l / inner * P(AT + 3) + l % inner * P(AT + 4);
  const uint from = P(1) + start, to = P(0) + start;
  const uint me = kTogether ? gl_LocalInvocationID.x : 0u, step = kTogether ? 64u : 1u;
  const float eps = F(AT + 8);
#define EACH(i, at)                         \
  for (uint i = me; i < count; i += step) { \
    const uint at = i / space * far + i % space;
  if (kWhat < 2) {
    float top = -infinity();
    EACH(i, at)
      const float v = float(x[from + at]);
      top = is_nan(top) || top > v ? top : v;
    }
    top = all_of(top, true);
    if (kWhat == 1 && top == -infinity()) top = 0.0;
    float sum = 0.0;
    EACH(i, at) sum += op_exp(float(x[from + at]) - top); }
    sum = all_of(sum, false);
    if (!mine) return;
    const float log_sum = op_log(sum);  // subtracted separately: added to top it would lose digits
    EACH(i, at)
      const float v = float(x[from + at]) - top;
      y[to + at] = REAL(kWhat == 1 ? v - log_sum : op_exp(v) / sum);
    }
    return;
  }
  float mean = 0.0;
  if (kWhat != 3) {
    EACH(i, at) mean += float(x[from + at]); }
    mean = all_of(mean, false) / float(count);
  }
  float square = 0.0;
  EACH(i, at)
    const float d = float(x[from + at]) - mean;
    square += d * d;
  }
  square = all_of(square, false) / float(count);
  if (!mine) return;
  const float scale = 1.0 / sqrt(square + eps);
  EACH(i, at)
    float v = (float(x[from + at]) - mean) * scale;
    uint w = i;
    if (kWhat == 4) w = l % inner * P(AT + 7) + i / space;
    if (kWeight) v *= float(weight[P(2) + w]);
    if (kBias) v += float(bias[P(3) + w]);
    y[to + at] = REAL(v);
  }
}
