// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/integer.cpp: products and convolutions of 8-bit integers (u8 or i8).
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

// Zero points to subtract from the operands, and the conversion of the i32 sums. All members are
// optional. A zero point has the dtype of its operand.
struct IntegerOptions {
  Value x_zero = {};  // of x or a: one number, or one per row of a, [m] or [..., m, 1]
  // one number, or one per output channel, [out]; for b: [n] or [..., 1, n]
  Value weight_zero = {};
  Value bias = {};  // i32, [out] or [n]; added to the sums
  // f32, one number or one per output channel or column. If given, the result is f32: the sums,
  // rounded to f32, times the scale.
  Value scale = {};
  // u8 or i8: the scaled sums are rounded (ties to even), shifted by this and clamped to its dtype
  Value zero = {};
};

// Sums of (a - a's zero point) * (b - b's zero point), as i32 that wraps around. a: [..., m, k], b:
// [..., k, n] -> [..., m, n]. Batch dims broadcast.
inline Value matmul_integer(const Value& a, const Value& b, const IntegerOptions& o = {}) {
  return a.graph()->call("matmul_integer",
                         {a, b, o.x_zero, o.weight_zero, o.bias, o.scale, o.zero});
}

// Each list has one number per spatial dim, or one number for all of them.
struct ConvIntegerOptions {
  std::vector<Dim> stride = {1};
  // filled with the zero point: both sides, or [begins..., ends...]
  std::vector<Dim> padding = {0};
  std::vector<Dim> dilation = {1};
  Dim groups = 1;
};

// Convolution of 8-bit integers, i32. x: [n, c, spatial...] with one to three spatial dims, weight:
// [out, c / groups, kernel...].
inline Value conv_integer(const Value& x, const Value& weight, const IntegerOptions& o = {},
                          const ConvIntegerOptions& windows = {}) {
  return x.graph()->call("conv_integer",
                         {x, weight, o.x_zero, o.weight_zero, o.bias, o.scale, o.zero},
                         {{"stride", windows.stride},
                          {"padding", windows.padding},
                          {"dilation", windows.dilation},
                          {"groups", windows.groups}});
}

}  // namespace hg
