// SPDX-License-Identifier: Apache-2.0
// Activation functions. Each has a kernel of its own; the expansions define them by other ops.
#include "hg/ops/activation.h"

#include <numbers>

#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"
#include "lib/graph/element.h"
#include "lib/graph/real.h"
#include "lib/ops/pointwise.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

Value above_limit(const Value& x, const Real& limit) { return gt(x, limit.like(x)); }
Value below_limit(const Value& x, const Real& limit) { return lt(x, limit.like(x)); }

// dx = dy, but 0 where y <= 0; NaN satisfies neither
Status relu_grad(GradContext& c) {
  const Value y = c.out(0);
  c.set_grad(0, where(le(y, zeros(y)), zeros(c.dout(0)), c.dout(0)));
  return {};
}
// dx = x > 0 ? dy : dy slope
Status leaky_relu_grad(GradContext& c) {
  const Value dy = c.dout(0);
  c.set_grad(0, where(above_limit(c.in(0), 0), dy, dy * c.attrs().real("negative_slope")));
  return {};
}
// dx = scale dy where x > 0, else dy alpha scale input_scale e^(input_scale x). The exponential of
// a positive x could overflow, and its derivative would be NaN.
Status elu_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  const double alpha = c.attrs().real("alpha"), scale = c.attrs().real("scale");
  const double input_scale = c.attrs().real("input_scale");
  const Value below = where(below_limit(x, 0), x, zeros(x));
  const Value negative = exp(below * input_scale) * (alpha * scale * input_scale);
  c.set_grad(0, where(above_limit(x, 0), dy * scale, dy * negative));
  return {};
}
Status leaky_relu_expand(ExpandContext& c) {
  const Value x = c.in(0);
  c.set_out(0, where(above_limit(x, 0), x, x * real(c, "negative_slope")));
  return {};
}
Status elu_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const Real alpha = real(c, "alpha"), scale = real(c, "scale");
  const Value negative = expm1(x * real(c, "input_scale")) * (alpha * scale);
  c.set_out(0, where(below_limit(x, 0), negative, x * scale));
  return {};
}

constexpr double kCubic = 0.044715;  // Hendrycks and Gimpel, Gaussian error linear units, 2016
constexpr double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)

Status gelu_infer(InferContext& c) {
  const std::string& kind = c.attrs().string("approximate");
  if (kind != "none" && kind != "tanh")
    return c.fail("approximate must be 'none' or 'tanh', it is '", kind, "'");
  return infer_float_unary(c);
}
// none: dx = dy (cdf + x pdf)
// tanh: t = tanh(k (x + c x^3)), dx = dy ((1 + t) / 2 + x (1 - t^2) k (1 + 3 c x^2) / 2). Where |x|
// > 10 the second part is 0, because x^3 may overflow.
Status gelu_grad(GradContext& c) {
  const Value given = c.in(0), dy = c.dout(0);
  if (c.attrs().string("approximate") == "none") {
    const Value x = given;
    const Value cdf = (erf(x * (std::numbers::sqrt2 / 2)) + 1.0) * 0.5;
    const Value pdf = exp(x * x * -0.5) * (0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    c.set_grad(0, dy * (cdf + x * pdf));
    return {};
  }
  const Value x = clamp(given, number_like(given, -10), number_like(given, 10));
  const Value t = tanh((x + x * x * x * kCubic) * kTanhScale);
  const Value slope = (x * x * (3 * kCubic) + 1.0) * (kTanhScale / 2);
  c.set_grad(0, dy * ((t + 1.0) * 0.5 + x * (1.0 - t * t) * slope));
  return {};
}
Status gelu_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const Value inner = c.attrs().string("approximate") == "none"
                          ? erf(x * (std::numbers::sqrt2 / 2))
                          : tanh((x + x * x * x * kCubic) * kTanhScale);
  c.set_out(0, x * 0.5 * (inner + 1.0));
  return {};
}

