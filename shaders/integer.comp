// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of 8-bit integers with exact sums that wrap around: matmul_integer and conv_integer
// (lib/ops/integer.cpp). An invocation computes kOutputs outputs at one position: outputs are rows of w and
// positions columns of x, so a product is a convolution of one tap. Elements are read as words. With DOT, four
// channels are one instruction of SPV_KHR_integer_dot_product.
//
// Parameters: outputs, blocks of outputs, positions, channels, in[3], out[3], kernel[3], stride[3], padding[3],
// dilation[3], strides of x: channel, spatial[3]; of w: output, channel, spatial[3]; of y: output; of the zero
// point of x: position; of w: output; of bias, scale: place; batch rank, sizes, and strides of x, w, y, the zero
// points of x and w, and places.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kOutputs = 4;
layout(constant_id = 1) const bool kSignedX = false;
layout(constant_id = 2) const bool kSignedW = false;
layout(constant_id = 3) const bool kZeroX = false;  // x, w have zero points
layout(constant_id = 4) const bool kZeroW = false;
layout(constant_id = 5) const bool kBias = false;
layout(constant_id = 6) const bool kScale = false;
layout(constant_id = 7) const uint kZero = 0;           // results are 0: not rounded, 1: u8, 2: i8
layout(constant_id = 8) const bool kByPosition = false;  // bias and scale belong to positions, not outputs
#include "common.glsl"
layout(binding = 1) buffer Y { uint y[]; };
layout(binding = 1) buffer Bytes { uint8_t y_bytes[]; };
layout(binding = 2) readonly buffer X { uint x[]; };
layout(binding = 3) readonly buffer W { uint w[]; };
layout(binding = 4) readonly buffer ZeroX { uint x_zero[]; };
layout(binding = 5) readonly buffer ZeroW { uint w_zero[]; };
layout(binding = 6) readonly buffer Bias { int bias[]; };
layout(binding = 7) readonly buffer Scale { float scale[]; };
layout(binding = 8) readonly buffer Zero { uint zero[]; };
#define AT 8
ivec3 V(const uint k) { return ivec3(S(AT + k), S(AT + k + 1), S(AT + k + 2)); }

uint byte_of(const uint word, const int at) { return bitfieldExtract(word, 8 * (at % 4), 8); }
int extended(const uint byte, const bool is_signed) { return is_signed ? bitfieldExtract(int(byte), 0, 8) : int(byte); }
#define BYTE(from, at) byte_of(from[uint(at) / 4u], at)

#ifdef DOT
#extension GL_EXT_spirv_intrinsics : require
#define DOT_OF(name, op, result, a, b)                                                                          \
  spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = op)         \
  result name(a, b, spirv_literal int format);
DOT_OF(dot_signed, 4450, int, int, int)
DOT_OF(dot_unsigned, 4451, uint, uint, uint)
DOT_OF(dot_mixed, 4452, int, int, uint)  // signed, unsigned
int dot_of(const uint a, const uint b) {
  if (kSignedX && kSignedW) return dot_signed(int(a), int(b), 0);
  if (kSignedX) return dot_mixed(int(a), b, 0);
  if (kSignedW) return dot_mixed(int(b), a, 0);
  return int(dot_unsigned(a, b, 0));
}
#else
int dot_of(const uint a, const uint b) {
  int sum = 0;
  [[unroll]] for (int i = 0; i < 4; ++i)
    sum += extended(byte_of(a, i), kSignedX) * extended(byte_of(b, i), kSignedW);
  return sum;
}
#endif
int sum_of(const uint a, const bool is_signed) {
  int sum = 0;
  [[unroll]] for (int i = 0; i < 4; ++i) sum += extended(byte_of(a, i), is_signed);
  return sum;
}

// `count` bytes of a buffer, at most four; 0 beyond them.
#define GATHER(name, from)                                                               \
  uint name(const int at, const int step, const uint count) {                            \
    uint word = 0;                                                                       \
    [[unroll]] for (uint i = 0; i < 4; ++i)                                              \
      if (i < count) word |= BYTE(from, at + int(i) * step) << (8 * i);                  \
    return word;                                                                         \
  }
GATHER(gather_x, x)
GATHER(gather_w, w)

