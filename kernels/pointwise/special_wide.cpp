// SPDX-License-Identifier: Apache-2.0
// Special functions, activations and rounding, computed in vectors of doubles, as in
// pointwise_wide.cpp.
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/special_wide.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/pointwise/wide-inl.h"
#include "kernels/pointwise/pointwise_simd.h"
#include "kernels/pointwise/special_functions.h"
// clang-format on

// Defined once, before the first instruction set.
#ifndef HG_KERNELS_SPECIAL_WIDE_TABLE
#define HG_KERNELS_SPECIAL_WIDE_TABLE
// Each op, the function that reads its attributes, and its blocks for f32 and f64.
#define HG_SPECIAL_WIDE(FUNCTION)                                           \
  FUNCTION(erf, nullptr, only_f64<Erf>)                                     \
  FUNCTION(erfc, nullptr, unary<ErfcF32, float>, unary<Erfc, double>)       \
  FUNCTION(erfinv, nullptr, unary<ErfinvF32, float>, unary<Erfinv, double>) \
  FUNCTION(lgamma, nullptr, only_f32<Lgamma>)                               \
  FUNCTION(bessel_i0, nullptr, only_f32<I0>)                                \
  FUNCTION(bessel_i0e, nullptr, only_f32<I0e>)                              \
  FUNCTION(bessel_i1, nullptr, only_f32<I1>)                                \
  FUNCTION(bessel_i1e, nullptr, only_f32<I1e>)                              \
  FUNCTION(round, round_params, only_f64<Round>)                            \
  FUNCTION(elu, elu_params, only_f64<Elu>)                                  \
  FUNCTION(silu, nullptr, only_f64<Silu>)                                   \
  FUNCTION(mish, nullptr, only_f64<Mish>)                                   \
  FUNCTION(softplus, softplus_params, only_f64<Softplus>)                   \
  FUNCTION(log_sigmoid, nullptr, only_f64<LogSigmoid>)                      \
  FUNCTION(logit, logit_params, unary<Logit<float>, float>, unary<Logit<double>, double>)

namespace hg::kernels {

struct SpecialWide {
#define HG_FUNCTION(name, ...) WideBlocks name;
  HG_SPECIAL_WIDE(HG_FUNCTION)
#undef HG_FUNCTION
};

}  // namespace hg::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

