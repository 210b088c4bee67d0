// SPDX-License-Identifier: Apache-2.0
// Functions computed in vectors of doubles, most with Highway's math functions. Results in f32 are
// rounded once, and are as exact as the C library's, which takes several times as long. In f64 they
// are off by a few units in the last place. The C library is used where Highway guarantees nothing
// (extreme arguments, infinity, NaN), and where a vector has fewer than four doubles.
#include <cmath>

#if defined(HG_SMALL)
#undef HG_WITHOUT_AVX512
#define HG_WITHOUT_AVX512 1  // these loops are long, and AVX2 is fast enough
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/pointwise_wide.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/pointwise/wide-inl.h"
#include "kernels/pointwise/two_floats.h"
// clang-format on

// Defined once, before the first instruction set.
#ifndef HG_KERNELS_POINTWISE_WIDE_TABLE
#define HG_KERNELS_POINTWISE_WIDE_TABLE
// Each op, and its blocks for f32 and f64.
#define HG_POINTWISE_WIDE(FUNCTION)                                           \
  FUNCTION(sin, unary<SinF32, float>, unary<Sin, double>)                     \
  FUNCTION(cos, unary<CosF32, float>, unary<Cos, double>)                     \
  FUNCTION(tan, unary<TanF32, float>, unary<Tan, double>)                     \
  FUNCTION(asin, unary<AsinF32, float>, unary<Asin, double>)                  \
  FUNCTION(acos, unary<AcosF32, float>, unary<Acos, double>)                  \
  FUNCTION(atan, only_f64<Atan>)                                              \
  FUNCTION(sinh, both<Sinh>)                                                  \
  FUNCTION(cosh, both<Cosh>)                                                  \
  FUNCTION(asinh, both<Asinh>)                                                \
  FUNCTION(acosh, both<Acosh>)                                                \
  FUNCTION(atanh, unary<AtanhF32, float>, unary<Atanh, double>)               \
  FUNCTION(exp, only_f64<Exp>)                                                \
  FUNCTION(expm1, only_f64<Expm1>)                                            \
  FUNCTION(log, only_f64<Log>)                                                \
  FUNCTION(tanh, only_f64<Tanh>)                                              \
  FUNCTION(sigmoid, only_f64<Sigmoid>)                                        \
  FUNCTION(log1p, unary<Log1pF32, float>, unary<Log1p, double>)               \
  FUNCTION(log2, unary<Log2F32, float>, unary<Log2, double>)                  \
  FUNCTION(log10, unary<Log10F32, float>, unary<Log10, double>)               \
  FUNCTION(exp2, only_f64<Exp2>)                                              \
  FUNCTION(sqrt, only_f64<Sqrt>)                                              \
  FUNCTION(rsqrt, only_f64<Rsqrt>)                                            \
  FUNCTION(floor, only_f64<Floor>)                                            \
  FUNCTION(ceil, only_f64<Ceil>)                                              \
  FUNCTION(trunc, only_f64<Trunc>)                                            \
  FUNCTION(atan2, of_two<Atan2>)                                              \
  FUNCTION(hypot, of_two<Hypot>)                                              \
  FUNCTION(pow, of_two_f32<Pow>)                                              \
  FUNCTION(logaddexp, binary<LogAddExpF32, float>, binary<LogAddExp, double>) \
  FUNCTION(fmod, of_two<Fmod>)                                                \
  FUNCTION(remainder, of_two<Remainder>)                                      \
  FUNCTION(floor_divide, binary<FloorDivide<float>, float>, binary<FloorDivide<double>, double>)

namespace hg::kernels {

struct PointwiseWide {
#define HG_FUNCTION(name, ...) WideBlocks name;
  HG_POINTWISE_WIDE(HG_FUNCTION)
#undef HG_FUNCTION
};

}  // namespace hg::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

