// SPDX-License-Identifier: Apache-2.0
// The activations of hg/activations.inc on scalars, for their own ops and for linear and conv,
// which apply them while storing. activation-inl.h has the vector versions.
#pragma once

#include <cmath>
#include <numbers>
#include <string_view>

#include "hg/activation.h"
#include "lib/table/holds.h"

namespace hg::kernels {

// The activations that kernels apply while storing; others need a second pass over the elements.
constexpr bool is_clamp(Activation a) {
  return a == Activation::none || a == Activation::relu || a == Activation::relu6;
}

namespace activations {  // for float, double, and integers if the op accepts them; NaN stays NaN

template <class T>
T none(T x) {
  return x;
}
template <class T>
T relu(T x) {
  return x < T(0) ? T(0) : x;
}
template <class T>
T relu6(T x) {
  return x < T(0) ? T(0) : x > T(6) ? T(6) : x;
}
template <class T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <class T>
T tanh(T x) {
  return std::tanh(x);
}
template <class T>
T silu(T x) {
  return x / (T(1) + std::exp(-x));
}
template <class T>
T hardsigmoid(T x) {
  return relu6(x + T(3)) / T(6);
}
template <class T>
T hardswish(T x) {
  return x * relu6(x + T(3)) / T(6);
}
template <class T>
T gelu(T x) {
  return x * T(0.5) * (T(1) + std::erf(x * T(std::numbers::sqrt2 / 2)));
}
template <class T>
T gelu_tanh(T x) {
  constexpr T kBeta = T(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);  // sqrt(2 / pi)
  return T(0.5) * x * (T(1) + std::tanh(kBeta * (x + T(0.044715) * x * x * x)));
}

}  // namespace activations

template <class T>
T activate(Activation activation, T x) {
  switch (activation) {
#define HG_ACTIVATION(number, name, op, attrs)                          \
  case Activation::name:                                                \
    if constexpr (holds(Activation::name)) return activations::name(x); \
    break;
#include "hg/activations.inc"
  }
  return x;
}

// An activation as a function object.
template <Activation kActivation>
struct Activated {
  template <class T>
  T operator()(T x) const {
#define HG_ACTIVATION(number, name, op, attrs) \
  if constexpr (kActivation == Activation::name) return activations::name(x);
#include "hg/activations.inc"
  }
};

}  // namespace hg::kernels
