// SPDX-License-Identifier: Apache-2.0
// exp and similar functions of a vector of floats. NaN stays NaN in all of them. Included once for
// every instruction set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_VECTOR_MATH_INL_H_
#undef HG_KERNELS_VECTOR_MATH_INL_H_
#else
#define HG_KERNELS_VECTOR_MATH_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

template <class V>
HWY_INLINE V number_like(V, float value) {
  return hwy::HWY_NAMESPACE::Set(hwy::HWY_NAMESPACE::DFromV<V>(), value);
}

// a if it is larger, or smaller, than b; else b, also if either is NaN or both are zeros. This is
// what Max and Min of x86 return; those of other instruction sets differ.
template <class V>
HWY_INLINE V larger_of(V a, V b) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Max(a, b);
#else
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#endif
}
template <class V>
HWY_INLINE V smaller_of(V a, V b) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Min(a, b);
#else
  return hn::IfThenElse(hn::Lt(a, b), a, b);
#endif
}
template <class V>
HWY_INLINE V clamp_of(V x, float low, float high) {
  return smaller_of(number_like(x, high), larger_of(number_like(x, low), x));
}

// e^x to one unit in the last place; 0 below -87, infinity beyond f32's range.
template <class V>
HWY_INLINE V exp_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::DFromV<V> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  x = clamp_of(x, -87.4f, 89.0f);
  // x = n ln 2 + r. Adding 1.5 2^23 rounds to the integer n. With 126 added, the low bits of the
  // sum are the exponent of 2^(n - 1).
  const V magic = hn::Set(d, 12582912.0f + 126.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  const V n = hn::Sub(shifted, magic);
  // ln 2 in two parts; n times the first is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::MulAdd(n, hn::Set(d, 2.12194440e-4f), r);
  // 2 e^r on [-ln 2 / 2, ln 2 / 2]: a minimax polynomial with relative error 3e-9.
  const V square = hn::Mul(r, r);
  const V low = hn::MulAdd(r, hn::Set(d, 2.0f), hn::Set(d, 2.0f));
  const V middle = hn::MulAdd(r, hn::Set(d, 0.3333304226398468f), hn::Set(d, 0.9999998807907104f));
  V p = hn::MulAdd(r, hn::Set(d, 0.01673749089241028f), hn::Set(d, 0.08333677798509598f));
  p = hn::MulAdd(square, hn::Set(d, 0.0027629081159830093f), p);
  p = hn::MulAdd(square, hn::MulAdd(square, p, middle), low);
  return hn::Mul(p, power);
}

// log x to one unit in the last place: NaN below 0, -infinity at 0.
template <class V>
HWY_INLINE V log_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::DFromV<V> d;
  const hn::RebindToSigned<decltype(d)> di;
  // x = 2^n (1 + r), 1 + r in [sqrt(1/2), sqrt(2)); the smallest numbers are scaled up first.
  const auto small = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  const V large = hn::IfThenElse(small, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
  const auto bits = hn::BitCast(di, large);
  const auto shifted = hn::Sub(bits, hn::Set(di, 0x3f3504f3));
  const V whole = hn::ConvertTo(d, hn::ShiftRight<23>(shifted));
  const V n = hn::Sub(whole, hn::IfThenElseZero(small, hn::Set(d, 23.0f)));
  const auto kept = hn::Sub(bits, hn::And(shifted, hn::Set(di, static_cast<int32_t>(0xff800000))));
  const V r = hn::Sub(hn::BitCast(d, kept), hn::Set(d, 1.0f));
  // Cephes's polynomial: log(1 + r) = r - r^2 / 2 + r^3 p(r).
  constexpr float kSeries[] = {-1.1514610310e-1f, 1.1676998740e-1f,  -1.2420140846e-1f,
                               1.4249322787e-1f,  -1.6668057665e-1f, 2.0000714765e-1f,
                               -2.4999993993e-1f, 3.3333331174e-1f};
  V p = hn::Set(d, 7.0376836292e-2f);
  for (const float coefficient : kSeries) p = hn::MulAdd(p, r, hn::Set(d, coefficient));
  const V square = hn::Mul(r, r);
  V y = hn::Mul(hn::Mul(p, r), square);
  y = hn::MulAdd(n, hn::Set(d, -2.12194440e-4f), y);
  y = hn::NegMulAdd(square, hn::Set(d, 0.5f), y);
  y = hn::MulAdd(n, hn::Set(d, 0.693359375f), hn::Add(r, y));
  const V infinity = hn::Inf(d);
  y = hn::IfThenElse(hn::Lt(x, infinity), y, x);  // infinity and NaN are returned
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::NaN(d), y);
}