// s = sigmoid(x): dx = dy s (1 + x (1 - s))
Status silu_grad(GradContext& c) {
  const Value x = c.in(0), s = sigmoid(x);
  c.set_grad(0, c.dout(0) * (s * (x * (1.0 - s) + 1.0)));
  return {};
}
Status silu_expand(ExpandContext& c) {
  c.set_out(0, c.in(0) * sigmoid(c.in(0)));
  return {};
}
// t = tanh(softplus(x)): dx = dy (t + x (1 - t^2) sigmoid(x))
Status mish_grad(GradContext& c) {
  const Value x = c.in(0), t = tanh(softplus(x));
  c.set_grad(0, c.dout(0) * (t + x * (1.0 - t * t) * sigmoid(x)));
  return {};
}
Status mish_expand(ExpandContext& c) {
  c.set_out(0, c.in(0) * tanh(softplus(c.in(0))));
  return {};
}
// dx = dy sigmoid(beta x), dy beyond the threshold. At the threshold, its derivative is 0, as in
// torch.
Status softplus_grad(GradContext& c) {
  const Value scaled = c.in(0) * c.attrs().real("beta"), dy = c.dout(0);
  const Value limit = number_like(scaled, c.attrs().real("threshold"));
  const Value slope = sigmoid(where(ge(scaled, limit), limit, scaled));
  c.set_grad(0, where(gt(scaled, limit), dy, dy * slope));
  return {};
}
Status softplus_expand(ExpandContext& c) {
  const Real beta = real(c, "beta");
  const Value scaled = c.in(0) * beta;
  c.set_out(0,
            where(above_limit(scaled, real(c, "threshold")), c.in(0), log1p(exp(scaled)) / beta));
  return {};
}
// dx = dy sigmoid(-x)
Status log_sigmoid_grad(GradContext& c) {
  c.set_grad(0, c.dout(0) * sigmoid(-c.in(0)));
  return {};
}
// y = min(x, 0) - log(1 + e^-|x|)
Status log_sigmoid_expand(ExpandContext& c) {
  const Value x = c.in(0);
  c.set_out(0, minimum(x, zeros(x)) - log1p(exp(-abs(x))));
  return {};
}
// dx = dy where min_val < x < max_val
Status hardtanh_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  const Value inside = logical_and(above_limit(x, c.attrs().real("min_val")),
                                   below_limit(x, c.attrs().real("max_val")));
  c.set_grad(0, where(inside, dy, zeros(dy)));
  return {};
}
bool is_whole(double v) { return v == static_cast<double>(whole_part<int64_t>(v)); }
// Two real attributes, which must be whole for integers.
Status infer_with_numbers(InferContext& c, std::string_view first, std::string_view second) {
  HG_TRY(infer_number_unary(c));
  if (is_integer(c.in(0).dtype))
    for (std::string_view name : {first, second})
      if (const double v = c.attrs().real(name); !is_whole(v))
        return c.fail(name, " must be whole for ", c.in(0).dtype, ", but is ", v);
  return {};
}
Status hardtanh_infer(InferContext& c) { return infer_with_numbers(c, "min_val", "max_val"); }
Status hardtanh_expand(ExpandContext& c) {
  const Value x = c.in(0);
  c.set_out(0, clamp(x, real(c, "min_val").like(x), real(c, "max_val").like(x)));
  return {};
}
// y = clamp(x + 3, 0, 6) / 6: dx = dy / 6 where -3 < x < 3
Status hardsigmoid_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  c.set_grad(0,
             where(logical_and(above_limit(x, -3), below_limit(x, 3)), dy * (1.0 / 6), zeros(dy)));
  return {};
}
Status hardsigmoid_expand(ExpandContext& c) {
  const Value x = c.in(0);
  c.set_out(0, clamp(x + 3.0, zeros(x), number_like(x, 6)) / 6.0);
  return {};
}
// y = x clamp(x + 3, 0, 6) / 6: dx = 0 up to -3, dy from 3 on, dy (x / 3 + 1 / 2) between
Status hardswish_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  const Value middle = where(below_limit(x, 3), dy * (x / 3.0 + 0.5), dy);
  c.set_grad(0, where(above_limit(x, -3), middle, zeros(dy)));
  return {};
}
Status hardswish_expand(ExpandContext& c) {
  const Value x = c.in(0);
  c.set_out(0, x * clamp(x + 3.0, zeros(x), number_like(x, 6)) / 6.0);
  return {};
}
// dx = dy outside [-lambd, lambd], 0 within; for hardshrink and softshrink
Status shrink_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  const double limit = c.attrs().real("lambd");
  const Value inside = logical_and(ge(x, number_like(x, -limit)), le(x, number_like(x, limit)));
  c.set_grad(0, where(inside, zeros(dy), dy));
  return {};
}
Status hardshrink_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const Real limit = real(c, "lambd");
  const Value inside = logical_and(ge(x, (0 - limit).like(x)), le(x, limit.like(x)));
  c.set_out(0, where(inside, zeros(x), x));
  return {};
}
Status softshrink_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const Real limit = real(c, "lambd");
  const Value low = where(below_limit(x, 0 - limit), x + limit, x * 0.0);
  c.set_out(0, where(above_limit(x, limit), x - limit, low));
  return {};
}
// dx = dy where x > threshold
Status threshold_grad(GradContext& c) {
  const Value dy = c.dout(0);
  const Value x = c.in(0);
  const Value cut = le(x, number_like(x, c.attrs().real("threshold")));
  c.set_grad(0, where(cut, zeros(dy), dy));
  return {};
}
Status threshold_infer(InferContext& c) { return infer_with_numbers(c, "threshold", "value"); }
Status threshold_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const Value cut = le(x, real(c, "threshold").like(x));
  c.set_out(0, where(cut, real(c, "value").like(x), x));
  return {};
}
// dx = dy / (x (1 - x)); with eps 0 outside [eps, 1 - eps], without NaN outside [0, 1]
Status logit_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  const bool limited = c.attrs().has("eps");
  const double low = limited ? c.attrs().real("eps") : 0;
  const Value inside = logical_and(ge(x, number_like(x, low)), le(x, number_like(x, 1 - low)));
  const Value outside = limited ? zeros(dy) : zeros(dy) / 0.0;
  c.set_grad(0, where(inside, dy / (x * (1.0 - x)), outside));
  return {};
}
Status logit_expand(ExpandContext& c) {
  Value x = c.in(0);
  if (c.attrs().has("eps")) {
    const Real eps = real(c, "eps");
    const Value low = eps.like(x), high = 1.0 - low;  // low is applied first, if above high
    x = where(lt(x, low), low, where(gt(x, high), high, x));
  }
  c.set_out(0, log(x / (1.0 - x)));
  return {};
}

