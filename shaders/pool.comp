// SPDX-License-Identifier: Apache-2.0
// Pooling: an invocation computes one result (or, for a gradient, one element of dx) from its windows.
//   kWhat: 0 max, 1 max and index, 2 average, 3 gradient of the average
// Parameters: results, in[3], out[3], kernel[3], stride[3], padding[3], dilation[3], divisor (0: the window's
// size), counts padding. A stride of 0 means adaptive windows.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kWhat = 0;
layout(constant_id = 1) const bool kSigned = false;  // of bytes
#include "common.glsl"
#include "math.glsl"
layout(binding = 1) buffer Y { ELEMENT y[]; };
layout(binding = 2) readonly buffer X { ELEMENT x[]; };
layout(binding = 3) buffer Index { ivec2 index[]; };
#define AT 3
float level(const int byte) { return float(kSigned ? bitfieldExtract(byte, 0, 8) : byte); }
ivec3 V(const uint k) { return ivec3(S(AT + k), S(AT + k + 1), S(AT + k + 2)); }

// [begin, end) in steps of the dilation; z: number of elements including padding.
ivec3 window(const int d, const int o) {
  const int size = S(AT + 1 + d), results = S(AT + 4 + d), stride = S(AT + 10 + d);
  if (stride == 0) {
    const int first = o * size / results, last = ((o + 1) * size + results - 1) / results;
    return ivec3(first, last, last - first);
  }
  const int kernel = S(AT + 7 + d), padding = S(AT + 13 + d), dilation = S(AT + 16 + d);
  int begin = o * stride - padding;
  const int padded = min(begin + kernel, size + padding) - begin;
  const int end = min(begin + (kernel - 1) * dilation + 1, size);
  if (begin < 0) begin += (-begin + dilation - 1) / dilation * dilation;
  return ivec3(begin, end, padded);
}
// The windows [first, last) that contain element i, without dilation.
ivec2 covering(const int d, const int i) {
  const int size = S(AT + 1 + d), results = S(AT + 4 + d), stride = S(AT + 10 + d);
  if (stride == 0) return ivec2(i * results / size, min(results, ((i + 1) * results + size - 1) / size));
  const int behind = i + S(AT + 13 + d) - S(AT + 7 + d);
  return ivec2(behind < 0 ? 0 : behind / stride + 1, min(results, (i + S(AT + 13 + d)) / stride + 1));
}
float divisor(const ivec3 a, const ivec3 b, const ivec3 c) {
  if (P(AT + 19) != 0u) return float(S(AT + 19));
  if (P(AT + 20) != 0u) return float(a.z * b.z * c.z);
  return float((a.y - a.x) * (b.y - b.x) * (c.y - c.x));
}

void main() {
  const uint i = invocation();
  if (i >= P(AT)) return;
  const ivec3 size = V(1), results = V(4), dilation = V(16);
  const ivec3 mine = kWhat == 3 ? size : results, theirs = kWhat == 3 ? results : size;
  const uint space = uint(mine.x * mine.y * mine.z);
  const int p = int(i % space);
  const ivec3 o = ivec3(p / (mine.y * mine.z), p / mine.z % mine.y, p % mine.z);
  const uint from = P(1) + i / space * uint(theirs.x * theirs.y * theirs.z);
  if (kWhat == 3) {
    const ivec2 a = covering(0, o.x), b = covering(1, o.y), c = covering(2, o.z);
    float sum = 0.0;
    for (int u = a.x; u < a.y; ++u)
      for (int v = b.x; v < b.y; ++v)
        for (int w = c.x; w < c.y; ++w)
          sum += LOAD(x[from + uint((u * results.y + v) * results.z + w)]) / divisor(window(0, u), window(1, v), window(2, w));
    y[P(0) + i] = STORE(sum);
    return;
  }
  const ivec3 a = window(0, o.x), b = window(1, o.y), c = window(2, o.z);
  float state = kWhat == 2 ? 0.0 : -infinity();
  int best = -1;
  for (int u = a.x; u < a.y; u += dilation.x)
    for (int v = b.x; v < b.y; v += dilation.y)
      for (int w = c.x; w < c.y; w += dilation.z) {
        const int at = (u * size.y + v) * size.z + w;
        const float value = LOAD(x[from + uint(at)]);
        if (kWhat == 2) state += value;
        else if (best < 0 || value > state || is_nan(value)) {
          state = value;
          best = at;
        }
      }
  y[P(0) + i] = STORE(kWhat == 2 ? state / divisor(a, b, c) : state);
  if (kWhat == 1) index[P(2) + i] = ivec2(best, 0);
}