namespace {

#if HG_HAS_FOUR_DOUBLES

constexpr double kTurns = 30000;  // largest supported angle

// For x in f32: sin(x), or cos(x), from r = x - n pi for the nearest n, or n + 1/2. The first part
// of pi has 33 bits, so n times it and the difference are exact. The polynomial was interpolated at
// Chebyshev nodes: relative error below 4e-13.
template <bool kCosine>
HWY_INLINE V sine_of(V x) {
  constexpr double kTerms[] = {1.550239959997099e-10, -2.5036738931224052e-08,
                               2.755712305769773e-06, -0.00019841268708156053,
                               0.008333333330937984,  -0.16666666666658458};
  const hn::RebindToUnsigned<Wide> du;
  // Adding 1.5 2^52 rounds to the integer n; the lowest bit of the sum tells whether it is odd.
  const V magic = number(0x1.8p52), turns = number(0.31830988618379067154);
  const V shifted = hn::Add(kCosine ? hn::MulSub(x, turns, number(0.5)) : hn::Mul(x, turns), magic);
  const V whole = hn::Sub(shifted, magic), n = kCosine ? hn::Add(whole, number(0.5)) : whole;
  V r = hn::NegMulAdd(n, number(0x1.921fb544p+1), x);
  r = hn::NegMulAdd(n, number(0x1.0b4611a626331p-33), r);
  const V square = hn::Mul(r, r);
  V p = number(kTerms[0]);
  for (size_t i = 1; i < std::size(kTerms); ++i) p = hn::MulAdd(p, square, number(kTerms[i]));
  const auto odd = hn::ShiftLeft<63>(hn::BitCast(du, shifted));
  const V y = hn::Xor(hn::Mul(hn::MulAdd(square, p, number(1)), r), hn::BitCast(Wide(), odd));
  return kCosine ? hn::Neg(y) : y;
}
HWY_INLINE V tan_of(V x) { return hn::Div(hn::Sin(Wide(), x), hn::Cos(Wide(), x)); }
HWY_INLINE V cosh_of(V x) {
  const V e = exp_of(x);
  return hn::Mul(number(0.5), hn::Add(e, hn::Div(number(1), e)));
}
// For x in f32: sine over cosine of r = x - n pi / 2, or minus cosine over sine for odd n.
HWY_INLINE V tan_f32_of(V x) {
  constexpr double kSine[] = {2.7173456841089953e-06, -0.000198392022122311, 0.00833332878245888,
                              -0.16666666631591165, 0.9999999999956731};
  constexpr double kCosine[] = {-2.717342984102282e-07, 2.4798928755323667e-05,
                                -0.0013888880393776424, 0.04166666654391119,
                                -0.49999999999351113,   0.9999999999999444};
  const hn::RebindToUnsigned<Wide> du;
  const V magic = number(0x1.8p52);
  const V shifted = hn::MulAdd(x, number(0.63661977236758134308), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, number(0x1.921fb544p+0), x);
  r = hn::NegMulAdd(n, number(0x1.0b4611a626331p-34), r);
  const V square = hn::Mul(r, r);
  const V sine = hn::Mul(r, polynomial_of(square, kSine)), cosine = polynomial_of(square, kCosine);
  const auto odd = hn::ShiftLeft<63>(hn::BitCast(du, shifted));
  const M is_odd = hn::MaskFromVec(
      hn::BitCast(Wide(), hn::BroadcastSignBit(hn::BitCast(hn::RebindToSigned<Wide>(), odd))));
  const V above = hn::IfThenElse(is_odd, cosine, sine),
          below = hn::IfThenElse(is_odd, sine, cosine);
  return hn::Xor(hn::Div(above, below), hn::BitCast(Wide(), odd));
}
// For x in f32: asin |x|; or, if |x| is far from 0, half of acos |x|. These are the asin of x and
// of sqrt((1 - |x|) / 2), whose square is exact in f32. The polynomial was interpolated at
// Chebyshev nodes: relative error below 6e-11.
HWY_INLINE V near_asin(V x, M& is_far) {
  constexpr double kAsin[] = {0.030974540371355073, 0.010574415516912909, 0.023611817008891752,
                              0.030269138728589183, 0.04464766388813485,  0.07499992404401838,
                              0.16666666686085643};
  const V size = hn::Abs(x), half = number(0.5);
  is_far = hn::Gt(size, half);
  V z = hn::Mul(x, x), root = size;
  if (!hn::AllFalse(Wide(), is_far)) {
    const V rest = hn::NegMulAdd(half, size, half);
    z = hn::IfThenElse(is_far, rest, z);
    root = hn::IfThenElse(is_far, hn::Sqrt(rest), root);
  }
  return hn::MulAdd(hn::Mul(root, z), polynomial_of(z, kAsin), root);
}
HWY_INLINE V asin_f32_of(V x) {
  M is_far;
  const V y = near_asin(x, is_far);
  const V far = hn::NegMulAdd(number(2), y, number(1.57079632679489661923));
  return hn::CopySign(hn::IfThenElse(is_far, far, y), x);
}
HWY_INLINE V acos_f32_of(V x) {
  M is_far;
  const V y = near_asin(x, is_far);
  const V near = hn::Sub(number(1.57079632679489661923), hn::CopySign(y, x));
  const V twice = hn::Add(y, y);
  const V far =
      hn::IfThenElse(hn::Lt(x, number(0)), hn::Sub(number(3.14159265358979323846), twice), twice);
  return hn::IfThenElse(is_far, far, near);
}
HWY_INLINE V atanh_f32_of(V x) {  // log(1 + 2 |x| / (1 - |x|)) / 2
  const V size = hn::Abs(x);
  const V twice = near_log1p(hn::Div(hn::Add(size, size), hn::Sub(number(1), size)));
  return hn::CopySign(hn::Mul(number(0.5), twice), x);
}
HWY_INLINE V log2_f32_of(V x) {
  V r;
  const V n = split_root(x, r);
  return hn::MulAdd(near_log_of_root(r), number(1.4426950408889634074), n);
}
HWY_INLINE V sigmoid_of(V x) { return hn::Div(number(1), hn::Add(number(1), exp_of(hn::Neg(x)))); }
// 2^n e^(r ln 2) for x = n + r; for |x| <= 1000.
HWY_INLINE V exp2_of(V x) {
  const hn::RebindToUnsigned<Wide> du;
  // Adding 1.5 2^52 rounds to the integer n. With 1023 added, the low bits of the sum are the
  // exponent of 2^n.
  const V magic = number(0x1.8p52 + 1023), shifted = hn::Add(x, magic);
  const V power = hn::BitCast(Wide(), hn::ShiftLeft<52>(hn::BitCast(du, shifted)));
  const V rest = hn::Sub(x, hn::Sub(shifted, magic));
  return hn::Mul(exp_of(hn::Mul(rest, number(0.69314718055994530942))), power);
}

#endif

HG_WIDE(Sin, is_within(x, kTurns), keep_zero(x, hn::Sin(Wide(), x)), std::sin(x));
HG_WIDE(SinF32, is_within(x, kTurns), sine_of<false>(x), std::sin(x));
HG_WIDE(CosF32, is_within(x, kTurns), sine_of<true>(x), std::cos(x));
HG_WIDE(Cos, is_within(x, kTurns), hn::Cos(Wide(), x), std::cos(x));
HG_WIDE(TanF32, is_within(x, kTurns), tan_f32_of(x), std::tan(x));
HG_WIDE(Tan, is_within(x, kTurns), keep_zero(x, tan_of(x)), std::tan(x));
HG_WIDE(AsinF32, is_within(x, 1), asin_f32_of(x), std::asin(x));
HG_WIDE(Asin, is_within(x, 1), keep_zero(x, hn::Asin(Wide(), x)), std::asin(x));
HG_WIDE(AcosF32, is_within(x, 1), acos_f32_of(x), std::acos(x));
HG_WIDE(Acos, is_within(x, 1), hn::Acos(Wide(), x), std::acos(x));
HG_WIDE(Atan, is_within(x, 0x1p127), keep_zero(x, hn::Atan(Wide(), x)), std::atan(x));
HG_WIDE(Sinh, is_within(x, 700), keep_zero(x, hn::Sinh(Wide(), x)), std::sinh(x));
HG_WIDE(Asinh, is_within(x, 0x1p127), keep_zero(x, hn::Asinh(Wide(), x)), std::asinh(x));
HG_WIDE(Acosh, is_above(x, 1), hn::Acosh(Wide(), x), std::acosh(x));
HG_WIDE(AtanhF32, hn::Lt(hn::Abs(x), number(1)), atanh_f32_of(x), std::atanh(x));
HG_WIDE(Atanh, hn::Lt(hn::Abs(x), number(1)), keep_zero(x, hn::Atanh(Wide(), x)), std::atanh(x));
HG_WIDE(Log1pF32, is_above(x, -1), keep_zero(x, near_log1p(x)), std::log1p(x));
HG_WIDE(Log1p, is_above(x, -1), keep_zero(x, hn::Log1p(Wide(), x)), std::log1p(x));
HG_WIDE(Log2F32, is_above(x, 0), log2_f32_of(x), std::log2(x));
HG_WIDE(Log2, is_above(x, 0), hn::Log2(Wide(), x), std::log2(x));
HG_WIDE(Log10F32, is_above(x, 0), hn::Mul(near_log(x), number(0.43429448190325182765)),
        std::log10(x));
HG_WIDE(Log10, is_above(x, 0), hn::Log10(Wide(), x), std::log10(x));
HG_WIDE(Exp2, is_within(x, 1000), exp2_of(x), std::exp2(x));
HG_WIDE(Sqrt, is_any(x), hn::Sqrt(x), std::sqrt(x));
HG_WIDE(Rsqrt, is_any(x), hn::Div(number(1), hn::Sqrt(x)), 1 / std::sqrt(x));
HG_WIDE(Floor, is_any(x), hn::Floor(x), std::floor(x));
HG_WIDE(Ceil, is_any(x), hn::Ceil(x), std::ceil(x));
HG_WIDE(Trunc, is_any(x), hn::Trunc(x), std::trunc(x));
HG_WIDE(Cosh, is_within(x, 700), cosh_of(x), std::cosh(x));
HG_WIDE(Exp, is_within(x, 700), exp_of(x), std::exp(x));
HG_WIDE(Expm1, is_within(x, 700), keep_zero(x, hn::Expm1(Wide(), x)), std::expm1(x));
HG_WIDE(Log, is_above(x, 0x1p-1000), hn::Log(Wide(), x), std::log(x));
HG_WIDE(Tanh, is_within(x, 300), keep_zero(x, hn::Tanh(Wide(), x)), std::tanh(x));
HG_WIDE(Sigmoid, is_within(x, 700), sigmoid_of(x), 1 / (1 + std::exp(-x)));
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
  template <class T>
  static T plain(T y, T x) {
    return std::atan2(y, x);
  }
};
struct Hypot {
#if HG_HAS_FOUR_DOUBLES
  static HWY_INLINE M takes(V a, V b) {
    const M are_small = hn::And(is_within(a, 0x1p127), is_within(b, 0x1p127));
    const V most = hn::Max(hn::Abs(a), hn::Abs(b));  // its square must not be denormal
    return hn::And(are_small, hn::Gt(most, number(0x1p-400)));
  }
  static HWY_INLINE V of(V a, V b) { return hn::Sqrt(hn::MulAdd(a, a, hn::Mul(b, b))); }
#endif
  template <class T>
  static T plain(T a, T b) {
    return std::hypot(a, b);
  }
};
// In f32.
struct Pow {
#if HG_HAS_FOUR_DOUBLES
  static HWY_INLINE M takes(V a, V b) {
    const M is_normal = hn::And(is_above(a, 0x1p-126), is_within(b, 0x1p30));
    const M is_near = is_within(hn::Mul(b, near_log(a)), 690);
    return hn::Or(hn::And(is_normal, is_near), hn::Eq(b, number(2)));
  }
  static HWY_INLINE V of(V a, V b) {
    const V y = near_exp(hn::Mul(b, hn::Log(Wide(), a)));
    return hn::IfThenElse(hn::Eq(b, number(2)), hn::Mul(a, a), y);  // as torch
  }
#endif
  static float plain(float a, float b) { return b == 2 ? a * a : std::pow(a, b); }
};
struct LogAddExp {
#if HG_HAS_FOUR_DOUBLES
  static HWY_INLINE M takes(V a, V b) {
    return hn::And(is_within(a, 0x1p127), is_within(hn::Sub(a, b), 700));
  }
  static HWY_INLINE V of(V a, V b) {
    const V ratio = hn::Exp(Wide(), hn::Neg(hn::Abs(hn::Sub(a, b))));
    return hn::Add(hn::Max(a, b), hn::Log1p(Wide(), ratio));
  }
#endif
  template <class T>
  static T plain(T a, T b) {
    return logaddexp(a, b);
  }
};