// log(1 + x) for x >= 0, corrected for the rounding of 1 + x (Kahan).
template <class V>
HWY_INLINE V log1p_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = number_like(x, 1), sum = hn::Add(one, x), kept = hn::Sub(sum, one);
  const V y = hn::Mul(log_of(sum), hn::Div(x, kept));
  const auto is_end =
      hn::Or(hn::Eq(kept, number_like(x, 0)), hn::Eq(kept, hn::Inf(hn::DFromV<V>())));
  return hn::IfThenElse(is_end, x, y);
}

// e^x - 1; the series for |x| < 0.5, where the difference loses digits
template <class V>
HWY_INLINE V expm1_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  V near = number_like(x, 1.f / 362880);
  for (const float factorial : {40320.f, 5040.f, 720.f, 120.f, 24.f, 6.f, 2.f})
    near = hn::MulAdd(near, x, number_like(x, 1 / factorial));
  near = hn::CopySign(hn::MulAdd(hn::Mul(near, x), x, x), x);  // for -0, whose sum with 0 is 0
  const V far = hn::Sub(exp_of(x), number_like(x, 1));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), number_like(x, 0.5f)), near, far);
}

template <class V>
HWY_INLINE V sigmoid_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = number_like(x, 1);
  return hn::Div(one, hn::Add(one, exp_of(hn::Neg(x))));
}

// 1 - 2 / (e^2|x| + 1) with the sign of x. For a negative x itself, the sum would lose e^2x, and
// the result would be -1 too early. The series for |x| < 0.55, where the formula loses digits.
template <class V>
HWY_INLINE V tanh_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V z = hn::Mul(x, x), one = number_like(x, 1);
  // Abramowitz and Stegun 4.5.64, without the leading 1
  constexpr float kSeries[] = {
      -929569.f / 638512875, 21844.f / 6081075, -1382.f / 155925, 62.f / 2835,
      -17.f / 315,           2.f / 15,          -1.f / 3};
  V near = number_like(x, 6404582.f / 10854718875.f);
  for (const float coefficient : kSeries) near = hn::MulAdd(near, z, number_like(x, coefficient));
  near = hn::MulAdd(hn::Mul(near, z), x, x);
  const V size = hn::Abs(x);
  const V far = hn::Sub(one, hn::Div(number_like(x, 2), hn::Add(exp_of(hn::Add(size, size)), one)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(size, number_like(x, 0.55f)), near, far), x);
}

// x P(x^2) / Q(x^2) on [-4, 4]: the rational function of Eigen and XLA
template <class V>
HWY_INLINE V erf_of(V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V c = clamp_of(x, -4, 4);
  const V z = hn::Mul(c, c);
  V p = number_like(x, -2.72614225801306e-10f);
  p = hn::MulAdd(p, z, number_like(x, 2.77068142495902e-08f));
  p = hn::MulAdd(p, z, number_like(x, -2.10102402082508e-06f));
  p = hn::MulAdd(p, z, number_like(x, -5.69250639462346e-05f));
  p = hn::MulAdd(p, z, number_like(x, -7.34990630326855e-04f));
  p = hn::MulAdd(p, z, number_like(x, -2.95459980854025e-03f));
  p = hn::MulAdd(p, z, number_like(x, -1.60960333262415e-02f));
  V q = number_like(x, -1.45660718464996e-05f);
  q = hn::MulAdd(q, z, number_like(x, -2.13374055278905e-04f));
  q = hn::MulAdd(q, z, number_like(x, -1.68282697438203e-03f));
  q = hn::MulAdd(q, z, number_like(x, -7.37332916720468e-03f));
  q = hn::MulAdd(q, z, number_like(x, -1.42647390514189e-02f));
  // From 3.92 on, the nearest f32 is 1.
  const V y = hn::Div(hn::Mul(c, p), q);
  return hn::IfThenElse(hn::Gt(hn::Abs(x), number_like(x, 3.92f)),
                        hn::CopySign(number_like(x, 1), x), y);
}

template <class V>
HWY_INLINE V relu_of(V x) {
  return larger_of(number_like(x, 0), x);
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
