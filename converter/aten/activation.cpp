// SPDX-License-Identifier: Apache-2.0
// Activation functions.
#include "hg/ops/activation.h"

#include <cmath>

#include "converter/aten/pointwise.h"
#include "converter/rows/scalar.h"
#include "hg/ops/compare.h"
#include "hg/ops/control.h"
#include "hg/ops/pointwise.h"
#include "lib/graph/element.h"

namespace hg::convert::rows {
namespace {

Value float_self(Call& call) {
  const Value x = call.tensor("self");
  if (!is_float(x.dtype())) call.refuse("self", "must be a float tensor");
  return x;
}
Value number_self(Call& call) {
  const Value x = call.tensor("self");
  if (x.dtype() == boolean) call.refuse("self", "must not be bool");
  return x;
}

void plain(Call& call) { call.returns(call.graph().call(op_name(call), {float_self(call)})); }
void relu(Call& call) { call.returns(hg::relu(number_self(call))); }
void relu6(Call& call) { call.returns(hardtanh(number_self(call), 0, 6)); }
// The graph op of the same name, with parameters that may depend on data.
void with_numbers(Call& call, const std::vector<NamedReal>& numbers) {
  call.returns(call_with(call.graph(), op_name(call), {float_self(call)}, numbers));
}
void leaky_relu(Call& call) {
  with_numbers(call, {{"negative_slope", scalar(call, "negative_slope", 0.01)}});
}
void elu(Call& call) {
  with_numbers(call, {{"alpha", scalar(call, "alpha", 1)},
                      {"scale", scalar(call, "scale", 1)},
                      {"input_scale", scalar(call, "input_scale", 1)}});
}
void celu(Call& call) {
  const Real alpha = scalar(call, "alpha", 1);
  if (alpha.is(0)) call.refuse("alpha", "must not be 0");
  if (!alpha.is_known())
    assert_true(ne(alpha.as(call.graph(), f64), call.graph().scalar(0.0, f64)),
                str_cat(call.kind(), ": 'alpha' is 0"));
  call.returns(call_with(call.graph(), "elu", {float_self(call)},
                         {{"alpha", alpha}, {"scale", 1}, {"input_scale", 1 / alpha}}));
}
void selu(Call& call) {  // Klambauer et al., Self-normalizing neural networks, 2017
  call.returns(hg::elu(float_self(call), 1.6732632423543772848170429916717,
                       1.0507009873554804934193349852946, 1));
}
void gelu(Call& call) {
  const std::string kind = call.string("approximate", "none");
  if (kind != "none" && kind != "tanh") call.refuse("approximate", "must be 'none' or 'tanh'");
  const auto how = kind == "tanh" ? GeluApproximation::tanh : GeluApproximation::none;
  call.returns(hg::gelu(float_self(call), how));
}
void softplus(Call& call) {
  with_numbers(call,
               {{"beta", scalar(call, "beta", 1)}, {"threshold", scalar(call, "threshold", 20)}});
}
// For integers, torch truncates the bounds to integers.
void hardtanh_of(Call& call) {
  const Value x = number_self(call);
  if (is_float(x.dtype()))
    return with_numbers(
        call, {{"min_val", scalar(call, "min_val", -1)}, {"max_val", scalar(call, "max_val", 1)}});
  if (x.dtype() == u8 && call.real("min_val", -1) < 0)
    call.refuse("min_val", "must not be negative for u8");
  const auto bound = [&](std::string_view name, int64_t fallback) {
    if (!call.has(name)) return x.graph()->scalar(fallback, x.dtype());
    const auto* real = std::get_if<double>(&call.find(name)->value);
    if (real == nullptr) return number_as(call, name, x.dtype());
    const double whole = std::trunc(*real);
    if (!holds(x.dtype(), whole))
      call.refuse(name, str_cat("does not fit a tensor of ", x.dtype()));
    return x.graph()->scalar(static_cast<int64_t>(whole), x.dtype());
  };
  call.returns(clamp(x, bound("min_val", -1), bound("max_val", 1)));
}
void hardshrink(Call& call) { with_numbers(call, {{"lambd", scalar(call, "lambd", 0.5)}}); }
void softshrink(Call& call) { with_numbers(call, {{"lambd", scalar(call, "lambd", 0.5)}}); }
void threshold(Call& call) {
  const Value x = number_self(call);
  if (!is_integer(x.dtype()))
    return with_numbers(
        call, {{"threshold", scalar(call, "threshold")}, {"value", scalar(call, "value")}});
  const Value limit = number_as(call, "threshold", x.dtype());
  call.returns(where(gt(x, limit), x, number_as(call, "value", x.dtype())));
}
void logit(Call& call) {
  const Value x = call.promoted({"self"}, true)[0];
  if (!call.has("eps")) return call.returns(hg::logit(x));
  Real eps = scalar(call, "eps");
  if (size_of(x.dtype()) == 2) {  // torch rounds the bounds to the dtype of x
    const Value low = number_as(call, "eps", x.dtype());
    const Value high = number_like(x, 1) - low;
    return call.returns(hg::logit(where(lt(x, low), low, where(gt(x, high), high, x))));
  }
  if (eps.is_known() && eps.known() > 0.5)  // the kernel gets the bounds in reversed order
    eps = Real(call.graph().scalar(eps.known(), f64));
  call.returns(call_with(call.graph(), "logit", {x}, {{"eps", eps}}));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::elementwise};
constexpr Row kRows[] = {
    {"aten::relu", relu},
    {"aten::relu6", relu6},
    {"aten::leaky_relu", leaky_relu},
    {"aten::elu", elu},
    {"aten::celu", celu},
    {"aten::selu", selu},
    {"aten::gelu", gelu},
    {"aten::silu", plain},
    {"aten::mish", plain},
    {"aten::softplus", softplus},
    {.op = "aten::log_sigmoid", .run = plain, .layout = ResultLayout::row_major},
    {"aten::hardtanh", hardtanh_of},
    {"aten::hardsigmoid", plain},
    {"aten::hardswish", plain},
    {"aten::hardshrink", hardshrink},
    {"aten::softshrink", softshrink},
    {"aten::threshold", threshold},
    {"aten::logit", logit},
    {"aten::special_logit", logit},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> activation() { return kTable; }

}  // namespace hg::convert::rows
