// SPDX-License-Identifier: Apache-2.0
// Elementwise functions of one tensor.
#include "hg/ops/unary.h"

#include <cmath>
#include <numbers>

#include "converter/aten/complex.h"
#include "converter/aten/pointwise.h"
#include "converter/rows/scalar.h"
#include "converter/script/fold.h"
#include "converter/script/script_ops.h"
#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"

namespace hg::convert::rows {
namespace {

// The graph op of the same name; integers become f32.
void float_function(Call& call) {
  call.returns(call.graph().call(op_name(call), call.promoted({"self"}, true)));
}
// The graph op of the same name, in x's dtype.
void same_function(Call& call) {
  call.returns(call.graph().call(op_name(call), {call.tensor("self")}));
}
// Integers, including bool, are returned unchanged.
void rounding(Call& call) {
  const Value x = call.tensor("self");
  call.returns(is_float(x.dtype()) ? call.graph().call(op_name(call), {x}) : x);
}

template <const char* op>
void float_alias(Call& call) {
  call.returns(call.graph().call(op, call.promoted({"self"}, true)));
}
template <const char* op>
void same_alias(Call& call) {
  call.returns(call.graph().call(op, {call.tensor("self")}));
}
#define HG_ALIAS(name) constexpr char k_##name[] = #name
HG_ALIAS(acos);
HG_ALIAS(acosh);
HG_ALIAS(asin);
HG_ALIAS(asinh);
HG_ALIAS(atan);
HG_ALIAS(atanh);
HG_ALIAS(sigmoid);
HG_ALIAS(lgamma);
HG_ALIAS(digamma);
HG_ALIAS(neg);
#undef HG_ALIAS

void absolute(Call& call) {
  const Value x = call.tensor("self");
  call.returns(x.dtype() == boolean || x.dtype() == u8 ? x : abs(x));
}
void sign_of(Call& call) {
  const Value x = call.tensor("self");
  call.returns(x.dtype() == boolean ? x : sign(x));
}

// Scales by 10^decimals, rounds and scales back, as the op `round` does.
Value round_at_data(Call& call, const Value& given) {
  Graph& g = call.graph();
  const DType dtype = given.dtype() == f64 ? f64 : f32;
  const Value x = convert::cast(given, dtype);
  const Value decimals = convert::cast(call.tensor("decimals"), i64);
  // The first power that is infinite stands for all larger ones.
  std::vector<double> powers;
  for (int n = 0; n == 0 || std::isfinite(powers.back()); ++n) powers.push_back(std::pow(10.0, n));
  const auto largest = static_cast<int64_t>(powers.size()) - 1;
  const Value least = g.scalar(-largest, i64), most = g.scalar(largest, i64);
  const Value bounded = g.call("minimum", {g.call("maximum", {decimals, least}), most});
  const Value place = g.call("reshape", {g.call("abs", {bounded})}, {{"shape", Shape{1}}});
  Result<TensorData> table =
      TensorData::copy_of(view(powers.data(), f64, Sizes{static_cast<int64_t>(powers.size())}));
  require_ok(table.status());
  const Value power = g.call(
      "reshape", {g.call("index_select", {g.constant(*std::move(table)), place}, {{"dim", 0}})},
      {{"shape", Shape{}}});
  const Value ten = convert::cast(power, dtype);
  const Value is_negative = g.call("lt", {decimals, g.scalar(int64_t{0}, i64)});
  const Value y = g.call("where", {is_negative, round(x / ten) * ten, round(x * ten) / ten});
  return convert::cast(y, given.dtype());
}
void round_to(Call& call) {
  const Value x = call.tensor("self");
  if (is_float(x.dtype()) && call.is_of_data("decimals"))
    return call.returns(round_at_data(call, x));
  const int64_t decimals = call.number("decimals", 0);
  if (is_float(x.dtype())) return call.returns(round(x, decimals));
  if (decimals != 0) call.refuse("decimals", "is defined for float tensors only");
  call.returns(x);
}
void truncate(Call& call) {
  const Value x = call.tensor("self");
  call.returns(is_float(x.dtype()) ? trunc(x) : x);
}
void square_of(Call& call) {
  const Value x = call.tensor("self");  // bool becomes i64, as in x^2
  call.returns(square(convert::cast(x, x.dtype() == boolean ? i64 : x.dtype())));
}

void nan_to_number(Call& call) {
  const Value x = call.tensor("self");
  if (!is_float(x.dtype())) return call.returns(x);
  NamedAttrs attrs;
  std::vector<std::pair<Value, Value>> by_data;  // condition, and the replacement
  const auto replace = [&](std::string_view name, const auto& where_found) {
    if (!call.has(name)) return;
    const Real number = scalar(call, name);
    if (number.is_known())
      attrs.push_back({name, number.known()});
    else
      by_data.emplace_back(where_found(), number.like(x));
  };
  replace("nan", [&] { return isnan(x); });
  replace("posinf", [&] { return eq(x, number_like(x, HUGE_VAL)); });
  replace("neginf", [&] { return eq(x, number_like(x, -HUGE_VAL)); });
  Value y = call.graph().call("nan_to_num", {x}, attrs);
  for (const auto& [found, number] : by_data) y = where(found, number, y);
  call.returns(y);
}

void is_infinite_with(Call& call, double value) {
  const Value x = call.tensor("self");
  if (is_float(x.dtype())) return call.returns(eq(x, number_like(x, value)));
  call.returns(logical_and(isinf(x), isinf(x)));
}
void isposinf(Call& call) { is_infinite_with(call, HUGE_VAL); }
void isneginf(Call& call) { is_infinite_with(call, -HUGE_VAL); }
void isreal(Call& call) {  // a real tensor: true everywhere
  const Value x = call.tensor("self");
  call.returns(logical_or(eq(x, x), ne(x, x)));
}
void degrees_to_radians(Call& call) {
  call.returns(call.promoted({"self"}, true)[0] * (std::numbers::pi / 180));
}
void radians_to_degrees(Call& call) {
  call.returns(call.promoted({"self"}, true)[0] * (180 / std::numbers::pi));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::elementwise};
constexpr Row kRows[] = {
    {.op = "aten::neg",
     .run = same_function,
     .complex = OnComplex::parts,
     .fold = {fold::unary, "neg"},
     .script = {numbers::sign}},
    {"aten::negative", same_alias<k_neg>, OnComplex::parts},
    {.op = "aten::abs",
     .run = absolute,
     .complex = of_complex::abs,
     .fold = {fold::unary, "abs"},
     .script = {numbers::sign}},
    {"aten::absolute", absolute, of_complex::abs},
    {"aten::sign", sign_of},
    {"aten::sgn", sign_of, of_complex::sgn},
    {.op = "aten::sqrt",
     .run = float_function,
     .complex = of_complex::sqrt,
     .script = {numbers::math<std::sqrt>}},
    {"aten::rsqrt", float_function},
    {.op = "aten::reciprocal",
     .run = float_function,
     .complex = of_complex::reciprocal,
     .fold = {fold::reciprocal}},
    {.op = "aten::exp",
     .run = float_function,
     .complex = of_complex::exp,
     .script = {numbers::math<std::exp>}},
    {"aten::exp2", float_function},
    {"aten::special_exp2", float_function},
    {.op = "aten::expm1", .run = float_function, .script = {numbers::math<std::expm1>}},
    {"aten::special_expm1", float_function},
    {.op = "aten::log",
     .run = float_function,
     .complex = of_complex::log,
     .script = {numbers::log}},
    {.op = "aten::log2", .run = float_function, .script = {numbers::math<std::log2>}},
    {.op = "aten::log10", .run = float_function, .script = {numbers::math<std::log10>}},
    {.op = "aten::log1p", .run = float_function, .script = {numbers::math<std::log1p>}},
    {"aten::special_log1p", float_function},
    {.op = "aten::sin",
     .run = float_function,
     .complex = of_complex::sin,
     .script = {numbers::math<std::sin>}},
    {.op = "aten::cos",
     .run = float_function,
     .complex = of_complex::cos,
     .script = {numbers::math<std::cos>}},
    {.op = "aten::tan", .run = float_function, .script = {numbers::math<std::tan>}},
    {.op = "aten::asin", .run = float_function, .script = {numbers::math<std::asin>}},
    {"aten::arcsin", float_alias<k_asin>},
    {.op = "aten::acos", .run = float_function, .script = {numbers::math<std::acos>}},
    {"aten::arccos", float_alias<k_acos>},
    {.op = "aten::atan", .run = float_function, .script = {numbers::math<std::atan>}},
    {"aten::arctan", float_alias<k_atan>},
    {.op = "aten::sinh",
     .run = float_function,
     .complex = of_complex::sinh,
     .script = {numbers::math<std::sinh>}},
    {.op = "aten::cosh",
     .run = float_function,
     .complex = of_complex::cosh,
     .script = {numbers::math<std::cosh>}},
    {.op = "aten::tanh", .run = float_function, .script = {numbers::math<std::tanh>}},
    {.op = "aten::asinh", .run = float_function, .script = {numbers::math<std::asinh>}},
    {"aten::arcsinh", float_alias<k_asinh>},
    {.op = "aten::acosh", .run = float_function, .script = {numbers::math<std::acosh>}},
    {"aten::arccosh", float_alias<k_acosh>},
    {.op = "aten::atanh", .run = float_function, .script = {numbers::math<std::atanh>}},
    {"aten::arctanh", float_alias<k_atanh>},
    {.op = "aten::erf", .run = float_function, .script = {numbers::math<std::erf>}},
    {"aten::special_erf", float_function},
    {.op = "aten::erfc", .run = float_function, .script = {numbers::math<std::erfc>}},
    {"aten::special_erfc", float_function},
    {"aten::erfinv", float_function},
    {"aten::special_erfinv", float_function},
    {.op = "aten::lgamma", .run = float_function, .script = {numbers::math<std::lgamma>}},
    {"aten::special_gammaln", float_alias<k_lgamma>},
    {"aten::digamma", float_function},
    {"aten::special_digamma", float_function},
    {"aten::special_psi", float_alias<k_digamma>},
    {"aten::sigmoid", float_function},
    {"aten::special_expit", float_alias<k_sigmoid>},
    {"aten::sinc", float_function},
    {"aten::special_sinc", float_function},
    {.op = "aten::floor",
     .run = rounding,
     .fold = {fold::unary, "floor"},
     .script = {numbers::round}},
    {.op = "aten::ceil",
     .run = rounding,
     .fold = {fold::unary, "ceil"},
     .script = {numbers::round}},
    {.op = "aten::trunc",
     .run = truncate,
     .fold = {fold::unary, "trunc"},
     .script = {numbers::round}},
    {"aten::fix", truncate},
    {.op = "aten::round",
     .run = round_to,
     .fold = {fold::unary, "round"},
     .script = {numbers::round}},
    {"aten::special_round", round_to},
    {"aten::square", square_of, of_complex::square},
    {"aten::frac", same_function},
    {"aten::nan_to_num", nan_to_number},
    {.op = "aten::isnan",
     .run = same_function,
     .complex = of_complex::any_part,
     .script = {comparisons::is_special}},
    {.op = "aten::isinf",
     .run = same_function,
     .complex = of_complex::any_part,
     .script = {comparisons::is_special}},
    {.op = "aten::isfinite",
     .run = same_function,
     .complex = of_complex::isfinite,
     .script = {comparisons::is_special}},
    {"aten::signbit", same_function},
    {"aten::isposinf", isposinf},
    {"aten::isneginf", isneginf},
    {"aten::isreal", isreal, of_complex::isreal},
    {"aten::logical_not", same_function},
    {"aten::bitwise_not", same_function},
    {"aten::deg2rad", degrees_to_radians},
    {"aten::rad2deg", radians_to_degrees},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> unary() { return kTable; }

}  // namespace hg::convert::rows
