// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two tensors, or on a tensor and a number.
#include <cmath>
#include <numbers>
#include <optional>

#include "converter/aten/complex.h"
#include "converter/aten/pointwise.h"
#include "converter/containers/container_ops.h"
#include "converter/memory/alias.h"
#include "converter/memory/item_values.h"
#include "converter/rows/scalar.h"
#include "converter/script/fold.h"
#include "converter/script/script_ops.h"
#include "hg/op.h"
#include "hg/ops/compare.h"
#include "hg/ops/control.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"
#include "lib/graph/element.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

// Returns x * alpha; alpha defaults to 1.
Value scaled(Call& call, const Value& x) {
  if (!call.has("alpha") || scalar(call, "alpha").is(1)) return x;
  return hg::mul(x, number_as(call, "alpha", x.dtype()));
}
void add(Call& call) {
  const Values v = call.promoted({"self", "other"});
  call.returns(hg::add(v[0], scaled(call, v[1])));
}
void sub(Call& call) {
  const Values v = call.promoted({"self", "other"});
  if (v[0].dtype() == boolean) call.refuse("self", "must not be bool");
  call.returns(hg::sub(v[0], scaled(call, v[1])));
}
void rsub(Call& call) {
  const Values v = call.promoted({"self", "other"});
  if (v[0].dtype() == boolean) call.refuse("self", "must not be bool");
  call.returns(hg::sub(v[1], scaled(call, v[0])));
}

// Returns whether rounding a number or 0-d tensor to 16 bits may change it by more than the
// relative rounding error. This is assumed if it is unknown, and true outside the normal range of
// f16.
bool is_beyond_half(Call& call, DType dtype) {
  const Item& item = *call.find("other");
  const Value other = call.tensor_or_number("other");
  if (other.dtype() == dtype || other.rank() > 0) return false;
  const TensorData* const known = call.graph().constant_of(other.id());
  const auto number = scalar_of(item);
  if (known == nullptr && !(number && number->is_constant())) return true;
  const double size = std::abs(known != nullptr ? element(known->tensor, 0) : number->as_double());
  return dtype == f16 && std::isfinite(size) && size != 0 && (size < 0x1p-14 || size > 65504);
}
// In 16-bit products and quotients, torch does not round a second operand without dims, and
// computes in f32. So 1e6 does not become infinity.
Value by_factor(Call& call, const char* op, const Values& v) {
  const DType dtype = v[0].dtype();
  if ((dtype != f16 && dtype != bf16) || !is_beyond_half(call, dtype))
    return call.graph().call(op, v);
  const Value other = call.tensor_or_number("other", f32);
  return convert::cast(call.graph().call(op, {convert::cast(v[0], f32), other}), dtype);
}
void mul(Call& call) { call.returns(by_factor(call, "mul", call.promoted({"self", "other"}))); }
void floor_divide(Call& call) {
  const Values v = call.promoted({"self", "other"});
  if (v[0].dtype() == boolean) call.refuse("self", "must not be bool");
  call.returns(by_factor(call, "floor_divide", v));
}
void div(Call& call) {
  const std::string mode = call.string("rounding_mode", "");
  if (mode.empty())
    return call.returns(by_factor(call, "div", call.promoted({"self", "other"}, true)));
  if (mode == "floor") return floor_divide(call);
  const Values v = call.promoted({"self", "other"});
  if (v[0].dtype() == boolean) call.refuse("self", "must not be bool");
  if (mode != "trunc") call.refuse("rounding_mode", "must be 'trunc' or 'floor'");
  // For 16-bit floats and several divisors, torch rounds the quotient before truncating it.
  const bool is_half = v[0].dtype() == f16 || v[0].dtype() == bf16;
  if (is_half && !(count(v[1].shape()) == Dim(1)))
    return call.returns(hg::trunc(hg::div(v[0], v[1])));
  call.returns(by_factor(call, "trunc_divide", v));
}

// The graph op of the same name, in the common dtype; the variants are for floats and for integers
// alone.
void same_name(Call& call) {
  call.returns(call.graph().call(op_name(call), call.promoted({"self", "other"})));
}
void numbers_same_name(Call& call) {
  const Values v = call.promoted({"self", "other"});
  if (v[0].dtype() == boolean) call.refuse("self", "must not be bool");
  call.returns(call.graph().call(op_name(call), v));
}
void floats_same_name(Call& call) {
  call.returns(call.graph().call(op_name(call), call.promoted({"self", "other"}, true)));
}
template <const char* op>
void alias(Call& call) {
  call.returns(call.graph().call(op, call.promoted({"self", "other"})));
}
#define HG_ALIAS(name) constexpr char k_##name[] = #name
HG_ALIAS(maximum);
HG_ALIAS(minimum);
HG_ALIAS(bitwise_and);
HG_ALIAS(bitwise_or);
HG_ALIAS(bitwise_xor);
#undef HG_ALIAS