constexpr OpDef pointwise_row(std::string_view signature, Status (*infer)(InferContext&),
                              Status (*grad)(GradContext&), Status (*expand)(ExpandContext&)) {
  return {.signature = signature,
          .infer = infer,
          .grad = grad,
          .expand = expand,
          .alias = 1,
          .traits = kElementwise};
}

// The result has the shape and dtype of x.
constexpr OpDef kOps[] = {
    // max(x, 0)
    pointwise_row("relu(x) -> y", infer_number_unary, relu_grad, nullptr),
    // x > 0 ? x : negative_slope * x
    pointwise_row("leaky_relu(x, negative_slope: float = 0.01) -> y", infer_float_unary,
                  leaky_relu_grad, leaky_relu_expand),
    // scale * (x > 0 ? x : alpha * (e^(input_scale * x) - 1)); includes selu and celu.
    pointwise_row("elu(x, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> y",
                  infer_float_unary, elu_grad, elu_expand),
    // x * normal_cdf(x), or its tanh approximation.
    pointwise_row("gelu(x, approximate: str = \"none\") -> y", gelu_infer, gelu_grad, gelu_expand),
    // x * sigmoid(x)
    pointwise_row("silu(x) -> y", infer_float_unary, silu_grad, silu_expand),
    // x * tanh(softplus(x))
    pointwise_row("mish(x) -> y", infer_float_unary, mish_grad, mish_expand),
    // log(1 + e^(beta * x)) / beta; x where beta * x > threshold.
    pointwise_row("softplus(x, beta: float = 1.0, threshold: float = 20.0) -> y", infer_float_unary,
                  softplus_grad, softplus_expand),
    // log(sigmoid(x))
    pointwise_row("log_sigmoid(x) -> y", infer_float_unary, log_sigmoid_grad, log_sigmoid_expand),
    // x clamped to [min_val, max_val].
    pointwise_row("hardtanh(x, min_val: float = -1.0, max_val: float = 1.0) -> y", hardtanh_infer,
                  hardtanh_grad, hardtanh_expand),
    // clamp(x + 3, 0, 6) / 6
    pointwise_row("hardsigmoid(x) -> y", infer_float_unary, hardsigmoid_grad, hardsigmoid_expand),
    // x * clamp(x + 3, 0, 6) / 6
    pointwise_row("hardswish(x) -> y", infer_float_unary, hardswish_grad, hardswish_expand),
    // x where |x| > lambd, otherwise 0.
    pointwise_row("hardshrink(x, lambd: float = 0.5) -> y", infer_float_unary, shrink_grad,
                  hardshrink_expand),
    // x shrunk toward 0 by lambd; 0 where |x| <= lambd.
    pointwise_row("softshrink(x, lambd: float = 0.5) -> y", infer_float_unary, shrink_grad,
                  softshrink_expand),
    // x > threshold ? x : value
    pointwise_row("threshold(x, threshold: float, value: float) -> y", threshold_infer,
                  threshold_grad, threshold_expand),
    // log(x / (1 - x)). If eps is given, x is first clamped to [eps, 1 - eps].
    pointwise_row("logit(x, eps: float?) -> y", infer_float_unary, logit_grad, logit_expand),
};

}  // namespace

std::span<const OpDef> activation() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
