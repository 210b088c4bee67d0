// SPDX-License-Identifier: Apache-2.0
// The most frequent elementwise ops in f32, for each instruction set. A short last vector is
// computed like a full one, so results do not depend on where a range begins.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise_simd.cpp"
// clang-format off
#include "kernels/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/vector_math-inl.h"
#include "kernels/pointwise_simd.h"
// clang-format on
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

struct Exp {
  HWY_INLINE V operator()(V x) const { return exp_of(x); }
};
struct Sigmoid {
  HWY_INLINE V operator()(V x) const { return sigmoid_of(x); }
};
struct Silu {
  HWY_INLINE V operator()(V x) const { return silu_of(x); }
};
struct Tanh {
  HWY_INLINE V operator()(V x) const { return tanh_of(x); }
};
struct Erf {
  HWY_INLINE V operator()(V x) const { return erf_of(x); }
};
struct Gelu {
  HWY_INLINE V operator()(V x) const { return gelu_of(x); }
};
struct GeluTanh {
  HWY_INLINE V operator()(V x) const { return gelu_tanh_of(x); }
};
struct Hardsigmoid {
  HWY_INLINE V operator()(V x) const { return hardsigmoid_of(x); }
};
struct Hardswish {
  HWY_INLINE V operator()(V x) const { return hardswish_of(x); }
};
struct Relu {
  HWY_INLINE V operator()(V x) const { return relu_of(x); }
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
