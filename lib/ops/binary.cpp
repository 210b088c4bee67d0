// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two tensors of one dtype. Shapes broadcast.
#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"
#include "lib/ops/pointwise.h"
#include "lib/ops/row.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// y = a + b: da = db = dy
Status add_grad(GradContext& c) {
  if (c.needs(0)) c.set_grad(0, c.dout(0));
  if (c.needs(1)) c.set_grad(1, c.dout(0));
  return {};
}
// y = a - b: da = dy, db = -dy
Status sub_grad(GradContext& c) {
  if (c.needs(0)) c.set_grad(0, c.dout(0));
  if (c.needs(1)) c.set_grad(1, -c.dout(0));
  return {};
}
// y = a b: da = dy b, db = dy a
Status mul_grad(GradContext& c) {
  if (c.needs(0)) c.set_grad(0, c.dout(0) * c.in(1));
  if (c.needs(1)) c.set_grad(1, c.dout(0) * c.in(0));
  return {};
}
// y = a / b: da = dy / b, db = -dy (a / b) / b
Status div_grad(GradContext& c) {
  if (c.needs(0)) c.set_grad(0, c.dout(0) / c.in(1));
  if (c.needs(1)) c.set_grad(1, -c.dout(0) * (c.out(0) / c.in(1)));
  return {};
}
// y = a - floor(a / b) b: da = dy, db = -dy floor(a / b)
Status remainder_grad(GradContext& c) {
  if (c.needs(0)) c.set_grad(0, c.dout(0));
  if (c.needs(1)) c.set_grad(1, -c.dout(0) * floor_divide(c.in(0), c.in(1)));
  return {};
}
// y = a - trunc(a / b) b: da = dy, db = -dy trunc(a / b)
Status fmod_grad(GradContext& c) {
  if (c.needs(0)) c.set_grad(0, c.dout(0));
  if (c.needs(1)) c.set_grad(1, -c.dout(0) * trunc_divide(c.in(0), c.in(1)));
  return {};
}
// y = a^b: da = dy b a^(b - 1), 0 where b is 0; db = dy y log(a), 0 where a is 0 and b >= 0.
// A power of 1 takes the place of a^-1 where b is 0, which could be infinite.
Status pow_grad(GradContext& c) {
  const Value a = c.in(0), b = c.in(1), y = c.out(0), dy = c.dout(0);
  if (c.needs(0)) {
    const Value constant = eq(b, zeros(b));
    const Value base = where(constant, number_like(a, 1), a);
    c.set_grad(0, where(constant, zeros(dy), dy * (b * pow(base, b - 1.0))));
  }
  if (c.needs(1)) {
    const Value flat = logical_and(eq(a, zeros(a)), ge(b, zeros(b)));
    c.set_grad(1, dy * where(flat, zeros(y), y * log(a)));
  }
  return {};
}
using Compare = Value (*)(const Value& a, const Value& b);
// The extreme element receives dy; equal elements share it.
template <Compare loses, Compare wins>
Status extreme_grad(GradContext& c) {
  const Value a = c.in(0), b = c.in(1), dy = c.dout(0);
  const Value shared = where(eq(a, b), dy * 0.5, dy);
  if (c.needs(0)) c.set_grad(0, where(loses(a, b), zeros(dy), shared));
  if (c.needs(1)) c.set_grad(1, where(wins(a, b), zeros(dy), shared));
  return {};
}
// The selected element receives dy; at ties it is a.
template <Compare is_selected>
Status selected_grad(GradContext& c) {
  const Value a = c.in(0), b = c.in(1), dy = c.dout(0);
  const Value first = logical_or(is_selected(a, b), isnan(b));
  if (c.needs(0)) c.set_grad(0, where(first, dy, zeros(dy)));
  if (c.needs(1)) c.set_grad(1, where(first, zeros(dy), dy));
  return {};
}
// y = atan2(a, b): da = dy b / (a^2 + b^2), db = -dy a / (a^2 + b^2), 0 at the origin
Status atan2_grad(GradContext& c) {
  const Value a = c.in(0), b = c.in(1), square = a * a + b * b;
  const Value scaled = where(eq(square, zeros(square)), zeros(square), c.dout(0) / square);
  if (c.needs(0)) c.set_grad(0, scaled * b);
  if (c.needs(1)) c.set_grad(1, -scaled * a);
  return {};
}
// y = sqrt(a^2 + b^2): da = dy a / y, db = dy b / y; 0 where y is 0, as of torch's complex abs
Status hypot_grad(GradContext& c) {
  const Value y = c.out(0), is_zero = eq(y, zeros(y));
  const Value scaled = where(is_zero, zeros(y), c.dout(0) / where(is_zero, number_like(y, 1), y));
  if (c.needs(0)) c.set_grad(0, scaled * c.in(0));
  if (c.needs(1)) c.set_grad(1, scaled * c.in(1));
  return {};
}
// y = |a| sign(b): da = dy y / a, 0 where a is 0; db = 0, as in torch
Status copysign_grad(GradContext& c) {
  const Value a = c.in(0), dy = c.dout(0);
  if (c.needs(0)) c.set_grad(0, dy * where(eq(a, zeros(a)), zeros(a), c.out(0) / a));
  if (c.needs(1))
    c.set_grad(1, c.graph().call("expand", {zeros(dy)}, {{"shape", c.in(1).shape()}}));
  return {};
}
// As PyTorch: da = dy, 0 where a = b; db = 0.
Status nextafter_grad(GradContext& c) {
  const Value a = c.in(0), b = c.in(1), dy = c.dout(0);
  if (c.needs(0)) c.set_grad(0, where(eq(a, b), zeros(dy), dy));
  if (c.needs(1)) c.set_grad(1, c.graph().call("expand", {zeros(dy)}, {{"shape", b.shape()}}));
  return {};
}
// y = log(e^a + e^b): da = dy / (1 + e^(b - a)), db = dy / (1 + e^(a - b))
Status logaddexp_grad(GradContext& c) {
  const Value a = c.in(0), b = c.in(1), dy = c.dout(0);
  if (c.needs(0)) c.set_grad(0, dy / (exp(b - a) + 1.0));
  if (c.needs(1)) c.set_grad(1, dy / (exp(a - b) + 1.0));
  return {};
}
// y = a log b: da = dy log b, 0 where a is 0 and b <= 0; db = dy a / b
Status xlogy_grad(GradContext& c) {
  const Value a = c.in(0), b = c.in(1), dy = c.dout(0);
  if (c.needs(0)) {
    const Value flat = logical_and(eq(a, zeros(a)), le(b, zeros(b)));
    c.set_grad(0, dy * where(flat, zeros(b), log(b)));
  }
  if (c.needs(1)) c.set_grad(1, dy * a / b);
  return {};
}