void main() {
  const uint outputs = P(AT), blocks = P(AT + 1), positions = P(AT + 2), channels = P(AT + 3);
  const ivec3 in_size = V(4), out_size = V(7), kernel = V(10), stride = V(13), padding = V(16), dilation = V(19);
  const int x_channel = S(AT + 22), w_output = S(AT + 26), w_channel = S(AT + 27);
  const ivec3 x_step = V(23), w_step = V(28);
  const uint rank = P(AT + 36);
  int x_at = S(1), w_at = S(2), y_at = 0, x_zero_at = S(3), w_zero_at = S(4), place = 0;
  uint rest = gl_WorkGroupID.z;
  for (uint d = rank; d-- > 0u;) {
    const uint size = P(AT + 37 + d);
    const int at = int(rest % size);
    rest /= size;
    x_at += at * S(AT + 37 + rank + d);
    w_at += at * S(AT + 37 + 2 * rank + d);
    y_at += at * S(AT + 37 + 3 * rank + d);
    x_zero_at += at * S(AT + 37 + 4 * rank + d);
    w_zero_at += at * S(AT + 37 + 5 * rank + d);
    place += at * S(AT + 37 + 6 * rank + d);
  }
  const uint first = gl_WorkGroupID.y * kOutputs, position = gl_WorkGroupID.x * 64 + gl_LocalInvocationID.x;
  if (position >= positions) return;
  const ivec3 o = ivec3(int(position) / (out_size.y * out_size.z), int(position) / out_size.z % out_size.y,
                        int(position) % out_size.z);
  int xz = 0;
  if (kZeroX) {
    const int at = x_zero_at + int(position) * S(AT + 32);
    xz = extended(BYTE(x_zero, at), kSignedX);
  }
  int sum[kOutputs], wz[kOutputs];
  for (uint i = 0; i < kOutputs; ++i) {
    sum[i] = 0;
    const int at = w_zero_at + int(min(first + i, outputs - 1)) * S(AT + 33);
    wz[i] = kZeroW ? extended(BYTE(w_zero, at), kSignedW) : 0;
  }
  for (int kx = 0; kx < kernel.x; ++kx)
    for (int ky = 0; ky < kernel.y; ++ky)
      for (int kz = 0; kz < kernel.z; ++kz) {
        // Padding is the zero point, and adds nothing.
        const ivec3 at = o * stride - padding + ivec3(kx, ky, kz) * dilation;
        if (any(lessThan(at, ivec3(0))) || any(greaterThanEqual(at, in_size))) continue;
        int from = x_at + at.x * x_step.x + at.y * x_step.y + at.z * x_step.z;
        int weight = w_at + kx * w_step.x + ky * w_step.y + kz * w_step.z;
        for (uint c = 0; c < channels; c += 4) {
          const uint count = min(channels - c, 4);
          const uint a = gather_x(from, x_channel, count);
          const int a_sum = kZeroW ? sum_of(a, kSignedX) - int(count) * xz : 0;
          for (uint i = 0; i < kOutputs; ++i) {
            const uint b = gather_w(weight + int(min(first + i, outputs - 1)) * w_output, w_channel, count);
            sum[i] += dot_of(a, b) - wz[i] * a_sum;
            if (kZeroX) sum[i] -= xz * sum_of(b, kSignedW);
          }
          from += 4 * x_channel;
          weight += 4 * w_channel;
        }
      }
  for (uint i = 0; i < kOutputs && first + i < outputs; ++i) {
    const uint to = P(0) + uint(y_at) + (first + i) * P(AT + 31) + position;
    const uint at = uint(place) + (kByPosition ? position : first + i);
    int value = sum[i];
    if (kBias) value += bias[P(5) + at * P(AT + 34)];
    if (!kScale) {
      y[to] = uint(value);
      continue;
    }
    precise const float scaled = float(value) * scale[P(6) + at * P(AT + 35)];
    if (kZero == 0) {
      y[to] = floatBitsToUint(scaled);
      continue;
    }
    const int shift = int(P(7)), low = kZero == 2 ? -128 : 0;
    const int z = extended(BYTE(zero, shift), kZero == 2);
    const float rounded = roundEven(scaled) + float(z);
    // A NaN becomes the lowest level.
    const int level = !(rounded > float(low)) ? low : rounded > float(low + 255) ? low + 255 : int(rounded);
    y_bytes[to] = uint8_t(level & 255);
  }
}
