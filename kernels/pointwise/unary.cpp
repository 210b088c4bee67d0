// SPDX-License-Identifier: Apache-2.0
// Elementwise functions of one tensor.
#include <cmath>
#include <limits>

#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/pointwise_simd.h"
#include "kernels/pointwise/special_functions.h"
#include "lib/table/rows.h"

namespace hg::kernels {

void round_params(const PrepareContext& c, PointwiseParams& p) {
  p.n = c.attrs().integer("decimals");
  p.a = std::pow(10.0, std::abs(static_cast<double>(p.n)));
}

namespace {

struct Neg {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return static_cast<T>(Wrapping<T>(0) - Wrapping<T>(x));
  }
};
struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::abs(x);
    } else if constexpr (std::is_signed_v<T>) {
      const T sign = static_cast<T>(x >> (8 * sizeof(T) - 1));  // 0 or -1: without a branch
      return static_cast<T>(Wrapping<T>(x ^ sign) - Wrapping<T>(sign));
    } else {
      return x;
    }
  }
};
struct Sign {  // 0 for NaN
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_same_v<T, double>)  // without vectors of narrower integers
      return (x > 0 ? 1.0 : 0.0) - (x < 0 ? 1.0 : 0.0);
    else
      return static_cast<T>((x > T(0)) - (x < T(0)));
  }
};

// y = f(x) for one function of <cmath>: T -> T
#define HG_FUNCTION(Name, expression) \
  struct Name {                       \
    template <class T>                \
    T operator()(T x) const {         \
      return expression;              \
    }                                 \
  }
HG_FUNCTION(Sqrt, std::sqrt(x));
HG_FUNCTION(Rsqrt, T(1) / std::sqrt(x));
HG_FUNCTION(Reciprocal, T(1) / x);
HG_FUNCTION(Exp, std::exp(x));
HG_FUNCTION(Exp2, std::exp2(x));
HG_FUNCTION(Expm1, std::expm1(x));
HG_FUNCTION(Log, std::log(x));
HG_FUNCTION(Log2, std::log2(x));
HG_FUNCTION(Log10, std::log10(x));
HG_FUNCTION(Log1p, std::log1p(x));
HG_FUNCTION(Sin, std::sin(x));
HG_FUNCTION(Cos, std::cos(x));
HG_FUNCTION(Tan, std::tan(x));
HG_FUNCTION(Asin, std::asin(x));
HG_FUNCTION(Acos, std::acos(x));
HG_FUNCTION(Atan, std::atan(x));
HG_FUNCTION(Sinh, std::sinh(x));
HG_FUNCTION(Cosh, std::cosh(x));
HG_FUNCTION(Asinh, std::asinh(x));
HG_FUNCTION(Acosh, std::acosh(x));
HG_FUNCTION(Atanh, std::atanh(x));
HG_FUNCTION(Erf, std::erf(x));
HG_FUNCTION(Erfc, std::erfc(x));
HG_FUNCTION(Erfinv, static_cast<T>(erfinv(static_cast<double>(x))));
HG_FUNCTION(Digamma, static_cast<T>(digamma(static_cast<double>(x))));
HG_FUNCTION(Lgamma, static_cast<T>(log_gamma(static_cast<double>(x))));
HG_FUNCTION(Sinc, sinc(x));
#undef HG_FUNCTION

// Rounds to the nearest integer, ties to even, like std::nearbyint but without a call. Adding a
// number so large that floats have no fraction performs the rounding.
template <class T>
T round_to_even(T x) {
  constexpr T kWhole = std::is_same_v<T, float> ? T(0x1p23) : T(0x1p52);
  const T size = std::abs(x), rounded = size + kWhole - kWhole;
  return std::copysign(size < kWhole ? rounded : size, x);
}

// The largest integer that is not above x, without a call. The sign is that of x: floor(-0) is -0.
template <class T>
T floor_of(T x) {
  const T near = round_to_even(x), below = near - T(1);
  return std::copysign(near > x ? below : near, x);
}
struct Floor {
  template <class T>
  T operator()(T x) const {
    return floor_of(x);
  }
};
struct Ceil {
  template <class T>
  T operator()(T x) const {
    return -floor_of(-x);
  }
};
struct Trunc {
  template <class T>
  T operator()(T x) const {
    return std::copysign(floor_of(std::abs(x)), x);
  }
};

