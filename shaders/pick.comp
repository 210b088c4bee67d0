// SPDX-License-Identifier: Apache-2.0
// Reads elements by index, for words of the element's size. Indices are i64, read as two words; an index out
// of range sets the flag.
//   kWhat: 0 gather (index has y's shape), 1 rows of one dim (index_select, embedding)
// Parameters of gather: results, size of dim, stride of dim in x, rank, sizes of y, strides of x with 0 for
// dim.
//
// Parameters of rows: results, size of dim, block, indices. With LEVELS, x is a weight, and the parameters of
// levels.glsl follow.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kWhat = 0;
#include "common.glsl"
layout(binding = 1) buffer Y { WORD y[]; };
layout(binding = 3) readonly buffer Index { uvec2 index[]; };
layout(binding = 4) buffer Flag { uint flag[]; };
#ifdef LEVELS
#define AT 6
#define SCALES 5
#define CONSTANTS 1
#define PARAMS (AT + 4)
#include "levels.glsl"
#else
#define AT 4
layout(binding = 2) readonly buffer X { WORD x[]; };
#endif

void main() {
  const uint i = invocation();
  if (i >= P(AT)) return;
  const uint size = P(AT + 1);
  const uint block = P(AT + 2), indices = P(AT + 3);
  const uvec2 at = index[P(2) + (kWhat == 0 ? i : i / block % indices)];
  if (at.y != 0u || at.x >= size) {
    flag[P(3)] = 1u;
    return;
  }
#ifdef LEVELS
  y[P(0) + i] = weight(at.x, i % block);
#else
  if (kWhat == 1) {
    const uint outer = i / block / indices;
    y[P(0) + i] = x[P(1) + (outer * size + at.x) * block + i % block];
    return;
  }
  const uint rank = P(AT + 3);
  int from = int(P(1)) + int(at.x) * S(AT + 2);
  uint rest = i;
  for (uint d = rank; d-- > 0u;) {
    const uint extent = P(AT + 4 + d);
    from += int(rest % extent) * S(AT + 4 + rank + d);
    rest /= extent;
  }
  y[P(0) + i] = x[uint(from)];
#endif
}
