// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/integer.cpp: products and convolutions of 8-bit integers (u8 or i8).
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

// What is taken from 8-bit integers before they are multiplied, and what becomes of their sums.
// None of it needs to be given; zero points have the dtype of what they are taken from.
struct IntegerOptions {
  Value x_zero = {};       // of x, or of a: one number; for each row of a, [m] or [..., m, 1]
  Value weight_zero = {};  // one number, or one for each output channel: [out]; of b: [n] or
                           // [..., 1, n]
  Value bias = {};         // i32[out] or i32[n]: added to the sums
  // f32, one number or one for each output channel or column: the result is f32, the sums, rounded
  // to f32, times the scale ...
  Value scale = {};
  Value zero = {};  // u8 or i8: ... which are rounded, ties to even, plus this, within its dtype
};

// The sums of (a - its zero point) (b - its zero point), i32, which wraps around. a: [..., m, k],
// b: [..., k, n] -> [..., m, n]; batch dims broadcast.
inline Value matmul_integer(const Value& a, const Value& b, const IntegerOptions& o = {}) {
  return a.graph()->call("matmul_integer",
                         {a, b, o.x_zero, o.weight_zero, o.bias, o.scale, o.zero});
}

// Lists hold one number per spatial dim; one number stands for all.
struct ConvIntegerOptions {
  std::vector<Dim> stride = {1};
  std::vector<Dim> padding = {0};  // of zero points on both sides, or [begins..., ends...]
  std::vector<Dim> dilation = {1};
  Dim groups = 1;
};

// The convolution of such integers, i32. x: [n, c, spatial...] with one to three spatial dims,
// weight: [out, c / groups, kernel...].
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
