// SPDX-License-Identifier: Apache-2.0
// The most frequent elementwise ops in f32, for each instruction set. A short last vector is
// computed like a full one, so results do not depend on where a range begins.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise_simd.cpp"
// clang-format off
#include "kernels/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/safe_exp-inl.h"
#include "kernels/pointwise_simd.h"
// clang-format on
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V number(float value) { return hn::Set(D(), value); }

// e^x with infinity above the largest f32, where Highway's is not defined.
HWY_INLINE V exp_of(V x) {
  constexpr float kLargest = 88.72283f;  // log of the largest f32
  const V y = safe_exp(D(), hn::IfThenElse(hn::Gt(x, number(kLargest)), number(kLargest), x));
  return hn::IfThenElse(hn::Gt(x, number(kLargest)), number(std::numeric_limits<float>::infinity()),
                        y);
}
HWY_INLINE V sigmoid_of(V x) { return hn::Div(number(1), hn::Add(number(1), exp_of(hn::Neg(x)))); }
// 1 - 2 / (e^2x + 1) away from 0; the series within 0.55, where that loses digits
HWY_INLINE V tanh_of(V x) {
  const V z = hn::Mul(x, x);
  // Abramowitz and Stegun 4.5.64, without the leading 1
  constexpr float kSeries[] = {
      -929569.f / 638512875, 21844.f / 6081075, -1382.f / 155925, 62.f / 2835,
      -17.f / 315,           2.f / 15,          -1.f / 3};
  V near = number(6404582.f / 10854718875.f);
  for (const float coefficient : kSeries) near = hn::MulAdd(near, z, number(coefficient));
  near = hn::MulAdd(hn::Mul(near, z), x, x);
  const V far = hn::Sub(number(1), hn::Div(number(2), hn::Add(exp_of(hn::Add(x, x)), number(1))));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), number(0.55f)), near, far);
}
// x P(x^2) / Q(x^2) on [-4, 4]: the rational function that Eigen and XLA use
HWY_INLINE V erf_of(V x) {
  const V c = hn::IfThenElse(hn::Gt(x, number(4)), number(4),
                             hn::IfThenElse(hn::Lt(x, number(-4)), number(-4), x));
  const V z = hn::Mul(c, c);
  V p = number(-2.72614225801306e-10f);
  p = hn::MulAdd(p, z, number(2.77068142495902e-08f));
  p = hn::MulAdd(p, z, number(-2.10102402082508e-06f));
  p = hn::MulAdd(p, z, number(-5.69250639462346e-05f));
  p = hn::MulAdd(p, z, number(-7.34990630326855e-04f));
  p = hn::MulAdd(p, z, number(-2.95459980854025e-03f));
  p = hn::MulAdd(p, z, number(-1.60960333262415e-02f));
  V q = number(-1.45660718464996e-05f);
  q = hn::MulAdd(q, z, number(-2.13374055278905e-04f));
  q = hn::MulAdd(q, z, number(-1.68282697438203e-03f));
  q = hn::MulAdd(q, z, number(-7.37332916720468e-03f));
  q = hn::MulAdd(q, z, number(-1.42647390514189e-02f));
  // From 3.92 on the nearest f32 is 1.
  const V y = hn::Div(hn::Mul(c, p), q);
  return hn::IfThenElse(hn::Gt(hn::Abs(x), number(3.92f)), hn::CopySign(number(1), x), y);
}
HWY_INLINE V clamp_to_six(V x) {  // NaN stays NaN
  const V raised = hn::IfThenElse(hn::Lt(x, number(0)), number(0), x);
  return hn::IfThenElse(hn::Gt(raised, number(6)), number(6), raised);
}

struct Exp {
  HWY_INLINE V operator()(V x) const { return exp_of(x); }
};
struct Sigmoid {
  HWY_INLINE V operator()(V x) const { return sigmoid_of(x); }
};
struct Silu {
  HWY_INLINE V operator()(V x) const { return hn::Div(x, hn::Add(number(1), exp_of(hn::Neg(x)))); }
};
struct Tanh {
  HWY_INLINE V operator()(V x) const { return tanh_of(x); }
};
struct Erf {
  HWY_INLINE V operator()(V x) const { return erf_of(x); }
};
struct Gelu {
  HWY_INLINE V operator()(V x) const {
    const V e = erf_of(hn::Mul(x, number(0.70710678118654752f)));
    return hn::Mul(hn::Mul(x, number(0.5f)), hn::Add(number(1), e));
  }
};
struct GeluTanh {
  HWY_INLINE V operator()(V x) const {
    const V cube = hn::Mul(hn::Mul(x, x), x);
    const V inner = hn::Mul(number(0.79788456080286536f), hn::MulAdd(cube, number(0.044715f), x));
    return hn::Mul(hn::Mul(x, number(0.5f)), hn::Add(number(1), tanh_of(inner)));
  }
};
struct Hardsigmoid {
  HWY_INLINE V operator()(V x) const {
    return hn::Div(clamp_to_six(hn::Add(x, number(3))), number(6));
  }
};
struct Hardswish {
  HWY_INLINE V operator()(V x) const {
    return hn::Div(hn::Mul(x, clamp_to_six(hn::Add(x, number(3)))), number(6));
  }
};
struct Relu {
  HWY_INLINE V operator()(V x) const { return hn::IfThenElse(hn::Lt(x, number(0)), number(0), x); }
};
struct Add {
  HWY_INLINE V operator()(V a, V b) const { return hn::Add(a, b); }
};
struct Sub {
  HWY_INLINE V operator()(V a, V b) const { return hn::Sub(a, b); }
};
struct Mul {
  HWY_INLINE V operator()(V a, V b) const { return hn::Mul(a, b); }
};
struct Div {
  HWY_INLINE V operator()(V a, V b) const { return hn::Div(a, b); }
};

