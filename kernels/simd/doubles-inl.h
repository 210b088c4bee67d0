// SPDX-License-Identifier: Apache-2.0
// Vectors of doubles, for each instruction set of kernels/simd/simd.h: Highway's, or the compiler's
// on targets where Highway has none, such as WebAssembly and 32-bit Arm.
#if defined(HG_KERNELS_DOUBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_DOUBLES_INL_H_
#undef HG_KERNELS_DOUBLES_INL_H_
#else
#define HG_KERNELS_DOUBLES_INL_H_
#endif

#include <cmath>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_HAVE_FLOAT64

using DoubleTag = hn::ScalableTag<double>;
using Doubles = hn::Vec<DoubleTag>;
constexpr int64_t kDoubles = static_cast<int64_t>(hn::MaxLanes(DoubleTag()));  // in a vector

HWY_INLINE Doubles no_doubles() { return hn::Zero(DoubleTag()); }
HWY_INLINE Doubles set_doubles(double value) { return hn::Set(DoubleTag(), value); }
HWY_INLINE Doubles load_doubles(const double* from) { return hn::LoadU(DoubleTag(), from); }
HWY_INLINE void store_doubles(Doubles v, double* to) { hn::StoreU(v, DoubleTag(), to); }
HWY_INLINE Doubles widen(const float* from) {
  return hn::PromoteTo(DoubleTag(), hn::LoadU(hn::Rebind<float, DoubleTag>(), from));
}
HWY_INLINE Doubles widen(const double* from) { return load_doubles(from); }
HWY_INLINE Doubles add(Doubles a, Doubles b) { return hn::Add(a, b); }
HWY_INLINE Doubles sub(Doubles a, Doubles b) { return hn::Sub(a, b); }
HWY_INLINE Doubles mul(Doubles a, Doubles b) { return hn::Mul(a, b); }
HWY_INLINE Doubles mul_add(Doubles a, Doubles b, Doubles c) { return hn::MulAdd(a, b, c); }
HWY_INLINE Doubles neg_mul_add(Doubles a, Doubles b, Doubles c) {  // c - a b
  return hn::NegMulAdd(a, b, c);
}
HWY_INLINE double sum_of_lanes(Doubles v) { return hn::GetLane(hn::SumOfLanes(DoubleTag(), v)); }
HWY_INLINE Doubles max_of(Doubles a, Doubles b) { return hn::Max(a, b); }
HWY_INLINE double max_of_lanes(Doubles v) { return hn::GetLane(hn::MaxOfLanes(DoubleTag(), v)); }

// e^x for x <= 0 or NaN, to one unit in the last place; 0 below -708, near the end of f64's range.
HWY_INLINE Doubles exp_of_falling(Doubles x) {
  const DoubleTag d;
  const hn::RebindToUnsigned<DoubleTag> du;
  // x = n ln 2 + r. Adding 1.5 2^52 rounds to the integer n. With 1023 added, the low bits of the
  // sum are the exponent of 2^n.
  const Doubles magic = hn::Set(d, 6755399441055744.0 + 1023.0);
  const Doubles shifted = hn::MulAdd(x, hn::Set(d, 1.4426950408889634), magic);
  const Doubles power = hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(du, shifted)));
  const Doubles n = hn::Sub(shifted, magic);
  // ln 2 in two parts; n times the first is exact.
  Doubles r = hn::NegMulAdd(n, hn::Set(d, 6.93147180369123816490e-01), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.90821492927058770002e-10), r);
  // The series of e^r on [-ln 2 / 2, ln 2 / 2], up to r^13 / 13!: relative error 4e-18.
  Doubles p = hn::Set(d, 1 / 6227020800.0);
  for (const double factorial : {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0,
                                 720.0, 120.0, 24.0, 6.0, 2.0})
    p = hn::MulAdd(p, r, hn::Set(d, 1 / factorial));
  p = hn::Add(hn::MulAdd(hn::Mul(p, r), r, r), hn::Set(d, 1.0));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -708.0)), hn::Mul(p, power));
}

#else

constexpr int64_t kDoubles = 2;
using Doubles = double __attribute__((vector_size(16)));

HWY_INLINE Doubles no_doubles() { return Doubles{0, 0}; }
HWY_INLINE Doubles set_doubles(double value) { return Doubles{value, value}; }
HWY_INLINE Doubles load_doubles(const double* from) { return Doubles{from[0], from[1]}; }
HWY_INLINE void store_doubles(Doubles v, double* to) { std::memcpy(to, &v, sizeof v); }
HWY_INLINE Doubles widen(const float* from) {
  return Doubles{static_cast<double>(from[0]), static_cast<double>(from[1])};
}
HWY_INLINE Doubles widen(const double* from) { return load_doubles(from); }
HWY_INLINE Doubles add(Doubles a, Doubles b) { return a + b; }
HWY_INLINE Doubles sub(Doubles a, Doubles b) { return a - b; }
HWY_INLINE Doubles mul(Doubles a, Doubles b) { return a * b; }
HWY_INLINE Doubles mul_add(Doubles a, Doubles b, Doubles c) { return a * b + c; }
HWY_INLINE Doubles neg_mul_add(Doubles a, Doubles b, Doubles c) { return c - a * b; }
HWY_INLINE double sum_of_lanes(Doubles v) { return v[0] + v[1]; }
HWY_INLINE Doubles max_of(Doubles a, Doubles b) { return a > b ? a : b; }
HWY_INLINE double max_of_lanes(Doubles v) { return v[0] > v[1] ? v[0] : v[1]; }
HWY_INLINE Doubles exp_of_falling(Doubles x) { return Doubles{std::exp(x[0]), std::exp(x[1])}; }

#endif

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
