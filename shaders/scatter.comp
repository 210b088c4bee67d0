// SPDX-License-Identifier: Apache-2.0
// y = x, combined with src where index says so. An invocation computes one element of y from its whole line
// of src, in order, so results are deterministic. An index out of range sets the flag.
//   kReduce: 0 the last one, 1 add, 2 prod, 3 amax, 4 amin, 5 mean
//   kSequential: an invocation computes a whole line of y, one element of src after another, starting with y
// Parameters: results or lines, rank, dim, includes itself, sizes of y, sizes of index, strides of src.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kReduce = 0;
layout(constant_id = 1) const bool kSequential = false;
#include "common.glsl"
#include "math.glsl"
layout(binding = 1) buffer Y { ELEMENT y[]; };
layout(binding = 2) readonly buffer X { ELEMENT x[]; };
layout(binding = 3) readonly buffer Index { uvec2 index[]; };
layout(binding = 4) readonly buffer Src { ELEMENT src[]; };
layout(binding = 5) buffer Flag { uint flag[]; };
#define AT 5

bool is_odd_one(const ELEMENT v) {
#ifdef FLOATS
  return is_nan(v);
#else
  return false;
#endif
}
ELEMENT combine(const ELEMENT a, const ELEMENT b) {
  if (kReduce == 0) return b;
  if (kReduce == 2) return a * b;
  if (kReduce == 3) return is_odd_one(a) || !is_odd_one(b) && a > b ? a : b;
  if (kReduce == 4) return is_odd_one(a) || !is_odd_one(b) && a < b ? a : b;
  return a + b;
}

void main() {
  const uint i = invocation();
  if (i >= P(AT)) return;
  const uint rank = P(AT + 1), dim = P(AT + 2);
  uint rest = i, me = 0, size = 1, length = 1, index_step = 1, step = 1;
  uint index_at = P(2), y_at = 0, y_step = 1, below = 1;  // elements of y below a dim
  int src_at = int(P(3)), src_step = 0;
  bool inside = true;
  for (uint d = rank; d-- > 0u;) {
    const uint extent = P(AT + 4 + d), given = P(AT + 4 + rank + d);
    uint at = 0;
    if (!kSequential || d != dim) {
      at = rest % extent;
      rest /= extent;
    }
    y_at += at * below;
    if (d == dim) {
      y_step = below;
      me = at;
      size = extent;
      length = given;
      index_step = step;
      src_step = S(AT + 4 + 2 * rank + d);
    } else {
      inside = inside && at < given;
      index_at += at * step;
      src_at += int(at) * S(AT + 4 + 2 * rank + d);
    }
    step *= given;
    below *= extent;
  }
  if (kSequential) {
    for (uint k = 0; k < size; ++k) y[P(0) + y_at + k * y_step] = x[P(1) + y_at + k * y_step];
    for (uint k = 0; inside && k < length; ++k) {
      const uvec2 to = index[index_at + k * index_step];
      if (to.y != 0u || to.x >= size) {
        flag[P(4)] = 1u;
        return;
      }
      const uint place = P(0) + y_at + to.x * y_step;
      y[place] = combine(y[place], src[uint(src_at + int(k) * src_step)]);
    }
    return;
  }
  ELEMENT value = x[P(1) + i];
  uint found = 0;
  if (inside)
    for (uint k = 0; k < length; ++k) {
      const uvec2 to = index[index_at + k * index_step];
      if (to.y != 0u || to.x >= size) {
        flag[P(4)] = 1u;
        break;
      }
      if (to.x != me) continue;
      const ELEMENT v = src[uint(src_at + int(k) * src_step)];
      value = found == 0u && P(AT + 3) == 0u ? v : combine(value, v);
      ++found;
    }
#ifdef FLOATS
  if (kReduce == 5 && found > 0u) value /= float(found + P(AT + 3));
#endif
  y[P(0) + i] = value;
}