namespace {

#if HG_HAS_FOUR_DOUBLES

// For x in f32, up to 10.5: e^-x^2 u times a polynomial of u = 1 / (x + 3), fitted by least
// squares: relative error 3e-9.
HWY_INLINE V erfc_f32_of(V x) {
  constexpr double kErfc32[] = {3262.025518484231,  -5699.159448979626, 3474.3404787483396,
                                -946.5805633579785, 289.01235358881456, 0.471201536203615,
                                15.453339629433197, 4.636521109995978,  1.6978460941641895,
                                0.5641130145097611};
  const V u = hn::Div(number(1), hn::Add(hn::Abs(x), number(3)));
  const V scaled = hn::Mul(polynomial_of(u, kErfc32), u);
  const V y = hn::Mul(rough_exp(hn::NegMulAdd(x, x, number(0))), scaled);
  return hn::IfThenElse(hn::Lt(x, number(0)), hn::Sub(number(2), y), y);
}
// As in M. Shepherd and J. Laframboise, Chebyshev Approximation of (1 + 2x) exp(x^2) erfc x, 1981,
// with t = (x - 3) / (x + 3): a polynomial of t over 1 + 2x. The other polynomials of this file
// were interpolated at Chebyshev nodes. For 0 <= x <= 26, within some units in the last place. The
// rest of the square beyond f64 counts.
HWY_INLINE V erfc_of(V x) {
  constexpr double kErfc64[] = {
      -1.1228537548713238e-09, -6.624088148897949e-09,  -5.712236360851097e-09,
      4.1611856538284895e-08,  8.99675968606605e-08,    -1.4471406575238748e-07,
      -6.060826782957282e-07,  3.6109096974245866e-07,  3.4665501223274592e-06,
      -7.343319539144256e-07,  -2.0098457306192903e-05, 4.950590111606122e-06,
      0.0001250988576479375,   -0.00010516006614503054, -0.0007798321982083498,
      0.0018886903980322228,   0.0025293918093796763,   -0.023770514921873105,
      0.06830802734431167,     -0.11927366341517347,    0.129645158702753,
      -0.047562294353452945,   -0.13562110612458111,    1.2530080582697296};
  const V three = number(3), square = hn::Mul(x, x), rest = hn::MulSub(x, x, square);
  const V t = hn::Div(hn::Sub(x, three), hn::Add(x, three));
  const V power = exp_of(hn::Neg(square));
  const V falling = hn::NegMulAdd(rest, power, power);
  return hn::Mul(falling, hn::Div(polynomial_of(t, kErfc64), hn::MulAdd(number(2), x, number(1))));
}
HWY_INLINE V erf_near_0(V x) {  // for |x| <= 1
  constexpr double kErf[] = {
      -7.795898827002142e-10, 1.3720064546777686e-08, -1.6208483801871705e-07,
      1.6447424703317362e-06, -1.492473690741966e-05, 0.00012055294904839707,
      -0.0008548325975389692, 0.0052239776071164225,  -0.02686617064323777,
      0.11283791670945006,    -0.37612638903183543,   1.1283791670955126};
  return hn::Mul(x, polynomial_of(hn::Mul(x, x), kErf));
}
// Beyond 1: 1 - e^-x^2 times a polynomial of t = (x - 3) / (x + 3), fitted by weighted least
// squares: error 7e-18. 1 beyond 6.
HWY_INLINE V erf_of(V x) {
  constexpr double kFar[] = {1.5294183906805928e-05, 0.00010322999891581412, 7.67655209489426e-05,
                             -0.0005808085846259671, 0.0007133113472507533,  0.004270396192256388,
                             -0.024392319347310412,  0.07166585118605966,    -0.15011593627401001,
                             0.24560380166552576,    -0.3262335600459945,    0.17900115118135052};
  const V size = hn::Abs(x), limited = hn::Min(size, number(6)), three = number(3);
  const V t = hn::Div(hn::Sub(limited, three), hn::Add(limited, three));
  const V power = exp_of(hn::Neg(hn::Mul(limited, limited)));
  const V far = hn::NegMulAdd(power, polynomial_of(t, kFar), number(1));
  return hn::IfThenElse(hn::Lt(size, number(1)), erf_near_0(x), hn::CopySign(far, x));
}
HWY_INLINE V erfc_f64_of(V x) {
  const V size = hn::Abs(x), far = erfc_of(size);
  const V y = hn::IfThenElse(hn::Lt(x, number(0)), hn::Sub(number(2), far), far);
  return hn::IfThenElse(hn::Lt(size, number(0.5)), hn::Sub(number(1), erf_near_0(x)), y);
}

// As in M. Giles, Approximating the erfinv function, 2010: y times a polynomial of w = -log(1 -
// y^2), or of its root if |y| is near 1. Relative error below 1e-10.
HWY_INLINE V erfinv_f32_of(V y) {
  constexpr double kCentral[] = {
      -2.12035651318190039e-11, 1.23028889731208042e-10, 8.32700082103081304e-10,
      -1.08543970931123768e-8,  1.36914960151991517e-8,  4.78644824340027128e-7,
      -3.41711523274501038e-6,  -4.99588144876005954e-6, 0.000218250649399950023,
      -0.00125270808362228086,  -0.00417731781014003476, 0.246640276785267755,
      1.50140935111079192};
  constexpr double kTail[] = {
      0.0000128356824275340341, -0.00001424192330583297,  -0.0000576508804068868709,
      0.000162197783571776668,  -0.000122609335672985426, -0.000312743081192019253,
      0.00131663519034886884,   -0.00271203623962091277,  0.00412138007549285695,
      -0.00569671686562937124,  0.00746009109672527153,   1.00335611937949777,
      2.93323167220867911};
  const V one = number(1);
  const V w = hn::Neg(near_log(hn::Mul(hn::Sub(one, y), hn::Add(one, y))));
  const M is_central = hn::Lt(w, number(5));
  V p = polynomial_of(hn::Sub(w, number(2.5)), kCentral);
  if (!hn::AllTrue(Wide(), is_central)) {
    const V root = hn::Sqrt(hn::Max(w, one));
    p = hn::IfThenElse(is_central, p, polynomial_of(hn::Sub(root, number(3.1)), kTail));
  }
  return hn::Mul(p, y);
}
// M. Wichura, Algorithm AS 241: The Percentage Points of the Normal Distribution, 1988, whose
// argument is (1 + y) / 2 and whose result is sqrt(2) times this one.
HWY_INLINE V erfinv_of(V y) {
  constexpr double kCentral[] = {2509.0809287301227, 33430.57558358813, 67265.7709270087,
                                 45921.95393154987,  13731.69376550946, 1971.5909503065513,
                                 133.14166789178438, 3.3871328727963665};
  constexpr double kCentralBelow[] = {
      5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597,
      5394.196021424751, 687.1870074920579,  42.31333070160091, 1.0};
  constexpr double kMiddle[] = {0.0007745450142783414, 0.022723844989269184, 0.2417807251774506,
                                1.2704582524523684,    3.6478483247632045,   5.769497221460691,
                                4.630337846156546,     1.4234371107496835};
  constexpr double kMiddleBelow[] = {
      1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008,
      0.6897673349851,        1.6763848301838038,    2.053191626637759,    1.0};
  constexpr double kTail[] = {2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784,
                              0.026532189526576124,   0.29656057182850487,    1.7848265399172913,
                              5.463784911164114,      6.657904643501103};
  constexpr double kTailBelow[] = {
      2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05, 0.0007868691311456133,
      0.014875361290850615,   0.1369298809227358,    0.599832206555888,      1.0};
  const V half = hn::Mul(number(0.5), y), r = hn::NegMulAdd(half, half, number(0.180625));
  const V scale = number(0.70710678118654752440);
  const M is_central = is_within(y, 0.85);
  const V near =
      hn::Div(hn::Mul(half, polynomial_of(r, kCentral)), polynomial_of(r, kCentralBelow));
  if (hn::AllTrue(Wide(), is_central)) return hn::Mul(near, scale);
  const V rest = hn::Mul(number(0.5), hn::Sub(number(1), hn::Abs(y)));
  const V root = hn::Sqrt(hn::Neg(hn::Log(Wide(), rest)));
  const V middle = hn::Sub(root, number(1.6)), tail = hn::Sub(root, number(5));
  const M is_middle = hn::Le(root, number(5));
  const V above =
      hn::IfThenElse(is_middle, polynomial_of(middle, kMiddle), polynomial_of(tail, kTail));
  const V below = hn::IfThenElse(is_middle, polynomial_of(middle, kMiddleBelow),
                                 polynomial_of(tail, kTailBelow));
  const V far = hn::CopySign(hn::Div(above, below), y);
  return hn::Mul(hn::IfThenElse(is_central, near, far), scale);
}

// For x in f32, 0 < x <= 2^120. Up to 3: (t - 1) (t - 2) times a polynomial of t - 2 for t = x, or
// for t = x + 1 minus log x below 1. Beyond: Stirling's formula with a polynomial of 1 / x^2.
HWY_INLINE V lgamma_of(V x) {
  constexpr double kLgamma[] = {
      -5.926157343507844e-07,  1.2415438637566427e-06, 5.9543650952692606e-08,
      -9.731305344529479e-08,  -4.860794513399682e-06, 1.0337765749640927e-05,
      -1.7030840318036683e-05, 3.685229019378649e-05,  -8.332117815552447e-05,
      0.00018302436986256305,  -0.0004056624502292254, 0.0009152831322329448,
      -0.0021081352730488545,  0.004998650427171173,   -0.012384192025692813,
      0.03296500027129177,     -0.10031730167539045,   0.42278433510062985};
  constexpr double kStirling[] = {
      0.0017901800692895539, -0.0014233123861739818, 0.000810120660174383, -0.0005941137380865464,
      0.0007936309810201604, -0.002777777643542962,  0.08333333333318188};
  const V one = number(1), zero = number(0), logarithm = near_log(x);
  const M is_small = hn::Lt(x, one), is_near = hn::Lt(x, number(3));
  const V t = hn::IfThenElse(is_small, x, hn::Sub(x, one));  // less 1
  const V u = hn::Min(hn::Sub(t, one), one);
  const V product = hn::Mul(hn::Mul(t, u), polynomial_of(u, kLgamma));
  const V near = hn::Sub(product, hn::IfThenElse(is_small, logarithm, zero));
  if (hn::AllTrue(Wide(), is_near)) return near;
  const V inverse = hn::Div(one, hn::Max(x, one));
  const V series = hn::Mul(inverse, polynomial_of(hn::Mul(inverse, inverse), kStirling));
  const V rest = hn::Sub(hn::Add(series, number(0.91893853320467274178)), x);
  return hn::IfThenElse(is_near, near, hn::MulAdd(hn::Sub(x, number(0.5)), logarithm, rest));
}

// For x in f32: e^-|x| I0(x), or I1. Up to 8 a polynomial of |x| / 4 - 1, beyond one of 1 / |x|
// over the root.
HWY_INLINE V i0e_of(V x) {
  constexpr double kI0[] = {
      4.9179807024730725e-05,  -0.00013592006898095621, 0.00010271931878805943,
      -0.00020636329707506994, 0.0009352321298116495,   -0.0020461388965098723,
      0.0035544414024135983,   -0.006605936634764051,   0.01199119818260163,
      -0.019775351506074058,   0.030168286136064423,    -0.04295725075501792,
      0.056778814790985566,    -0.06954651412975588,    0.07927504492355045,
      -0.08496284076533661,    0.08734342458197082,     -0.08904346645630873,
      0.09451562842516041,     -0.11300432654348828,    0.2070019212239867};
  constexpr double kLarge0[] = {9.029041910927784,    -2.1197724894034526,  0.3728431763593113,
                                0.027236240209719095, 0.029790933179536974, 0.028041596739860196,
                                0.04986783906945196,  0.3989422803486322};
  const V size = hn::Abs(x);
  const V near = polynomial_of(hn::MulSub(hn::Min(size, number(8)), number(0.25), number(1)), kI0);
  const M is_near = is_within(x, 8);
  if (hn::AllTrue(Wide(), is_near)) return near;
  const V inverse = hn::Div(number(1), hn::Max(size, number(8)));
  const V far = hn::Mul(hn::Sqrt(inverse), polynomial_of(inverse, kLarge0));
  return hn::IfThenElse(is_near, near, far);
}
HWY_INLINE V i1e_of(V x) {
  constexpr double kI1[] = {5.984122024648426e-06,  -1.745472071400764e-05, 1.7599730578225902e-05,
                            -4.077280388096948e-05, 0.00015715397534503563, -0.0003684467431909782,
                            0.0007375935634886747,  -0.0015172283196528769, 0.0030091916424835638,
                            -0.00554530937067591,   0.009582902619497388,   -0.0155679877622009,
                            0.023686213041875678,   -0.03367197055283874,   0.044674552725048805,
                            -0.055279976798581335,  0.06376740463728496,    -0.0684826091053086,
                            0.06805759989689755,    -0.06112433799007499,   0.044687709875608835};
  constexpr double kLarge1[] = {-10.161899277741165,  2.3791430575102672,   -0.430640602147839,
                                -0.03759874466033855, -0.04156003016067409, -0.04674070440219407,
                                -0.14960341710369246, 0.3989422804620052};
  const V size = hn::Abs(x);
  const V at = hn::MulSub(hn::Min(size, number(8)), number(0.25), number(1));
  const V near = hn::Mul(x, polynomial_of(at, kI1));
  const M is_near = is_within(x, 8);
  if (hn::AllTrue(Wide(), is_near)) return near;
  const V inverse = hn::Div(number(1), hn::Max(size, number(8)));
  const V far = hn::Mul(hn::Sqrt(inverse), polynomial_of(inverse, kLarge1));
  return hn::IfThenElse(is_near, near, hn::CopySign(far, x));
}

// log(1 + e^-|x|)
HWY_INLINE V softplus_rest(V x) { return hn::Log1p(Wide(), exp_of(hn::Neg(hn::Abs(x)))); }
// x tanh(log(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2)
HWY_INLINE V mish_of(V x) {
  const V e = exp_of(hn::Min(x, number(40))), two = number(2);
  const V n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(n, hn::Add(n, two)));
}
HWY_INLINE V silu_of(V x) { return hn::Div(x, hn::Add(number(1), exp_of(hn::Neg(x)))); }

