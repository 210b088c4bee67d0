// SPDX-License-Identifier: Apache-2.0
// The activations that linear and conv apply while they store (lib/ops/fused.h has the list), on
// scalars. The vector versions are in gemm_simd.cpp.
#pragma once

#include <cmath>
#include <string_view>

namespace hg::kernels {

enum class Activation : unsigned char {
  none,
  relu,
  relu6,
  sigmoid,
  tanh,
  silu,
  hardsigmoid,
  hardswish,
  gelu,
  gelu_tanh
};
inline constexpr int kActivations = 10;

inline Activation activation_named(std::string_view name) {
  constexpr std::string_view kNames[] = {"none", "relu",     "relu6",       "sigmoid",
                                         "tanh", "silu",     "hardsigmoid", "hardswish",
                                         "gelu", "gelu_tanh"};
  for (unsigned char i = 0; i < kActivations; ++i)
    if (kNames[i] == name) return static_cast<Activation>(i);
  return Activation::none;
}

// What kernels apply to the sums themselves; the others go over the elements once more.
inline bool is_clamp(Activation a) {
  return a == Activation::none || a == Activation::relu || a == Activation::relu6;
}

template <class T>  // float or double
T activate(Activation activation, T x) {
  const auto gate = [](T v) {  // NaN stays NaN
    const T s = v + T(3);
    return (s < T(0) ? T(0) : s > T(6) ? T(6) : s) / T(6);
  };
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < T(0) ? T(0) : x;
    case Activation::relu6:
      return x < T(0) ? T(0) : x > T(6) ? T(6) : x;
    case Activation::sigmoid:
      return T(1) / (T(1) + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::silu:
      return x / (T(1) + std::exp(-x));
    case Activation::hardsigmoid:
      return gate(x);
    case Activation::hardswish:
      return x * gate(x);
    case Activation::gelu:
      return x * T(0.5) * (T(1) + std::erf(x * T(0.7071067811865476)));
    case Activation::gelu_tanh:
      return x * T(0.5) * (T(1) + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
  }
  return x;
}

}  // namespace hg::kernels