// For floats, a shift multiplies by a power of two.
void shift(Call& call, std::string_view op, double sign) {
  const Values v = call.promoted({"self", "other"});
  if (!is_float(v[0].dtype())) return call.returns(call.graph().call(op, v));
  call.returns(v[0] * exp2(v[1] * sign));
}
void left_shift(Call& call) { shift(call, "bitwise_left_shift", 1); }
void right_shift(Call& call) { shift(call, "bitwise_right_shift", -1); }

void arctan2(Call& call) {
  const Values v = call.promoted({"self", "other"}, true);
  call.returns(hg::atan2(v[0], v[1]));
}

// Returns the exponent if it is a constant number.
std::optional<double> exponent_number(const Call& call) {
  const Item* item = call.find("exponent");
  if (item != nullptr && item->is_number() &&
      !(item->is_int() && !std::get<Dim>(item->value).is_constant()))
    return call.real("exponent");
  return {};
}

// For data-dependent exponents 0.5 and -0.5, uses sqrt and rsqrt as torch does; they differ from
// pow for -inf and -0.
Value power_of_data(Call& call, const Value& x, const Value& exponent) {
  const Value y = pow(x, exponent);
  const Item& item = *call.find("exponent");
  const auto* number = std::get_if<TensorRef>(&item.value);
  if (number == nullptr || !(*number)->is_number()) return y;
  if (!is_float(x.dtype())) {
    assert_true(ge(exponent, number_like(exponent, 0)),
                str_cat(call.kind(), ": 'exponent' is negative for integer tensors"));
    return y;
  }
  const auto is = [&](double value) { return eq(exponent, number_like(exponent, value)); };
  return hg::where(is(0.5), sqrt(x), hg::where(is(-0.5), rsqrt(x), y));
}

// Like torch, uses simpler operations for float powers 0.5, 2, 3, -0.5, -1 and -2.
void power(Call& call) {
  const Values v = call.promoted({"self", "exponent"});
  const Value x = v[0];
  const std::optional<double> exponent = exponent_number(call);
  if (x.dtype() == boolean) call.refuse("self", "must not be bool");
  if (exponent && !is_float(x.dtype()) && *exponent < 0)
    call.refuse("exponent", "must not be negative for integer tensors");
  if (exponent == 1.0) return call.returns(x);
  if (exponent == 2.0) return call.returns(x * x);
  if (exponent == 3.0) return call.returns(x * x * x);
  if (exponent && is_float(x.dtype())) {
    if (*exponent == 0.5) return call.returns(sqrt(x));
    if (*exponent == -0.5) return call.returns(rsqrt(x));
    if (*exponent == -1) return call.returns(reciprocal(x));
    if (*exponent == -2) return call.returns(reciprocal(x * x));
  }
  call.returns(power_of_data(call, x, v[1]));
}
void float_power(Call& call) {  // always in f64
  const auto wide = [&](std::string_view name) {
    return call.find(name)->is_tensor() ? convert::cast(call.tensor(name), f64)
                                        : call.graph().scalar(call.real(name), f64);
  };
  call.returns(pow(wide("self"), wide("exponent")));
}

void logaddexp2(Call& call) {
  const Values v = call.promoted({"self", "other"}, true);
  constexpr double kLn2 = std::numbers::ln2;
  call.returns(logaddexp(v[0] * kLn2, v[1] * kLn2) * (1 / kLn2));
}

// 0 for x < 0, `values` at 0, 1 for x > 0.
void heaviside(Call& call) {
  const Values v = call.promoted({"self", "values"});
  const Value x = v[0];
  if (x.dtype() == boolean)  // true is greater than 0
    return call.returns(logical_or(x, v[1]));
  const Value zero = number_like(x, 0), one = number_like(x, 1);
  const Value step = hg::where(lt(x, zero), zero, one);
  call.returns(hg::where(eq(x, zero), v[1], hg::where(isnan(x), zero, step)));
}

