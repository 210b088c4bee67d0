// SPDX-License-Identifier: Apache-2.0
// Sorts by counting: an invocation counts the elements of its line that precede its own, equal ones in their
// order, and writes to that position. NaN is larger than all numbers.
//   kDescending
//   kPick: 0 the first positions of the line, 1 one given position, 2 the median (NaN if there is one),
//     3 the median of elements that are not NaN
// Parameters: elements, elements of a line, steps from one to the next, positions or the position.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const bool kDescending = false;
layout(constant_id = 1) const uint kPick = 0;
#include "common.glsl"
#include "math.glsl"
layout(binding = 1) buffer Y { ELEMENT y[]; };
layout(binding = 2) buffer Indices { ivec2 indices[]; };
layout(binding = 3) readonly buffer X { ELEMENT x[]; };
#define AT 3

bool is_odd_one(const KEY v) {
#ifdef FLOATS
  return is_nan(v);
#else
  return false;
#endif
}
bool before(const KEY a, const KEY b) {
  if (kDescending) return a > b || is_odd_one(a) && !is_odd_one(b);
  return a < b || !is_odd_one(a) && is_odd_one(b);
}

void main() {
  uint pick = kPick;
  const uint i = invocation(), length = P(AT + 1), stride = P(AT + 2);
  if (i >= P(AT)) return;
  const uint inner = i % stride, me = i / stride % length, outer = i / stride / length;
  const uint start = P(2) + outer * length * stride + inner;
  const KEY mine = KEY(x[start + me * stride]);
  uint place = 0, numbers = 0;
  for (uint k = 0; k < length; ++k) {
    const KEY other = KEY(x[start + k * stride]);
    if (before(other, mine) || k < me && !before(mine, other)) ++place;
    if (!is_odd_one(other)) ++numbers;
  }
  uint wanted = P(AT + 3);
  if (pick == 2) wanted = numbers < length ? numbers : (length - 1) / 2;
  if (pick == 3) wanted = numbers == 0 ? 0 : (numbers - 1) / 2;
  if (pick == 0 ? place >= wanted : place != wanted) return;
  const uint to = pick == 0 ? (outer * wanted + place) * stride + inner : outer * stride + inner;
  y[P(0) + to] = ELEMENT(mine);
  indices[P(1) + to] = ivec2(int(me), 0);
}
