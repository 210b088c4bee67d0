// SPDX-License-Identifier: Apache-2.0
// y at any strides = x at any strides, or a constant (mode 1). WORD is a type of the element's size.
//
// Parameters: count, first element of y and of x, rank, shape, strides of y, strides of x, value (two words).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kFill = 0;
#include "common.glsl"
layout(binding = 1) buffer Y { WORD y[]; };
layout(binding = 2) readonly buffer X { WORD x[]; };

void main() {
  const uint i = invocation();
  if (i >= P(2)) return;
  const uint rank = P(5);
  uint rest = i;
  int to = int(P(0) + P(3)), from = int(P(1) + P(4));
  for (uint d = rank; d-- > 0u;) {
    const uint size = P(6 + d);
    const uint next = d == 0u ? 0u : rest / size;
    const int at = int(rest - next * size);
    to += at * S(6 + rank + d);
    from += at * S(6 + 2 * rank + d);
    rest = next;
  }
  if (kFill == 0) y[to] = x[from];
  else y[to] = FILL(P(6 + 3 * rank), P(7 + 3 * rank));
}
