// SPDX-License-Identifier: Apache-2.0
// Quantized ops, computed with the real numbers that the integers represent.
#include <algorithm>
#include <cmath>
#include <limits>

#include "converter/onnx/contrib.h"
#include "converter/onnx/integers.h"
#include "converter/onnx/levels.h"

namespace hg::convert::onnx {

Limits limits_of(Node& n, DType dtype) {
  switch (dtype) {
    case u8:
      return {0, 255};
    case i8:
      return {-128, 127};
    case i16:
      return {-32768, 32767};
    default:
      n.refuse(str_cat("it quantizes to ", dtype));
  }
}

Value quantized(Node& n, const Value& ratio, const Value& zero, DType dtype) {
  return quantized(ratio, zero, dtype, limits_of(n, dtype));
}

Value quantized(const Value& ratio, const Value& zero, DType dtype, const Limits& limits) {
  Value y = hg::round(ratio);
  if (zero) y = y + cast(zero, y.dtype());
  return cast(hardtanh(y, limits.low, limits.high), dtype);
}

Value scale_of(Node& n, int i) {
  if (n.is_constant(i))
    for (const double each : n.reals(i))
      if (!std::isfinite(each))
        n.refuse(str_cat("its scale, input ", int64_t{i}, ", is not finite"));
  return n.in(i);
}

Value placed_along(const Value& v, const Value& x, int axis) {
  if (v.rank() != 1) return v;
  const int at = axis < 0 ? axis + x.rank() : axis;
  if (v.dim(0) == Dim(1) || at < 0 || at >= x.rank()) return reshape(v, {});
  Shape shape(x.rank(), Dim(1));
  shape[at] = v.dim(0);
  return reshape(v, std::move(shape));
}

DynamicallyQuantized dynamically_quantized(Node& n, const Value& x) {
  const Value zero = constant_like(x, 0);
  const Value high = maximum(amax(x), zero), low = minimum(amin(x), zero);
  const Value width = (high - low) / 255.0;
  const Value scale = where(eq(width, zero), constant_like(x, 1), width);  // avoids dividing by 0
  const Value point = hg::round(hardtanh((0.0 - low) / scale, 0, 255));
  return {quantized(n, x / scale, point, u8), scale, cast(point, u8)};
}

namespace {

// Reshapes a scale or a zero point to broadcast to x: one number, one per index of the axis, or one
// per block.
Value beside(Node& n, const Value& v, const Value& x, int64_t given_axis, int64_t block) {
  if (v.rank() == 0 || (v.rank() == 1 && v.dim(0) == Dim(1))) return reshape(v, {});
  const int axis = n.axis(given_axis, x.rank());
  if (block == 0) {
    if (v.rank() != 1) n.refuse(str_cat("its scale is ", v.shape()));
    return placed_along(v, x, axis);
  }
  Shape apart = v.shape(), wide = v.shape(), whole = v.shape();
  apart.insert(apart.begin() + axis + 1, Dim(1));
  wide.insert(wide.begin() + axis + 1, Dim(block));
  whole[axis] = whole[axis] * Dim(block);
  const Value repeated = reshape(expand(reshape(v, apart), wide), whole);
  return slice(repeated, axis, 0, x.dim(axis));
}

void quantize_linear(Node& n) {
  const Value x = n.in(0);
  const int64_t axis = n.integer("axis", 1), block = n.integer("block_size", 0);
  // Types without a Hologram dtype are given by ONNX's number.
  const int64_t small = n.has(2) ? n.small_type(2) : n.integer("output_dtype", 0);
  DType dtype = u8;
  Limits limits;
  if (const auto type = small_integer_of_onnx(small); type && type->dtype != i64) {
    dtype = type->dtype;
    limits = {type->low(), type->high()};
  } else {
    if (n.has(2))
      dtype = n.type(2).dtype;
    else if (small != 0)
      dtype = n.dtype("output_dtype");
    limits = limits_of(n, dtype);
  }
  const Value scale = beside(n, scale_of(n, 1), x, axis, block);
  const Value wide = is_float(x.dtype()) ? x : cast(x, scale.dtype());
  Value zero;
  if (n.has(2)) zero = beside(n, n.numbers(2), x, axis, block);
  const Value exact = wide.dtype() == f16 || wide.dtype() == bf16 ? cast(wide, f32) : wide;
  const Value y = quantized(exact / cast(scale, exact.dtype()), zero, dtype, limits);
  if (small_integer_of_onnx(small))
    n.give_small_integers(small, y);
  else
    n.give(y);
}

Value dequantized(Node& n, const Value& x, const Value& scale, const Value& zero, int64_t axis,
                  int64_t block) {
  const Value s = beside(n, scale, x, axis, block);
  const DType wide = s.dtype() == f64 ? f64 : f32;
  Value y = cast(x, x.dtype() == i32 ? f64 : wide);
  if (zero) y = y - cast(beside(n, zero, x, axis, block), y.dtype());
  return cast(cast(y, wide) * cast(s, wide), s.dtype());
}

void dequantize_linear(Node& n) {
  const int64_t to = n.integer("output_dtype", 0), axis = n.integer("axis", 1),
                block = n.integer("block_size", 0);
  const Value scale = scale_of(n, 1);
  Value y;
  if (const std::optional<Value> weight = dequantized_weight(n, 1, 2, axis, block))
    y = *weight;
  else
    y = dequantized(n, n.numbers(0), scale, n.has(2) ? n.numbers(2) : Value(), axis, block);
  if (to == 1) y = cast(y, f32);
  if (to == 10) y = cast(y, f16);
  if (to != 0 && to != 1 && to != 10) n.refuse("attribute 'output_dtype' is not supported");
  n.give(y);
}

void dynamic_quantize_linear(Node& n) {
  const DynamicallyQuantized q = dynamically_quantized(n, n.in(0));
  n.give({q.y, q.scale, q.zero});
}

void mat_mul_integer(Node& n) {
  n.give(integer_product(integers_of(n, 0, 2), integers_of(n, 1, 3)).made({}));
}

void qlinear_mat_mul(Node& n) {
  const IntegerSums sums = integer_product(integers_of(n, 0, 2), integers_of(n, 3, 5));
  n.give(requantized(n, sums, scale_in(n, 1), scale_in(n, 4), 6));
}

void conv_integer(Node& n) {
  n.give(integer_convolution(n, integers_of(n, 0, 2), integers_of(n, 1, 3)).made({}));
}

void qlinear_conv(Node& n) {
  IntegerSums sums = integer_convolution(n, integers_of(n, 0, 2), integers_of(n, 3, 5));
  sums.bias = n.in_or_none(8);
  n.give(requantized(n, sums, scale_in(n, 1), scale_in(n, 4), 6));
}

constexpr Builtin kRows[] = {
    {"onnx::QuantizeLinear", row<quantize_linear>},
    {"onnx::DequantizeLinear", row<dequantize_linear>},
    {"onnx::DynamicQuantizeLinear", row<dynamic_quantize_linear>},
    {"com.microsoft::QuantizeLinear", row<quantize_linear>},
    {"com.microsoft::DequantizeLinear", row<dequantize_linear>},
    {"onnx::MatMulInteger", row<mat_mul_integer>},
    {"onnx::QLinearMatMul", row<qlinear_mat_mul>},
    {"onnx::ConvInteger", row<conv_integer>},
    {"onnx::QLinearConv", row<qlinear_conv>},
};

}  // namespace

Rows quantize_rows() { return kRows; }

}  // namespace hg::convert::onnx
