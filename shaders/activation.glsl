// SPDX-License-Identifier: Apache-2.0
// What matmul and conv apply while they store, in the order of kernels/pointwise/activation.h.
#include "math.glsl"
float activated(const uint what, const float x) {
  switch (what) {
    case 1: return x < 0.0 ? 0.0 : x;
    case 2: return x < 0.0 ? 0.0 : x > 6.0 ? 6.0 : x;
    case 3: return op_sigmoid(x);
    case 4: return op_tanh(x);
    case 5: return x / (1.0 + op_exp(-x));
    case 6: return clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case 7: return x * clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case 8: return x * 0.5 * op_erfc(-x * 0.7071067811865476);
    case 9: return 0.5 * x * (1.0 + op_tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  }
  return x;
}
