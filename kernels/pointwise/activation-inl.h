// SPDX-License-Identifier: Apache-2.0
// The activations of hg/activations.inc on vectors of floats. Included once for every instruction
// set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_ACTIVATION_INL_H_
#undef HG_KERNELS_ACTIVATION_INL_H_
#else
#define HG_KERNELS_ACTIVATION_INL_H_
#endif

#include "hg/activation.h"
#include "hwy/highway.h"
#include "kernels/simd/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

template <class V>
HWY_INLINE V none_of(V x) {
  return x;
}
template <class V>
HWY_INLINE V relu6_of(V x) {
  return clamp_of(x, 0, 6);
}

template <class V>
HWY_INLINE V silu_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::Div(x, hn::Add(number_like(x, 1), exp_of(hn::Neg(x))));
}

template <class V>
HWY_INLINE V gelu_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V e = erf_of(hn::Mul(x, number_like(x, 0.70710678118654752f)));
  return hn::Mul(hn::Mul(x, number_like(x, 0.5f)), hn::Add(number_like(x, 1), e));
}

// x (1 + tanh u) / 2 = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
template <class V>
HWY_INLINE V gelu_tanh_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V square = hn::Mul(x, x);
  const V u = hn::MulAdd(hn::Mul(square, x), number_like(x, 0.044715f), x);
  const V e = exp_of(hn::Mul(u, number_like(x, -1.5957691216057308f)));
  return hn::Div(x, hn::Add(number_like(x, 1), e));
}

template <class V>
HWY_INLINE V hardsigmoid_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::Mul(clamp_of(hn::Add(x, number_like(x, 3)), 0, 6), number_like(x, 1.0f / 6));
}

template <class V>
HWY_INLINE V hardswish_of(V x) {
  return hwy::HWY_NAMESPACE::Mul(x, hardsigmoid_of(x));
}

template <Activation kActivation>
struct Activated {
  template <class V>
  HWY_INLINE V operator()(V x) const {
#define HG_ACTIVATION(number, name, op, attrs) \
  if constexpr (kActivation == Activation::name) return name##_of(x);
#include "hg/activations.inc"
  }
};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