struct LogAddExpF32 : LogAddExp {
#if HG_HAS_FOUR_DOUBLES && !defined(HG_SMALL)
  static HWY_INLINE V of(V a, V b) {
    const V size = hn::Abs(hn::Sub(a, b));
    const V y = hn::Add(hn::Max(a, b), near_log1p(near_exp(hn::Neg(size))));
    const M is_close = is_within(y, 0x1p-6);  // to 0, where the terms cancel
    if (hn::AllFalse(Wide(), is_close)) return y;
    return hn::IfThenElse(is_close, LogAddExp::of(a, b), y);
  }
#endif
};

#if HG_HAS_FOUR_DOUBLES

// Rounded to T.
template <class T>
HWY_INLINE V rounded(V x) {
  if constexpr (sizeof(T) == 4) return hn::PromoteTo(Wide(), hn::DemoteTo(Narrow(), x));
  return x;
}
// Whether rest_of is exact.
HWY_INLINE M is_divided(V a, V b) {
  const M are_finite = hn::And(is_within(a, 0x1p127), is_within(b, 0x1p127));
  return hn::And(are_finite, is_within(hn::Div(a, b), 0x1p28));
}
// a - n b for n, the quotient rounded toward zero. A quotient that was rounded up to a whole number
// leaves a small rest of the other sign. Both rests are multiples of an ulp of b below 2^53 of them
// and therefore exact.
HWY_INLINE V rest_of(V a, V b) {
  const V rest = hn::NegMulAdd(hn::Trunc(hn::Div(a, b)), b, a);
  const V once_more = hn::Add(rest, hn::CopySign(b, a));
  const M is_past = hn::Lt(hn::Mul(hn::CopySign(number(1), a), rest), number(0));
  return hn::CopySign(hn::IfThenElse(is_past, once_more, rest), a);
}
HWY_INLINE M points_away(V rest, V b) {  // whether the remainder's sign differs from the divisor's
  return hn::Lt(hn::Mul(hn::CopySign(number(1), b), rest), number(0));
}

