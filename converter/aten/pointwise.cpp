// SPDX-License-Identifier: Apache-2.0
// Elementwise selection, clamping and interpolation: where, clamp, lerp, addcmul, addcdiv, isclose.
#include "converter/aten/pointwise.h"

#include <cmath>

#include "converter/aten/complex.h"
#include "converter/rows/scalar.h"
#include "hg/ops/compare.h"
#include "hg/ops/control.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"
#include "lib/graph/element.h"

namespace hg::convert::rows {

std::string_view op_name(const Call& call) {
  std::string_view name = call.kind();
  name.remove_prefix(name.find("::") + 2);
  if (name.substr(0, 8) == "special_") name.remove_prefix(8);
  if (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
  return name;
}

Value number_as(Call& call, std::string_view argument, DType dtype) {
  const Real number = scalar(call, argument);
  if (is_float(dtype)) return number.as(call.graph(), dtype);
  if (!number.is_known()) {
    if (is_float(number.value().dtype()))
      call.refuse(argument, "is a float, but must be an integer for integer tensors");
    const Value value = number.as(call.graph(), dtype);
    if (dtype != boolean)
      assert_true(eq(convert::cast(value, i64), number.as(call.graph(), i64)),
                  str_cat(call.kind(), ": '", argument, "' does not fit a tensor of ", dtype));
    return value;
  }
  const double value = number.known();
  if (value != std::trunc(value))
    call.refuse(argument, "must be a whole number for integer tensors");
  if (!holds(dtype, value)) call.refuse(argument, str_cat("does not fit a tensor of ", dtype));
  return call.graph().scalar(call.number(argument), dtype);
}

namespace {

void where_of(Call& call) {
  const std::vector<Value> v = call.promoted({"self", "other"});
  call.returns(hg::where(convert::cast(call.tensor("condition"), boolean), v[0], v[1]));
}

void clamp(Call& call) {
  const std::vector<Value> v = call.promoted({"self", "min", "max"});
  if (v[0].dtype() == boolean) call.refuse("self", "must not be bool");
  call.returns(hg::clamp(v[0], v[1], v[2]));
}

// With two tensors, these are maximum and minimum, also for bool.
void clamp_min_tensor(Call& call) {
  const std::vector<Value> v = call.promoted({"self", "min"});
  call.returns(v[0].dtype() == boolean ? maximum(v[0], v[1]) : hg::clamp(v[0], v[1], Value()));
}
void clamp_max_tensor(Call& call) {
  const std::vector<Value> v = call.promoted({"self", "max"});
  call.returns(v[0].dtype() == boolean ? minimum(v[0], v[1]) : hg::clamp(v[0], Value(), v[1]));
}

void lerp(Call& call) {
  const std::vector<Value> v = call.promoted({"self", "end"});
  // A 16-bit float may not represent the number.
  const DType dtype = v[0].dtype();
  const DType inner = call.tensor_or_number("weight").rank() == 0 ? math_dtype(dtype) : dtype;
  call.returns(convert::cast(hg::lerp(convert::cast(v[0], inner), convert::cast(v[1], inner),
                                      call.tensor_or_number("weight", inner)),
                             dtype));
}

// self + value * tensor1 op tensor2, evaluated left to right: other orders overflow for other
// inputs.
void add_combined(Call& call, std::string_view op) {
  std::vector<Value> v = call.promoted({"self", "tensor1", "tensor2"});
  const DType dtype = v[0].dtype();
  if (op == "div" && !is_float(dtype)) call.refuse("self", "must be a float tensor");
  for (Value& each : v) each = convert::cast(each, math_dtype(dtype));
  if (call.has("value") && !scalar(call, "value").is(1))
    v[1] = v[1] * number_as(call, "value", v[1].dtype());
  call.returns(convert::cast(v[0] + call.graph().call(op, {v[1], v[2]}), dtype));
}
void addcmul(Call& call) { add_combined(call, "mul"); }
void addcdiv(Call& call) { add_combined(call, "div"); }

// self == other or |self - other| <= atol + rtol |other| with a finite difference
void isclose(Call& call) {
  const Value a = call.tensor("self"), b = call.tensor("other");
  if (a.dtype() != b.dtype()) call.refuse("other", "must have the dtype of self");
  const Real rtol = scalar(call, "rtol", 1e-5), atol = scalar(call, "atol", 1e-8);
  Value close = eq(a, b);
  if (call.flag("equal_nan", false) && is_float(a.dtype()))
    close = logical_or(close, logical_and(isnan(a), isnan(b)));
  if (rtol.is(0) && atol.is(0)) return call.returns(close);
  const DType dtype = is_float(a.dtype()) ? a.dtype() : f32;
  const Value x = convert::cast(a, dtype), y = convert::cast(b, dtype);
  const Value allowed = abs(y * rtol) + atol;
  const Value actual = abs(x - y);
  call.returns(logical_or(close, logical_and(isfinite(actual), le(actual, allowed))));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::elementwise};
constexpr Row kRows[] = {
    {"aten::where.self", where_of, OnComplex::parts},
    {"aten::where.ScalarSelf", where_of, OnComplex::parts},
    {"aten::where.ScalarOther", where_of, OnComplex::parts},
    {"aten::where.Scalar", where_of, OnComplex::parts},
    {"aten::clamp", clamp},
    {"aten::clip", clamp},
    {"aten::clamp_min", clamp},
    {"aten::clamp_max", clamp},
    {"aten::clamp_min.Tensor", clamp_min_tensor},
    {"aten::clamp_max.Tensor", clamp_max_tensor},
    {"aten::lerp", lerp, OnComplex::parts},
    {"aten::addcmul", addcmul, of_complex::addcmul},
    {"aten::addcdiv", addcdiv},
    {"aten::isclose", isclose},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> pointwise() { return kTable; }

}  // namespace hg::convert::rows