template <class F>
void unary(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* a = static_cast<const float*>(x[0]);
  float* out = static_cast<float*>(y);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(F()(hn::LoadU(d, a + i)), d, out + i);
  if (i == n) return;
  HWY_ALIGN float rest[hn::MaxLanes(D())] = {};
  std::memcpy(rest, a + i, static_cast<size_t>(n - i) * sizeof(float));
  hn::Store(F()(hn::Load(d, rest)), d, rest);
  std::memcpy(out + i, rest, static_cast<size_t>(n - i) * sizeof(float));
}
template <class F>
void binary(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* a = static_cast<const float*>(x[0]);
  const float* b = static_cast<const float*>(x[1]);
  float* out = static_cast<float*>(y);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(F()(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  if (i == n) return;
  HWY_ALIGN float rest_a[hn::MaxLanes(D())] = {};
  HWY_ALIGN float rest_b[hn::MaxLanes(D())] = {};
  const size_t bytes = static_cast<size_t>(n - i) * sizeof(float);
  std::memcpy(rest_a, a + i, bytes);
  std::memcpy(rest_b, b + i, bytes);
  hn::Store(F()(hn::Load(d, rest_a), hn::Load(d, rest_b)), d, rest_a);
  std::memcpy(out + i, rest_a, bytes);
}

}  // namespace

constexpr PointwiseSimd kPointwiseSimd = {
    unary<Exp>,  unary<Sigmoid>,  unary<Silu>,        unary<Tanh>,      unary<Erf>,
    unary<Gelu>, unary<GeluTanh>, unary<Hardsigmoid>, unary<Hardswish>, unary<Relu>,
    binary<Add>, binary<Sub>,     binary<Mul>,        binary<Div>};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const PointwiseSimd& pointwise_simd_blocks() { return *HG_SIMD_CHOOSE(kPointwiseSimd); }

namespace {

bool in_f32(const PrepareContext& c) {
  const DType dtype = c.in(0).dtype;
  return dtype == f32 || dtype == f16 || dtype == bf16;
}
template <Block PointwiseSimd::*block>
Status prepare_simd(PrepareContext& c) {
  return prepare_block(c, pointwise_simd_blocks().*block, {});
}
Status prepare_gelu(PrepareContext& c) {
  const PointwiseSimd& blocks = pointwise_simd_blocks();
  const bool with_tanh = c.attrs().string("approximate") == "tanh";
  return prepare_block(c, with_tanh ? blocks.gelu_tanh : blocks.gelu, {});
}
constexpr KernelDef row(std::string_view op, Status (*prepare)(PrepareContext&)) {
  return {.op = op,
          .name = "simd",
          .accepts = &in_f32,
          .prepare = prepare,
          .run = &run_pointwise,
          .strided = kAllStrided};
}

constexpr KernelDef kKernels[] = {
    row("exp", prepare_simd<&PointwiseSimd::exp>),
    row("sigmoid", prepare_simd<&PointwiseSimd::sigmoid>),
    row("silu", prepare_simd<&PointwiseSimd::silu>),
    row("tanh", prepare_simd<&PointwiseSimd::tanh>),
    row("erf", prepare_simd<&PointwiseSimd::erf>),
    row("gelu", prepare_gelu),
    row("hardsigmoid", prepare_simd<&PointwiseSimd::hardsigmoid>),
    row("hardswish", prepare_simd<&PointwiseSimd::hardswish>),
    row("relu", prepare_simd<&PointwiseSimd::relu>),
    row("add", prepare_simd<&PointwiseSimd::add>),
    row("sub", prepare_simd<&PointwiseSimd::sub>),
    row("mul", prepare_simd<&PointwiseSimd::mul>),
    row("div", prepare_simd<&PointwiseSimd::div>),
};

}  // namespace

std::span<const KernelDef> pointwise_simd() { return kKernels; }

}  // namespace hg::kernels
#endif
