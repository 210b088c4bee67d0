// SPDX-License-Identifier: Apache-2.0
// Block functions for f32, for each instruction set.
#pragma once

#include "hg/activation.h"
#include "kernels/pointwise/pointwise.h"

namespace hg::kernels {

struct PointwiseSimd {
  Block activations[kActivationCount];  // by Activation
  Block exp, erf;
  Block leaky_relu, elu, mish, softplus, log_sigmoid, hardtanh;  // with the params below
  Block expm1, log, exp2, atan, sqrt, rsqrt, reciprocal, neg, abs, floor, ceil, trunc, round;
  Block add, sub, mul, div, maximum, minimum;  // also with an operand of one element
  Block eq, ne, lt, le, gt, ge;
  // x[0] == x[1] ? x[2] : x[3], and likewise. If params.same is not 0, only the first element of
  // x[1] is read. May be null.
  Block choose_eq, choose_ne, choose_lt, choose_le, choose_gt, choose_ge;
  Block clamp;  // if params.same is not 0, only the first elements of the limits are read
  Block where;
  Block nan_to_num;                                   // with the params below
  Block from_u8, from_i8, to_bytes, to_i32, is_true;  // cast
  Block from_i64;                                     // likewise
  Block to_i64;                                       // likewise; may be null
  // Steps of programs that occur together: (x[0] - x[1]) * x[2] of bytes as floats, and
  // x[0] / x[1], rounded, plus x[2], limited as by hardtanh, as bytes.
  Block dequantize_u8, dequantize_i8, quantize;
  // Both for a sum: (x[0] - x[1]) * x[2] + (x[3] - x[4]) * x[5], over x[6], plus x[7]. By the types
  // of x[0] and x[3]. All others are numbers: their first elements are read.
  Block sum_u8_u8, sum_u8_i8, sum_i8_u8, sum_i8_i8;
  // y[i] = table[x[i]] for i < n, for a table of 256 results of 1 or 4 bytes.
  void (*look_up_1)(const void* table, const uint8_t* x, int64_t n, void* y);
  void (*look_up_4)(const void* table, const uint8_t* x, int64_t n, void* y);
};
const PointwiseSimd& pointwise_simd_blocks();

// Attributes in the form that all blocks of an op read.
void leaky_relu_params(const PrepareContext& c, PointwiseParams& p);
void elu_params(const PrepareContext& c, PointwiseParams& p);
void softplus_params(const PrepareContext& c, PointwiseParams& p);
void hardtanh_params(const PrepareContext& c, PointwiseParams& p);
void logit_params(const PrepareContext& c, PointwiseParams& p);
void round_params(const PrepareContext& c, PointwiseParams& p);
void nan_to_num_params(const PrepareContext& c, PointwiseParams& p);

}  // namespace hg::kernels