#endif

struct Fmod {
#if HG_HAS_FOUR_DOUBLES
  static HWY_INLINE M takes(V a, V b) { return is_divided(a, b); }
  static HWY_INLINE V of(V a, V b) { return rest_of(a, b); }
#endif
  template <class T>
  static T plain(T a, T b) {
    return std::fmod(a, b);
  }
};
struct Remainder {
#if HG_HAS_FOUR_DOUBLES
  static HWY_INLINE M takes(V a, V b) { return is_divided(a, b); }
  static HWY_INLINE V of(V a, V b) {
    const V rest = rest_of(a, b);
    return hn::IfThenElse(points_away(rest, b), hn::Add(rest, b), rest);
  }
#endif
  template <class T>
  static T plain(T a, T b) {
    return remainder(a, b);
  }
};
// Rounds each step to T: computing in double and rounding once more gives the same result.
template <class T>
struct FloorDivide {
#if HG_HAS_FOUR_DOUBLES
  static HWY_INLINE M takes(V a, V b) { return is_divided(a, b); }
  static HWY_INLINE V of(V a, V b) {
    const V one = number(1), rest = rest_of(a, b);
    V result = rounded<T>(hn::Div(rounded<T>(hn::Sub(a, rest)), b));
    result = hn::IfThenElse(points_away(rest, b), rounded<T>(hn::Sub(result, one)), result);
    const V whole = hn::Floor(result);
    const V near =
        hn::IfThenElse(hn::Gt(hn::Sub(result, whole), number(0.5)), hn::Add(whole, one), whole);
    return hn::IfThenElse(hn::Eq(result, number(0)), hn::CopySign(number(0), hn::Div(a, b)), near);
  }
#endif
  static T plain(T a, T b) { return floor_divide(a, b); }
};

}  // namespace

constexpr PointwiseWide kPointwiseWide = {
#define HG_FUNCTION(name, ...) .name = {__VA_ARGS__},
    HG_POINTWISE_WIDE(HG_FUNCTION)
#undef HG_FUNCTION
};
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

const PointwiseWide& table() { return *HG_SIMD_CHOOSE(kPointwiseWide); }

constexpr KernelDef kKernels[] = {
#define HG_FUNCTION(name, ...) wide_row<table, &PointwiseWide::name>(#name),
    HG_POINTWISE_WIDE(HG_FUNCTION)
#undef HG_FUNCTION
};

}  // namespace

std::span<const KernelDef> pointwise_wide() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif
