// SPDX-License-Identifier: Apache-2.0
// Functions of f32 that are computed in vectors of doubles by Highway's math, and rounded once: as
// exact as the C library's, which takes several times as long. That is asked where Highway promises
// nothing (ends of the range, infinity, NaN), and where a vector has fewer than four doubles.
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/pointwise_wide.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
#include "kernels/pointwise/pointwise.h"
// clang-format on

#define HG_HAS_FOUR_DOUBLES (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

// Once, before the first of the instruction sets.
#ifndef HG_KERNELS_POINTWISE_WIDE_TABLE
#define HG_KERNELS_POINTWISE_WIDE_TABLE
namespace hg::kernels {

struct PointwiseWide {
  Block sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh;
  Block log1p, log2, log10, exp2, atan2;
};

}  // namespace hg::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

namespace {

#if HG_HAS_FOUR_DOUBLES

namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<double>;
using Narrow = hn::Rebind<float, Wide>;
using V = hn::Vec<Wide>;
using M = hn::Mask<Wide>;
constexpr int kWide = static_cast<int>(hn::MaxLanes(Wide()));
constexpr double kTurns = 30000;  // how far angles go

HWY_INLINE V number(double value) { return hn::Set(Wide(), value); }
HWY_INLINE M is_within(V x, double limit) { return hn::Le(hn::Abs(x), number(limit)); }
HWY_INLINE M is_above(V x, double limit) {
  return hn::And(hn::Gt(x, number(limit)), hn::Le(x, number(0x1p127)));
}
// Of a function with f(-0) = -0.
HWY_INLINE V keep_zero(V x, V y) { return hn::IfThenElse(hn::Eq(x, number(0)), x, y); }
HWY_INLINE V tan_of(V x) { return hn::Div(hn::Sin(Wide(), x), hn::Cos(Wide(), x)); }
HWY_INLINE V cosh_of(V x) {
  const V e = hn::Exp(Wide(), x);
  return hn::Mul(number(0.5), hn::Add(e, hn::Div(number(1), e)));
}
HWY_INLINE V exp2_of(V x) { return hn::Exp(Wide(), hn::Mul(x, number(0.69314718055994530942))); }

// What is asked of each: takes(x...), where `of` holds; of(x...) in vectors; plain(x...) elsewhere.
#define HG_WIDE(Name, valid, value, std_name)                \
  struct Name {                                              \
    static HWY_INLINE M takes(V x) { return valid; }         \
    static HWY_INLINE V of(V x) { return value; }            \
    static float plain(float x) { return std::std_name(x); } \
  }

#else

#define HG_WIDE(Name, valid, value, std_name)                \
  struct Name {                                              \
    static float plain(float x) { return std::std_name(x); } \
  }

#endif

HG_WIDE(Sin, is_within(x, kTurns), keep_zero(x, hn::Sin(Wide(), x)), sin);
HG_WIDE(Cos, is_within(x, kTurns), hn::Cos(Wide(), x), cos);
HG_WIDE(Tan, is_within(x, kTurns), keep_zero(x, tan_of(x)), tan);
HG_WIDE(Asin, is_within(x, 1), keep_zero(x, hn::Asin(Wide(), x)), asin);
HG_WIDE(Acos, is_within(x, 1), hn::Acos(Wide(), x), acos);
HG_WIDE(Atan, is_within(x, 0x1p127), keep_zero(x, hn::Atan(Wide(), x)), atan);
HG_WIDE(Sinh, is_within(x, 700), keep_zero(x, hn::Sinh(Wide(), x)), sinh);
HG_WIDE(Asinh, is_within(x, 0x1p127), keep_zero(x, hn::Asinh(Wide(), x)), asinh);
HG_WIDE(Acosh, is_above(x, 1), hn::Acosh(Wide(), x), acosh);
HG_WIDE(Atanh, hn::Lt(hn::Abs(x), number(1)), keep_zero(x, hn::Atanh(Wide(), x)), atanh);
HG_WIDE(Log1p, is_above(x, -1), keep_zero(x, hn::Log1p(Wide(), x)), log1p);
HG_WIDE(Log2, is_above(x, 0), hn::Log2(Wide(), x), log2);
HG_WIDE(Log10, is_above(x, 0), hn::Log10(Wide(), x), log10);
HG_WIDE(Exp2, is_within(x, 1000), exp2_of(x), exp2);
HG_WIDE(Cosh, is_within(x, 700), cosh_of(x), cosh);
#undef HG_WIDE
struct Atan2 {
#if HG_HAS_FOUR_DOUBLES
  static HWY_INLINE M takes(V y, V x) {
    const M are_there = hn::And(hn::Ne(x, number(0)), hn::Ne(y, number(0)));
    return hn::And(are_there, hn::And(is_within(x, 0x1p127), is_within(y, 0x1p127)));
  }
  static HWY_INLINE V of(V y, V x) {
    const V half = hn::CopySign(number(3.14159265358979323846), y);
    const V near = hn::Atan(Wide(), hn::Div(y, x));
    return hn::IfThenElse(hn::Lt(x, number(0)), hn::Add(near, half), near);
  }
#endif
  static float plain(float y, float x) { return std::atan2(y, x); }
};

#if HG_HAS_FOUR_DOUBLES

HWY_INLINE V read(const float* from, int count) {
  if (count == kWide) return hn::PromoteTo(Wide(), hn::LoadU(Narrow(), from));
  HWY_ALIGN float part[kWide] = {};
  for (int i = 0; i < count; ++i) part[i] = from[i];
  return hn::PromoteTo(Wide(), hn::Load(Narrow(), part));
}

template <class F, class... From>
void compute(float* y, int64_t n, const From*... from) {
  for (int64_t i = 0; i < n; i += kWide) {
    const int count = static_cast<int>(n - i < kWide ? n - i : kWide);
    const auto taken = F::takes(read(from + i, count)...);
    const auto result = hn::DemoteTo(Narrow(), F::of(read(from + i, count)...));
    if (HWY_LIKELY(count == kWide && hn::AllTrue(Wide(), taken))) {
      hn::StoreU(result, Narrow(), y + i);
      continue;
    }
    HWY_ALIGN float values[kWide];
    HWY_ALIGN double is_taken[kWide];
    hn::Store(result, Narrow(), values);
    hn::Store(hn::IfThenElseZero(taken, number(1)), Wide(), is_taken);
    for (int k = 0; k < count; ++k)
      y[i + k] = is_taken[k] != 0 ? values[k] : F::plain(from[i + k]...);
  }
}

#else

template <class F, class... From>
void compute(float* y, int64_t n, const From*... from) {
  for (int64_t i = 0; i < n; ++i) y[i] = F::plain(from[i]...);
}

#endif

template <class F>
void unary(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  compute<F>(static_cast<float*>(y), n, static_cast<const float*>(x[0]));
}
template <class F>
void binary(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  compute<F>(static_cast<float*>(y), n, static_cast<const float*>(x[0]),
             static_cast<const float*>(x[1]));
}

}  // namespace