// torch scales by 10^decimals, rounds, and scales back.
struct Round {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    if (p.n == 0) return round_to_even(x);
    const T ten = static_cast<T>(p.a);
    return p.n > 0 ? round_to_even(x * ten) / ten : round_to_even(x / ten) * ten;
  }
};
struct IsNan {
  template <class T>
  bool operator()(T x) const {
    return x != x;
  }
};
struct IsInf {
  template <class T>
  bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::isinf(x);
    else
      return false;
  }
};
struct IsFinite {
  template <class T>
  bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::isfinite(x);
    else
      return true;
  }
};
struct Signbit {
  template <class T>
  bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::signbit(x);
    else
      return x < T(0);
  }
};
struct LogicalNot {
  template <class T>
  bool operator()(T x) const {
    return x == T(0);
  }
};
struct BitwiseNot {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(~x);
  }
};
constexpr BlockTable kBitwiseNot = {
    .blocks = {nullptr, nullptr, nullptr, nullptr, unary_block<BitwiseNot, int64_t>,
               unary_block<BitwiseNot, int32_t>, unary_block<BitwiseNot, int16_t>,
               unary_block<BitwiseNot, int8_t>, unary_block<BitwiseNot, uint8_t>,
               &MakeBlock<uint8_t, LogicalNot, uint8_t>::run}};

// NaN -> a, +inf -> b, -inf -> c; the default of b and c is the largest finite number of the dtype
struct NanToNum {
  template <class T>
  T operator()(T x, const PointwiseParams& p) const {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    const T nan = static_cast<T>(p.a), high = static_cast<T>(p.b), low = static_cast<T>(p.c);
    const T above = x == -kInfinity ? low : x;
    const T number = x == kInfinity ? high : above;
    return x != x ? nan : number;
  }
};
constexpr KernelDef kKernels[] = {
    pointwise_kernel<number_unary<Neg>>("neg"),
    pointwise_kernel<number_unary<Abs>>("abs"),
    pointwise_kernel<number_unary<Sign>>("sign"),
    pointwise_kernel<float_unary<Sqrt>>("sqrt"),
    pointwise_kernel<float_unary<Rsqrt>>("rsqrt"),
    pointwise_kernel<float_unary<Reciprocal>>("reciprocal"),
    pointwise_kernel<float_unary<Exp>>("exp"),
    pointwise_kernel<float_unary<Exp2>>("exp2"),
    pointwise_kernel<float_unary<Expm1>>("expm1"),
    pointwise_kernel<float_unary<Log>>("log"),
    pointwise_kernel<float_unary<Log2>>("log2"),
    pointwise_kernel<float_unary<Log10>>("log10"),
    pointwise_kernel<float_unary<Log1p>>("log1p"),
    pointwise_kernel<float_unary<Sin>>("sin"),
    pointwise_kernel<float_unary<Cos>>("cos"),
    pointwise_kernel<float_unary<Tan>>("tan"),
    pointwise_kernel<float_unary<Asin>>("asin"),
    pointwise_kernel<float_unary<Acos>>("acos"),
    pointwise_kernel<float_unary<Atan>>("atan"),
    pointwise_kernel<float_unary<Sinh>>("sinh"),
    pointwise_kernel<float_unary<Cosh>>("cosh"),
    pointwise_kernel<float_unary<Asinh>>("asinh"),
    pointwise_kernel<float_unary<Acosh>>("acosh"),
    pointwise_kernel<float_unary<Atanh>>("atanh"),
    pointwise_kernel<float_unary<Erf>>("erf"),
    pointwise_kernel<float_unary<Erfc>>("erfc"),
    pointwise_kernel<float_unary<Erfinv>>("erfinv"),
    pointwise_kernel<float_unary<Lgamma>>("lgamma"),
    pointwise_kernel<float_unary<Digamma>>("digamma"),
    pointwise_kernel<float_unary<Sinc>>("sinc"),
    pointwise_kernel<float_unary<Floor>>("floor"),
    pointwise_kernel<float_unary<Ceil>>("ceil"),
    pointwise_kernel<float_unary<Trunc>>("trunc"),
    pointwise_kernel<float_unary<Round, round_params>>("round"),
    pointwise_kernel<float_unary<NanToNum, nan_to_num_params>>("nan_to_num"),
    pointwise_kernel<test_unary<IsNan>>("isnan"),
    pointwise_kernel<test_unary<IsInf>>("isinf"),
    pointwise_kernel<test_unary<IsFinite>>("isfinite"),
    pointwise_kernel<test_unary<Signbit>>("signbit"),
    pointwise_kernel<test_unary<LogicalNot>>("logical_not"),
    pointwise_kernel<kBitwiseNot>("bitwise_not"),
};

}  // namespace

void nan_to_num_params(const PrepareContext& c, PointwiseParams& p) {
  const DType dtype = c.in(0).dtype;
  const double largest = dtype == f64    ? std::numeric_limits<double>::max()
                         : dtype == f16  ? 65504.0
                         : dtype == bf16 ? 0x1.fep127
                                         : double{std::numeric_limits<float>::max()};
  p.a = c.attrs().real("nan");
  p.b = c.attrs().has("posinf") ? c.attrs().real("posinf") : largest;
  p.c = c.attrs().has("neginf") ? c.attrs().real("neginf") : -largest;
}

std::span<const KernelDef> unary() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
