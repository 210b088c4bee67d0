// SPDX-License-Identifier: Apache-2.0
// Activations that matmul and conv apply while storing: the rows of hg/activations.inc.
#include "math.glsl"
float op_none(const float x) { return x; }
float op_relu(const float x) { return x < 0.0 ? 0.0 : x; }
float op_relu6(const float x) { return clamp_to_six(x); }

float activated(const uint what, const float x) {
  switch (what) {
#define HG_ACTIVATION(number, name, op, attrs) \
  case number:                                 \
    return op_##name(x);
#include "hg/activations.inc"
  }
  return x;
}