// Arithmetic on two tensors of one dtype. Shapes broadcast.
constexpr OpDef kOps[] = {
    // a + b; for bool, logical or
    binary_row<kCommutative | kKeepsFinite>("add(a, b) -> y", infer_any_binary, add_grad),
    // a - b
    binary_row<kKeepsFinite>("sub(a, b) -> y", infer_number_binary, sub_grad),
    // a * b; for bool, logical and
    binary_row<kCommutative | kKeepsFinite>("mul(a, b) -> y", infer_any_binary, mul_grad),
    // a / b. Floats only.
    binary_row("div(a, b) -> y", infer_float_binary, div_grad),
    // Quotient rounded toward minus infinity.
    binary_row("floor_divide(a, b) -> y", infer_number_binary, nullptr),
    // Quotient rounded toward zero.
    binary_row("trunc_divide(a, b) -> y", infer_number_binary, nullptr),
    // Remainder with the sign of b.
    binary_row("remainder(a, b) -> y", infer_number_binary, remainder_grad),
    // Remainder with the sign of a.
    binary_row("fmod(a, b) -> y", infer_number_binary, fmod_grad),
    // a^b
    binary_row("pow(a, b) -> y", infer_number_binary, pow_grad),
    // Larger element; NaN if either is NaN.
    binary_row<kCommutative>("maximum(a, b) -> y", infer_any_binary, extreme_grad<lt, gt>),
    // Smaller element; NaN if either is NaN.
    binary_row<kCommutative>("minimum(a, b) -> y", infer_any_binary, extreme_grad<gt, lt>),
    // Larger element; the other one if one is NaN.
    binary_row<kCommutative>("fmax(a, b) -> y", infer_any_binary, selected_grad<ge>),
    // Smaller element; the other one if one is NaN.
    binary_row<kCommutative>("fmin(a, b) -> y", infer_any_binary, selected_grad<le>),
    // Angle of the point (x, y) = (b, a).
    binary_row("atan2(a, b) -> y", infer_float_binary, atan2_grad),
    // sqrt(a^2 + b^2)
    binary_row<kCommutative>("hypot(a, b) -> y", infer_float_binary, hypot_grad),
    // Next float after a in the direction of b.
    binary_row("nextafter(a, b) -> y", infer_float_binary, nextafter_grad),
    // |a| with the sign of b
    binary_row("copysign(a, b) -> y", infer_float_binary, copysign_grad),
    // log(e^a + e^b)
    binary_row<kCommutative>("logaddexp(a, b) -> y", infer_float_binary, logaddexp_grad),
    // a * log(b); 0 where a is 0
    binary_row("xlogy(a, b) -> y", infer_float_binary, xlogy_grad),
    // Integers and bool only.
    binary_row<kCommutative>("bitwise_and(a, b) -> y", infer_bit_binary, nullptr),
    // Integers and bool only.
    binary_row<kCommutative>("bitwise_or(a, b) -> y", infer_bit_binary, nullptr),
    // Integers and bool only.
    binary_row<kCommutative>("bitwise_xor(a, b) -> y", infer_bit_binary, nullptr),
    // a * 2^b. Integers only.
    binary_row("bitwise_left_shift(a, b) -> y", infer_integer_binary, nullptr),
    // a / 2^b, rounded toward minus infinity. Integers only.
    binary_row("bitwise_right_shift(a, b) -> y", infer_integer_binary, nullptr),
    // Greatest common divisor. Integers only.
    binary_row<kCommutative>("gcd(a, b) -> y", infer_integer_binary, nullptr),
    // Least common multiple. Integers only.
    binary_row<kCommutative>("lcm(a, b) -> y", infer_integer_binary, nullptr),
};

}  // namespace

std::span<const OpDef> binary() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
