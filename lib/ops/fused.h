// SPDX-License-Identifier: Apache-2.0
// What linear and conv share: y = activation(product + bias + residual). The activations that a
// kernel can apply while it stores, as graph ops, and their derivatives.
#pragma once

#include <string_view>

#include "hg/op.h"

namespace hg::ops {

inline Value constant_like(Graph& g, const Value& x, double value) {
  return g.scalar(value, x.dtype());
}

inline bool is_fused_activation(std::string_view name) {
  for (std::string_view known : {"none", "relu", "relu6", "sigmoid", "tanh", "silu", "hardsigmoid",
                                 "hardswish", "gelu", "gelu_tanh"})
    if (name == known) return true;
  return false;
}

inline Status check_activation(const InferContext& c) {
  const std::string& name = c.attrs().string("activation");
  if (!is_fused_activation(name)) {
    return c.fail("activation is '", name,
                  "', known are none relu relu6 sigmoid tanh silu hardsigmoid hardswish gelu "
                  "gelu_tanh");
  }
  if (name != "none" && !is_float(c.in(0).dtype))
    return c.fail("activation '", name, "' needs a float tensor, x is ", c.in(0).dtype);
  return {};
}

// hardsigmoid(x) = clamp(x + 3, 0, 6) / 6
inline Value hard_gate(Graph& g, const Value& x) {
  const Value shifted = g.call("add", {x, constant_like(g, x, 3)});
  const Value clamped = g.call("minimum", {g.call("relu", {shifted}), constant_like(g, x, 6)});
  return g.call("mul", {clamped, constant_like(g, x, 1.0 / 6)});
}

// Phi(x) = (1 + erf(x / sqrt 2)) / 2
inline Value normal_cdf(Graph& g, const Value& x) {
  const Value e = g.call("erf", {g.call("mul", {x, constant_like(g, x, 0.7071067811865476)})});
  return g.call("mul", {g.call("add", {e, constant_like(g, x, 1)}), constant_like(g, x, 0.5)});
}

// (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3)
inline Value tanh_cdf(Graph& g, const Value& x) {
  const Value square = g.call("mul", {x, x});
  const Value inner = g.call(
      "add", {g.call("mul", {square, constant_like(g, x, 0.044715)}), constant_like(g, x, 1)});
  const Value u =
      g.call("mul", {g.call("mul", {x, inner}), constant_like(g, x, 0.7978845608028654)});
  const Value t = g.call("tanh", {u});
  return g.call("mul", {g.call("add", {t, constant_like(g, x, 1)}), constant_like(g, x, 0.5)});
}

inline Value apply_activation(Graph& g, std::string_view name, const Value& x) {
  if (name == "none") return x;
  if (name == "relu" || name == "sigmoid" || name == "tanh") return g.call(name, {x});
  if (name == "relu6") return g.call("minimum", {g.call("relu", {x}), constant_like(g, x, 6)});
  if (name == "silu") return g.call("mul", {x, g.call("sigmoid", {x})});
  if (name == "hardsigmoid") return hard_gate(g, x);
  if (name == "hardswish") return g.call("mul", {x, hard_gate(g, x)});
  if (name == "gelu") return g.call("mul", {x, normal_cdf(g, x)});
  return g.call("mul", {x, tanh_cdf(g, x)});
}

// dy * f'(x), where x is what the activation saw.
inline Value activation_grad(Graph& g, std::string_view name, const Value& x, const Value& dy) {
  if (name == "none") return dy;
  auto number = [&](double v) { return constant_like(g, x, v); };
  auto mul = [&](const Value& a, const Value& b) { return g.call("mul", {a, b}); };
  auto add = [&](const Value& a, const Value& b) { return g.call("add", {a, b}); };
  auto sub = [&](const Value& a, const Value& b) { return g.call("sub", {a, b}); };
  auto between = [&](double low, double high) {  // low < x < high
    return g.call("logical_and", {g.call("gt", {x, number(low)}), g.call("lt", {x, number(high)})});
  };
  auto keep = [&](const Value& mask, const Value& v) {
    return g.call("where", {mask, v, number(0)});
  };
  if (name == "relu") return keep(g.call("gt", {x, number(0)}), dy);
  if (name == "relu6") return keep(between(0, 6), dy);
  if (name == "sigmoid") {  // s (1 - s)
    const Value s = g.call("sigmoid", {x});
    return mul(dy, mul(s, sub(number(1), s)));
  }
  if (name == "tanh") {  // 1 - t^2
    const Value t = g.call("tanh", {x});
    return mul(dy, sub(number(1), mul(t, t)));
  }
  if (name == "silu") {  // s (1 + x (1 - s))
    const Value s = g.call("sigmoid", {x});
    return mul(dy, mul(s, add(number(1), mul(x, sub(number(1), s)))));
  }
  if (name == "hardsigmoid") return keep(between(-3, 3), mul(dy, number(1.0 / 6)));
  if (name == "hardswish") {  // 0 below -3, 1 above 3, x / 3 + 1 / 2 between
    const Value slope = add(mul(x, number(1.0 / 3)), number(0.5));
    const Value inside = g.call("where", {g.call("lt", {x, number(3)}), slope, number(1)});
    return keep(g.call("gt", {x, number(-3)}), mul(dy, inside));
  }
  if (name == "gelu") {  // Phi(x) + x phi(x)
    const Value density =
        mul(g.call("exp", {mul(mul(x, x), number(-0.5))}), number(0.3989422804014327));
    return mul(dy, add(normal_cdf(g, x), mul(x, density)));
  }
  // gelu_tanh: c + 2 x c (1 - c) u', c = (1 + tanh u) / 2, u' = sqrt(2 / pi) (1 + 0.134145 x^2)
  const Value c = tanh_cdf(g, x);
  const Value du =
      mul(add(mul(mul(x, x), number(0.134145)), number(1)), number(0.7978845608028654));
  return mul(dy, add(c, mul(mul(mul(x, number(2)), mul(c, sub(number(1), c))), du)));
}

}  // namespace hg::ops
