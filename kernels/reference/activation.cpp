// SPDX-License-Identifier: Apache-2.0
// Activation functions.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

double leaky_relu(double x, const KernelAttrs& a) {
  return x > 0 ? x : x * a.real("negative_slope");
}
double elu(double x, const KernelAttrs& a) {
  return a.real("scale") * (x > 0 ? x : a.real("alpha") * std::expm1(x * a.real("input_scale")));
}
double gelu(double x, const KernelAttrs& a) {
  if (a.string("approximate") == "none") return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double softplus(double x, const KernelAttrs& a) {
  const double scaled = x * a.real("beta");
  return scaled > a.real("threshold") ? x : std::log1p(std::exp(scaled)) / a.real("beta");
}
double hardtanh(double x, const KernelAttrs& a) {
  return std::min(std::max(x, a.real("min_val")), a.real("max_val"));
}
double hardshrink(double x, const KernelAttrs& a) { return std::abs(x) <= a.real("lambd") ? 0 : x; }
double softshrink(double x, const KernelAttrs& a) {
  const double limit = a.real("lambd");
  return x > limit ? x - limit : x < -limit ? x + limit : x * 0;
}
double threshold(double x, const KernelAttrs& a) {
  return x <= a.real("threshold") ? a.real("value") : x;
}
double logit(double x, const KernelAttrs& a) {
  if (a.has("eps")) x = std::min(std::max(x, a.real("eps")), 1 - a.real("eps"));
  return std::log(x / (1 - x));
}
double six(double x) { return std::min(std::max(x, 0.0), 6.0); }

constexpr Row kRows[] = {
    {"relu", unary_loop<[](double x) { return std::max(x, 0.0); }>},
    {"leaky_relu", unary_loop_with_attrs<leaky_relu>},
    {"elu", unary_loop_with_attrs<elu>},
    {"gelu", unary_loop_with_attrs<gelu>},
    {"silu", unary_loop<[](double x) { return x * sigmoid(x); }>},
    {"mish", unary_loop<[](double x) { return x * std::tanh(std::log1p(std::exp(x))); }>},
    {"softplus", unary_loop_with_attrs<softplus>},
    {"log_sigmoid", unary_loop<[](double x) { return std::log(sigmoid(x)); }>},
    {"hardtanh", unary_loop_with_attrs<hardtanh>},
    {"hardsigmoid", unary_loop<[](double x) { return six(x + 3) / 6; }>},
    {"hardswish", unary_loop<[](double x) { return x * six(x + 3) / 6; }>},
    {"hardshrink", unary_loop_with_attrs<hardshrink>},
    {"softshrink", unary_loop_with_attrs<softshrink>},
    {"threshold", unary_loop_with_attrs<threshold>},
    {"logit", unary_loop_with_attrs<logit>},
};

}  // namespace

std::span<const Row> activation() { return kRows; }

}  // namespace hg::reference::rows