#endif

HG_WIDE(Erf, is_within(x, 0x1p127), erf_of(x), std::erf(x));
HG_WIDE(ErfcF32, is_within(x, 10.5), erfc_f32_of(x), std::erfc(x));
HG_WIDE(Erfc, is_within(x, 26), erfc_f64_of(x), std::erfc(x));
HG_WIDE(ErfinvF32, hn::Lt(hn::Abs(x), number(1)), erfinv_f32_of(x),
        static_cast<T>(erfinv(static_cast<double>(x))));
HG_WIDE(Erfinv, hn::Lt(hn::Abs(x), number(1)), erfinv_of(x), erfinv(x));
HG_WIDE(Lgamma, hn::And(hn::Gt(x, number(0)), is_within(x, 0x1p120)), lgamma_of(x),
        static_cast<T>(log_gamma(static_cast<double>(x))));
HG_WIDE(I0, is_within(x, 690), hn::Mul(i0e_of(x), near_exp(hn::Abs(x))),
        static_cast<T>(bessel_i0(static_cast<double>(x))));
HG_WIDE(I1, is_within(x, 690), hn::Mul(i1e_of(x), near_exp(hn::Abs(x))),
        static_cast<T>(bessel_i1(static_cast<double>(x))));
HG_WIDE(I0e, is_within(x, 0x1p120), i0e_of(x), static_cast<T>(bessel_i0e(static_cast<double>(x))));
HG_WIDE(I1e, is_within(x, 0x1p120), i1e_of(x), static_cast<T>(bessel_i1e(static_cast<double>(x))));
HG_WIDE(Silu, is_within(x, 700), silu_of(x), x / (1 + std::exp(-x)));
HG_WIDE(Mish, is_within(x, 700), mish_of(x), x* std::tanh(std::log1p(std::exp(x))));
HG_WIDE(LogSigmoid, is_within(x, 700), hn::Sub(hn::Min(x, number(0)), softplus_rest(x)),
        (x < T(0) ? x
         : x != x ? x
                  : T(0)) -
            std::log1p(std::exp(-std::abs(x))));