constexpr PointwiseWide kPointwiseWide = {.sin = unary<Sin>,
                                          .cos = unary<Cos>,
                                          .tan = unary<Tan>,
                                          .asin = unary<Asin>,
                                          .acos = unary<Acos>,
                                          .atan = unary<Atan>,
                                          .sinh = unary<Sinh>,
                                          .cosh = unary<Cosh>,
                                          .asinh = unary<Asinh>,
                                          .acosh = unary<Acosh>,
                                          .atanh = unary<Atanh>,
                                          .log1p = unary<Log1p>,
                                          .log2 = unary<Log2>,
                                          .log10 = unary<Log10>,
                                          .exp2 = unary<Exp2>,
                                          .atan2 = binary<Atan2>};
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

bool in_f32(const PrepareContext& c) {
  const DType dtype = c.in(0).dtype;
  return dtype == f32 || dtype == f16 || dtype == bf16;
}
template <Block PointwiseWide::*block>
Status prepare(PrepareContext& c) {
  return prepare_block(c, (*HG_SIMD_CHOOSE(kPointwiseWide)).*block, {});
}
template <Block PointwiseWide::*block>
constexpr KernelDef row(std::string_view op) {
  return {.op = op,
          .name = "wide",
          .accepts = in_f32,
          .prepare = prepare<block>,
          .run = &run_pointwise,
          .strided = kAllStrided,
          .in_programs = true};
}

constexpr KernelDef kKernels[] = {
    row<&PointwiseWide::sin>("sin"),     row<&PointwiseWide::cos>("cos"),
    row<&PointwiseWide::tan>("tan"),     row<&PointwiseWide::asin>("asin"),
    row<&PointwiseWide::acos>("acos"),   row<&PointwiseWide::atan>("atan"),
    row<&PointwiseWide::sinh>("sinh"),   row<&PointwiseWide::cosh>("cosh"),
    row<&PointwiseWide::asinh>("asinh"), row<&PointwiseWide::acosh>("acosh"),
    row<&PointwiseWide::atanh>("atanh"), row<&PointwiseWide::log1p>("log1p"),
    row<&PointwiseWide::log2>("log2"),   row<&PointwiseWide::log10>("log10"),
    row<&PointwiseWide::exp2>("exp2"),   row<&PointwiseWide::atan2>("atan2"),
};

}  // namespace

std::span<const KernelDef> pointwise_wide() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif
