// SPDX-License-Identifier: Apache-2.0
// Elementwise ops that select, limit and convert; and the shape rules of all elementwise ops.
#include "lib/ops/pointwise.h"

#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "lib/graph/access.h"
#include "lib/table/rows.h"

namespace hg::ops {

Status infer_broadcast(InferContext& c, DType dtype) {
  c.out(0).dtype = dtype;
  Shape& shape = c.out(0).shape;
  for (int i = 0; i < c.input_count(); ++i)
    if (c.has(i) && !broadcast_onto(c.in(i).shape, shape).ok())
      return c.fail("shapes do not broadcast: ", shape, " and ", c.in(i).shape, " of input ", i);
  return {};
}

namespace {

Status infer_unary(InferContext& c, bool allowed, std::string_view wanted) {
  if (!allowed) return c.fail("x must be ", wanted, ", but is ", c.in(0).dtype);
  c.out(0) = c.in(0);
  return {};
}

Status infer_binary(InferContext& c, bool allowed, std::string_view wanted) {
  if (!allowed) return c.fail("the inputs must be ", wanted, ", a is ", c.in(0).dtype);
  if (c.in(0).dtype != c.in(1).dtype)
    return c.fail("a is ", c.in(0).dtype, ", b is ", c.in(1).dtype);
  return infer_broadcast(c, c.in(0).dtype);
}

}  // namespace

Status infer_number_unary(InferContext& c) {
  return infer_unary(c, c.in(0).dtype != boolean, "numbers");
}
Status infer_float_unary(InferContext& c) {
  return infer_unary(c, is_float(c.in(0).dtype), "floats");
}
Status infer_bit_unary(InferContext& c) {
  return infer_unary(c, !is_float(c.in(0).dtype), "integers or bool");
}
Status infer_test_unary(InferContext& c) {
  c.out(0) = c.in(0);
  c.out(0).dtype = boolean;
  return {};
}
Status infer_any_binary(InferContext& c) { return infer_binary(c, true, "tensors"); }
Status infer_number_binary(InferContext& c) {
  return infer_binary(c, c.in(0).dtype != boolean, "numbers");
}
Status infer_float_binary(InferContext& c) {
  return infer_binary(c, is_float(c.in(0).dtype), "floats");
}
Status infer_bit_binary(InferContext& c) {
  return infer_binary(c, !is_float(c.in(0).dtype), "integers or bool");
}
Status infer_integer_binary(InferContext& c) {
  return infer_binary(c, is_integer(c.in(0).dtype), "integers");
}
Status infer_test_binary(InferContext& c) {
  HG_TRY(infer_any_binary(c));
  c.out(0).dtype = boolean;
  return {};
}

namespace {

Status cast_infer(InferContext& c) {
  c.out(0) = c.in(0);
  c.out(0).dtype = c.attrs().dtype("dtype");
  return {};
}
// dx = dy as x's dtype
Status cast_grad(GradContext& c) {
  if (is_float(c.in(0).dtype()) && is_float(c.out(0).dtype()))
    c.set_grad(0, cast(c.dout(0), c.in(0).dtype()));
  return {};
}

Status where_infer(InferContext& c) {
  if (c.in(0).dtype != boolean) return c.fail("condition must be bool, but is ", c.in(0).dtype);
  if (c.in(1).dtype != c.in(2).dtype)
    return c.fail("a is ", c.in(1).dtype, ", b is ", c.in(2).dtype);
  return infer_broadcast(c, c.in(1).dtype);
}
// da = dy where the condition holds, db = dy elsewhere
Status where_grad(GradContext& c) {
  const Value dy = c.dout(0);
  if (c.needs(1)) c.set_grad(1, where(c.in(0), dy, zeros(dy)));
  if (c.needs(2)) c.set_grad(2, where(c.in(0), zeros(dy), dy));
  return {};
}

Status clamp_infer(InferContext& c) {
  const DType dtype = c.in(0).dtype;
  if (dtype == boolean) return c.fail("x must be numbers, it is bool");
  if (!c.has(1) && !c.has(2)) return c.fail("needs min or max, both are missing");
  for (int i = 1; i < 3; ++i)
    if (c.has(i) && c.in(i).dtype != dtype)
      return c.fail("x is ", dtype, ", ", i == 1 ? "min" : "max", " is ", c.in(i).dtype);
  return infer_broadcast(c, dtype);
}
// dx = dy where min <= x <= max; dmin = dy where x < min < max; dmax = dy where x > max or max <
// min
Status clamp_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  const Value low = c.has(1) ? c.in(1) : Value(), high = c.has(2) ? c.in(2) : Value();
  if (c.needs(0)) {
    Value inside = low ? ge(x, low) : le(x, high);
    if (low && high) inside = logical_and(inside, le(x, high));
    c.set_grad(0, where(inside, dy, zeros(dy)));
  }
  if (low && c.needs(1)) {
    Value below = lt(x, low);
    if (high) below = logical_and(below, lt(low, high));
    c.set_grad(1, where(below, dy, zeros(dy)));
  }
  if (high && c.needs(2)) {
    Value above = gt(x, high);
    if (low) above = logical_or(above, lt(high, low));
    c.set_grad(2, where(above, dy, zeros(dy)));
  }
  return {};
}
Status clamp_expand(ExpandContext& c) {
  Value y = c.in(0);
  if (c.has(1)) y = maximum(y, c.in(1));
  if (c.has(2)) y = minimum(y, c.in(2));
  c.set_out(0, y);
  return {};
}

Status lerp_infer(InferContext& c) {
  for (int i = 0; i < 3; ++i)
    if (!is_float(c.in(i).dtype) || c.in(i).dtype != c.in(0).dtype)
      return c.fail("the inputs must be floats of one dtype: a is ", c.in(0).dtype, ", input ", i,
                    " is ", c.in(i).dtype);
  return infer_broadcast(c, c.in(0).dtype);
}
// y = a + w (b - a): da = dy (1 - w), db = dy w, dw = dy (b - a)
Status lerp_grad(GradContext& c) {
  const Value a = c.in(0), b = c.in(1), w = c.in(2), dy = c.dout(0);
  if (c.needs(0)) c.set_grad(0, dy * (1.0 - w));
  if (c.needs(1)) c.set_grad(1, dy * w);
  if (c.needs(2)) c.set_grad(2, dy * (b - a));
  return {};
}
Status lerp_expand(ExpandContext& c) {
  const Value a = c.in(0), b = c.in(1), w = c.in(2);
  const Value near = lt(c.graph().call("abs", {w}), number_like(w, 0.5));
  c.set_out(0, where(near, a + w * (b - a), b - (b - a) * (1.0 - w)));
  return {};
}

Status to_integer_infer(InferContext& c) {
  if (!is_float(c.in(0).dtype)) return c.fail("x must be floats, but is ", c.in(0).dtype);
  c.out(0) = {i64, c.in(0).shape};
  return {};
}

constexpr OpDef kOps[] = {
    // Converts to i64 as Python's int() does: truncates toward zero. The run fails for NaN and for
    // a value that i64 cannot hold.
    {.signature = "to_integer(x) -> y",
     .infer = to_integer_infer,
     .traits = kNoGradient | kAssertion},
    // Converts to another dtype as torch's Tensor.to: floats are truncated toward zero, bool is x
    // != 0.
    {.signature = "cast(x, dtype: dtype) -> y",
     .infer = cast_infer,
     .grad = cast_grad,
     .alias = 1,
     .traits = kElementwise | kKeepsFinite},
    // condition ? a : b, elementwise. condition is bool. All three broadcast.
    {.signature = "where(condition, a, b) -> y",
     .infer = where_infer,
     .grad = where_grad,
     .alias = 7,
     .traits = kElementwise | kKeepsFinite},
    // min(max(x, min), max). One limit may be missing. All broadcast.
    {.signature = "clamp(x, min?, max?) -> y",
     .infer = clamp_infer,
     .grad = clamp_grad,
     .expand = clamp_expand,
     .alias = 7,
     .traits = kElementwise},
    // a + weight * (b - a). All broadcast.
    {.signature = "lerp(a, b, weight) -> y",
     .infer = lerp_infer,
     .grad = lerp_grad,
     .expand = lerp_expand,
     .alias = 7,
     .traits = kElementwise},
};

}  // namespace

std::span<const OpDef> pointwise() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