// x * 2^n for integers n, rounded once.
Value scaled_by_power(const Value& x, const Value& n) {
  const auto limit = [&](const Value& v, double low, double high) {
    return clamp(v, number_like(v, low), number_like(v, high));
  };
  if (x.dtype() != f64)  // the product is exact in f64
    return convert::cast(convert::cast(x, f64) * exp2(limit(convert::cast(n, f64), -300, 300)),
                         x.dtype());
  // As scalbn() of musl: powers beyond those of f64 take several steps, of which only the last
  // one rounds.
  Value y = x, rest = limit(convert::cast(n, f64), -3000, 3000);
  for (int i = 0; i < 2; ++i) {
    const Value step = where(lt(rest, number_like(rest, -1022)), number_like(rest, -969),
                             limit(rest, -1022, 1023));
    y = y * exp2(step);
    rest = rest - step;
  }
  return y * exp2(limit(rest, -1022, 1023));
}
// x * 2^other
void ldexp(Call& call) {
  const Value x = call.tensor("self"), other = call.tensor("other");
  if (is_float(x.dtype()) && is_integer(other.dtype()))
    return call.returns(scaled_by_power(x, other));
  const Value power = exp2(is_float(other.dtype()) ? other : convert::cast(other, f32));
  const bool keep = is_float(x.dtype()) && (other.rank() == 0 || !is_float(other.dtype()));
  const DType dtype = keep ? x.dtype() : promote(x.dtype(), power.dtype());
  call.returns(convert::cast(x, dtype) * convert::cast(power, dtype));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::elementwise};
constexpr Row kRows[] = {
    {.op = "aten::add",
     .run = add,
     .complex = OnComplex::parts,
     .fold = {fold::arithmetic, "add"},
     .script = {numbers::arithmetic, lists::join, texts::join_two},
     .grown_list = grown::join},
    {"aten::__radd__", add},
    {.op = "aten::sub",
     .run = sub,
     .complex = OnComplex::parts,
     .fold = {fold::arithmetic, "sub"},
     .script = {numbers::arithmetic}},
    {"aten::subtract", sub, OnComplex::parts},
    {.op = "aten::rsub",
     .run = rsub,
     .complex = OnComplex::parts,
     .fold = {fold::arithmetic, "sub"}},
    {.op = "aten::mul",
     .run = mul,
     .complex = of_complex::mul,
     .fold = {fold::arithmetic, "mul"},
     .script = {numbers::arithmetic, lists::repeat},
     .grown_list = grown::repeat},
    {"aten::multiply", mul, of_complex::mul},
    {.op = "aten::div",
     .run = div,
     .complex = of_complex::div,
     .fold = {fold::arithmetic, "div"},
     .script = {numbers::arithmetic}},
    {"aten::divide", div, of_complex::div},
    {.op = "aten::true_divide",
     .run = div,
     .complex = of_complex::div,
     .fold = {fold::arithmetic, "div"}},
    {.op = "aten::floor_divide",
     .run = floor_divide,
     .fold = {fold::arithmetic, "floor_divide"},
     .script = {numbers::floor_divide}},
    {.op = "aten::remainder",
     .run = numbers_same_name,
     .fold = {fold::arithmetic, "remainder"},
     .script = {numbers::arithmetic}},
    {.op = "aten::fmod", .run = numbers_same_name, .script = {numbers::arithmetic}},
    {.op = "aten::pow", .run = power, .complex = of_complex::pow, .script = {numbers::pow}},
    {"aten::float_power", float_power},
    {.op = "aten::maximum", .run = same_name, .fold = {fold::arithmetic, "max"}},
    {.op = "aten::minimum", .run = same_name, .fold = {fold::arithmetic, "min"}},
    {"aten::max.other", alias<k_maximum>},
    {"aten::min.other", alias<k_minimum>},
    {"aten::fmax", same_name},
    {"aten::fmin", same_name},
    {.op = "aten::atan2", .run = floats_same_name, .script = {numbers::math_of_two<std::atan2>}},
    {"aten::arctan2", arctan2},
    {"aten::hypot", floats_same_name},
    {"aten::nextafter", floats_same_name},
    {.op = "aten::copysign",
     .run = floats_same_name,
     .script = {numbers::math_of_two<std::copysign>}},
    {"aten::logaddexp", floats_same_name},
    {"aten::logaddexp2", logaddexp2},
    {"aten::xlogy", floats_same_name},
    {"aten::special_xlogy", floats_same_name},
    {"aten::bitwise_and", same_name},
    {"aten::bitwise_or", same_name},
    {"aten::bitwise_xor", same_name},
    {"aten::bitwise_left_shift", left_shift},
    {"aten::bitwise_right_shift", right_shift},
    {.op = "aten::__and__", .run = alias<k_bitwise_and>, .script = {comparisons::logic}},
    {.op = "aten::__or__", .run = alias<k_bitwise_or>, .script = {comparisons::logic}},
    {.op = "aten::__xor__", .run = alias<k_bitwise_xor>, .script = {comparisons::logic}},
    {.op = "aten::__lshift__", .run = left_shift, .script = {numbers::shift}},
    {.op = "aten::__rshift__", .run = right_shift, .script = {numbers::shift}},
    {.op = "aten::gcd", .run = same_name, .script = {numbers::gcd}},
    {"aten::lcm", same_name},
    {"aten::heaviside", heaviside},
    {.op = "aten::ldexp", .run = ldexp, .script = {numbers::math_of_two<numbers::scaled>}},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> binary() { return kTable; }

}  // namespace hg::convert::rows