// Scales by 10^decimals, rounds ties to even, and scales back.
struct Round {
  explicit Round(const PointwiseParams& p) : decimals(p.n), ten(p.a) {}
#if HG_HAS_FOUR_DOUBLES
  HWY_INLINE M takes(V x) const { return is_any(x); }
  HWY_INLINE V of(V x) const {
    const V scale = number(ten);
    if (decimals == 0) return hn::Round(x);
    if (decimals > 0) return hn::Div(hn::Round(hn::Mul(x, scale)), scale);
    return hn::Mul(hn::Round(hn::Div(x, scale)), scale);
  }
#endif
  double plain(double x) const {
    if (decimals == 0) return std::nearbyint(x);
    return decimals > 0 ? std::nearbyint(x * ten) / ten : std::nearbyint(x / ten) * ten;
  }
  int64_t decimals;
  double ten;
};
// scale * (x > 0 ? x : alpha * (e^(input_scale x) - 1))
struct Elu {
  explicit Elu(const PointwiseParams& p) : scale(p.b), below(p.a * p.b), input(p.c) {}
#if HG_HAS_FOUR_DOUBLES
  HWY_INLINE M takes(V x) const { return is_within(hn::Mul(x, number(input)), 700); }
  HWY_INLINE V of(V x) const {
    const V inner = hn::Mul(x, number(input));
    const V low = hn::Mul(keep_zero(inner, hn::Expm1(Wide(), inner)), number(below));
    return hn::IfThenElse(hn::Gt(x, number(0)), hn::Mul(x, number(scale)), low);
  }
#endif
  double plain(double x) const { return x > 0 ? x * scale : std::expm1(x * input) * below; }
  double scale, below, input;
};
// log(1 + e^(beta x)) / beta; x beyond the threshold
struct Softplus {
  explicit Softplus(const PointwiseParams& p) : beta(p.a), threshold(p.b) {}
#if HG_HAS_FOUR_DOUBLES
  HWY_INLINE M takes(V x) const { return is_within(hn::Mul(x, number(beta)), 700); }
  HWY_INLINE V of(V x) const {
    const V scaled = hn::Mul(x, number(beta));
    const V sum = hn::Add(hn::Max(scaled, number(0)), softplus_rest(scaled));
    return hn::IfThenElse(hn::Gt(scaled, number(threshold)), x, hn::Div(sum, number(beta)));
  }
#endif
  double plain(double x) const {
    const double scaled = x * beta;
    return scaled > threshold ? x : std::log1p(std::exp(scaled)) / beta;
  }
  double beta, threshold;
};
// log(x / (1 - x)); x is clamped to [eps, 1 - eps] if eps is given
template <class T>
struct Logit {
  explicit Logit(const PointwiseParams& p)
      : low(p.n != 0 ? static_cast<T>(p.a) : -HUGE_VAL),
        high(p.n != 0 ? T(1) - static_cast<T>(p.a) : HUGE_VAL) {}
#if HG_HAS_FOUR_DOUBLES
  HWY_INLINE V clamped(V x) const {
    const V raised = hn::IfThenElse(hn::Lt(x, number(low)), number(low), x);
    return hn::IfThenElse(hn::Gt(raised, number(high)), number(high), raised);
  }
  HWY_INLINE M takes(V x) const {
    const V inner = clamped(x);
    return hn::And(hn::Ne(inner, number(0)), hn::Ne(inner, number(1)));
  }
  HWY_INLINE V of(V x) const {
    const V inner = clamped(x);
    const M is_inside = hn::And(hn::Gt(inner, number(0)), hn::Lt(inner, number(1)));
    const V y = hn::Log(Wide(), hn::Div(inner, hn::Sub(number(1), inner)));
    return hn::IfThenElse(is_inside, y, hn::NaN(Wide()));
  }
#endif
  T plain(T x) const {
    const double inner = x < low ? low : x > high ? high : x;
    return static_cast<T>(std::log(inner / (1 - inner)));
  }
  double low, high;
};

}  // namespace

constexpr SpecialWide kSpecialWide = {
#define HG_FUNCTION(name, params, ...) .name = {__VA_ARGS__},
    HG_SPECIAL_WIDE(HG_FUNCTION)
#undef HG_FUNCTION
};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

const SpecialWide& table() { return *HG_SIMD_CHOOSE(kSpecialWide); }

constexpr KernelDef kKernels[] = {
#define HG_FUNCTION(name, params, ...) wide_row<table, &SpecialWide::name, params>(#name),
    HG_SPECIAL_WIDE(HG_FUNCTION)
#undef HG_FUNCTION
};

}  // namespace

std::span<const KernelDef> special_wide() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif
