// SPDX-License-Identifier: Apache-2.0
// Blocks of functions that are computed in vectors of doubles. Included once for every instruction
// set, as kernels/simd/simd.h describes. A function is a struct: takes(x...) tells whether of(x...)
// is valid, which computes vectors; plain(x...) is used elsewhere, and where a vector has fewer
// than four doubles.
#if defined(HG_KERNELS_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_WIDE_INL_H_
#undef HG_KERNELS_WIDE_INL_H_
#else
#define HG_KERNELS_WIDE_INL_H_
#endif

#include <iterator>
#include <type_traits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/pointwise/wide.h"

#undef HG_HAS_FOUR_DOUBLES
#undef HG_WIDE
#define HG_HAS_FOUR_DOUBLES (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

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

HWY_INLINE V number(double value) { return hn::Set(Wide(), value); }
HWY_INLINE M is_within(V x, double limit) { return hn::Le(hn::Abs(x), number(limit)); }
HWY_INLINE M is_any(V x) { return hn::Eq(hn::Xor(x, x), number(0)); }
HWY_INLINE M is_above(V x, double limit) {
  return hn::And(hn::Gt(x, number(limit)), hn::Le(x, number(0x1p127)));
}
// For a function with f(-0) = -0.
HWY_INLINE V keep_zero(V x, V y) { return hn::IfThenElse(hn::Eq(x, number(0)), x, y); }
// The polynomial with these coefficients, from the highest power on: even and odd powers apart,
// which halves the chain of operations.
template <size_t n>
HWY_INLINE V polynomial_of(V x, const double (&terms)[n]) {
  const V square = hn::Mul(x, x);
  V sums[] = {number(terms[0]), number(terms[1])};
#pragma GCC unroll 32
  for (size_t i = 2; i < n; ++i) sums[i % 2] = hn::MulAdd(sums[i % 2], square, number(terms[i]));
  return hn::MulAdd(sums[n % 2], x, sums[(n + 1) % 2]);
}

// Splits x, with |x| <= 700, into n ln 2 + r and returns 2^n. `rest` is what ln 2 has beyond f64.
HWY_INLINE V split_power(V x, double rest, V& r) {
  const hn::RebindToUnsigned<Wide> du;
  // Adding 1.5 2^52 rounds to the integer n. With 1023 added, the low bits of the sum are the
  // exponent of 2^n.
  const V magic = number(0x1.8p52 + 1023);
  const V shifted = hn::MulAdd(x, number(1.4426950408889634), magic);
  const V n = hn::Sub(shifted, magic);
  r = hn::NegMulAdd(n, number(0.69314718055994530942), x);
  if (rest != 0) r = hn::NegMulAdd(n, number(rest), r);
  return hn::BitCast(Wide(), hn::ShiftLeft<52>(hn::BitCast(du, shifted)));
}
// e^x for |x| <= 700, within a unit in the last place: 2^n (1 + r + r^2 p(r)). The polynomial
// was fitted by weighted least squares.
HWY_INLINE V exp_of(V x) {
  constexpr double kExp[] = {2.5012630976721353e-08, 2.763054890633022e-07, 2.7557545665695277e-06,
                             2.4801492148232468e-05, 0.0001984126955356262, 0.001388888894469216,
                             0.008333333333471901,   0.04166666666652529,   0.1666666666666645,
                             0.5000000000000011};
  V r;
  const V power = split_power(x, 2.3190468138462996e-17, r);
  const V less_one = hn::MulAdd(hn::Mul(r, r), polynomial_of(r, kExp), r);
  return hn::MulAdd(less_one, power, power);
}

// For results in f32. Polynomials were interpolated at Chebyshev nodes.

// e^x for |x| <= 700, with a polynomial on [-ln 2 / 2, ln 2 / 2].
template <size_t n>
HWY_INLINE V near_exp(V x, const double (&terms)[n]) {
  V r;
  const V power = split_power(x, 0, r);
  return hn::Mul(polynomial_of(r, terms), power);
}
HWY_INLINE V near_exp(V x) {  // with relative error 2e-12
  constexpr double kExp[] = {2.4876164022625967e-05, 0.00019915866926782682, 0.0013888821677630362,
                             0.008333266097949614,   0.041666666890957,      0.16666666891045775,
                             0.49999999999797934,    0.9999999999797852,     1.0};
  return near_exp(x, kExp);
}
HWY_INLINE V rough_exp(V x) {  // with relative error 2e-9, a thirtieth of f32's rounding
  constexpr double kExp[] = {0.0013829420599584736, 0.008374771520242168, 0.04166835803297683,
                             0.16666420832117676,   0.4999999149303676,   1.0000000361258992,
                             1.0000000005920213};
  return near_exp(x, kExp);
}
// Splits normal x > 0 into 2^n (1 + r) with 1 + r in [sqrt(1/2), sqrt(2)), and returns n.
HWY_INLINE V split_root(V x, V& r) {
  const hn::RebindToSigned<Wide> di;
  const auto bits = hn::BitCast(di, x);
  const auto shifted = hn::Sub(bits, hn::Set(di, 0x3fe6a09e667f3bcd));
  const auto kept =
      hn::Sub(bits, hn::And(shifted, hn::Set(di, static_cast<int64_t>(0xfffull << 52))));
  r = hn::Sub(hn::BitCast(Wide(), kept), number(1));
  return hn::ConvertTo(Wide(), hn::ShiftRight<52>(shifted));
}
// log(1 + r) for such an r, with relative error 2e-11.
HWY_INLINE V near_log_of_root(V r) {
  constexpr double kLog[] = {0.05235888516923783,  -0.09804420067786203, 0.1004720511888933,
                             -0.09945996186719662, 0.11006038270379548,  -0.12495435324992145,
                             0.1429081173942899,   -0.16667024572009081, 0.19999888139973632,
                             -0.24999992728449305, 0.3333333424920659,   -0.5000000003595171,
                             0.9999999999874651};
  return hn::Mul(r, polynomial_of(r, kLog));
}
// log x for normal x > 0, and log(1 + x) for x > -1 from f32, with relative error 2e-11.
HWY_INLINE V near_log(V x) {
  V r;
  const V n = split_root(x, r);
  return hn::MulAdd(n, number(0.69314718055994530942), near_log_of_root(r));
}
HWY_INLINE V near_log1p(V x) {
  V r;
  const V n = split_root(hn::Add(x, number(1)), r);
  r = hn::IfThenElse(hn::Eq(n, number(0)), x, r);  // without the rounding of 1 + x
  return hn::MulAdd(n, number(0.69314718055994530942), near_log_of_root(r));
}

#define HG_WIDE(Name, valid, value, plain_value)     \
  struct Name {                                      \
    static HWY_INLINE M takes(V x) { return valid; } \
    static HWY_INLINE V of(V x) { return value; }    \
    template <class T>                               \
    static T plain(T x) {                            \
      return plain_value;                            \
    }                                                \
  }

template <class T>
HWY_INLINE V read(const T* from) {
  if constexpr (sizeof(T) == 8)
    return hn::LoadU(Wide(), from);
  else
    return hn::PromoteTo(Wide(), hn::LoadU(Narrow(), from));
}
template <class T>
HWY_INLINE V read(const T* from, int count) {
  if (count == kWide) return read(from);
  HWY_ALIGN T part[kWide] = {};
  for (int i = 0; i < count; ++i) part[i] = from[i];
  return read(part);
}
template <class T>
HWY_INLINE void write(V y, T* to) {
  if constexpr (sizeof(T) == 8)
    hn::StoreU(y, Wide(), to);
  else
    hn::StoreU(hn::DemoteTo(Narrow(), y), Narrow(), to);
}

template <class F, class T, class... From>
void compute(const F& f, T* y, int64_t n, const From*... from) {
  for (int64_t i = 0; i < n; i += kWide) {
    const int count = static_cast<int>(n - i < kWide ? n - i : kWide);
    const auto taken = f.takes(read(from + i, count)...);
    const V result = f.of(read(from + i, count)...);
    if (HWY_LIKELY(count == kWide && hn::AllTrue(Wide(), taken))) {
      write(result, y + i);
      continue;
    }
    HWY_ALIGN T values[kWide];
    HWY_ALIGN double is_taken[kWide];
    write(result, values);
    hn::Store(hn::IfThenElseZero(taken, number(1)), Wide(), is_taken);
    for (int k = 0; k < count; ++k)
      y[i + k] = is_taken[k] != 0 ? values[k] : f.plain(from[i + k]...);
  }
}

#else

#define HG_WIDE(Name, valid, value, plain_value) \
  struct Name {                                  \
    template <class T>                           \
    static T plain(T x) {                        \
      return plain_value;                        \
    }                                            \
  }

template <class F, class T, class... From>
void compute(const F& f, T* y, int64_t n, const From*... from) {
  for (int64_t i = 0; i < n; ++i) y[i] = f.plain(from[i]...);
}

#endif

// A function may have attributes of the op.
template <class F>
HWY_INLINE F function_of(const PointwiseParams& params) {
  if constexpr (std::is_constructible_v<F, const PointwiseParams&>)
    return F(params);
  else
    return F();
}
template <class F, class T>
void unary(void* y, const void* const* x, int64_t n, const PointwiseParams& p) {
  compute(function_of<F>(p), static_cast<T*>(y), n, static_cast<const T*>(x[0]));
}
template <class F, class T>
void binary(void* y, const void* const* x, int64_t n, const PointwiseParams& p) {
  compute(function_of<F>(p), static_cast<T*>(y), n, static_cast<const T*>(x[0]),
          static_cast<const T*>(x[1]));
}

template <class F>
inline constexpr WideBlocks both = {unary<F, float>, unary<F, double>};
template <class F>
inline constexpr WideBlocks only_f64 = {nullptr, unary<F, double>};  // f32: pointwise_simd
template <class F>
inline constexpr WideBlocks only_f32 = {unary<F, float>, nullptr};
template <class F>
inline constexpr WideBlocks of_two = {binary<F, float>, binary<F, double>};
template <class F>
inline constexpr WideBlocks of_two_f32 = {binary<F, float>, nullptr};

}  // namespace

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
