// SPDX-License-Identifier: Apache-2.0
// Vectors of doubles, for each instruction set of kernels/simd/simd.h: Highway's, or
// the compiler's where Highway has none, as on WebAssembly and on 32-bit Arm.
#if defined(HG_KERNELS_DOUBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_DOUBLES_INL_H_
#undef HG_KERNELS_DOUBLES_INL_H_
#else
#define HG_KERNELS_DOUBLES_INL_H_
#endif

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
HWY_INLINE Doubles add(Doubles a, Doubles b) { return hn::Add(a, b); }
HWY_INLINE Doubles sub(Doubles a, Doubles b) { return hn::Sub(a, b); }
HWY_INLINE Doubles mul(Doubles a, Doubles b) { return hn::Mul(a, b); }
HWY_INLINE Doubles mul_add(Doubles a, Doubles b, Doubles c) { return hn::MulAdd(a, b, c); }
HWY_INLINE double sum_of_lanes(Doubles v) { return hn::GetLane(hn::SumOfLanes(DoubleTag(), v)); }

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
HWY_INLINE Doubles add(Doubles a, Doubles b) { return a + b; }
HWY_INLINE Doubles sub(Doubles a, Doubles b) { return a - b; }
HWY_INLINE Doubles mul(Doubles a, Doubles b) { return a * b; }
HWY_INLINE Doubles mul_add(Doubles a, Doubles b, Doubles c) { return a * b + c; }
HWY_INLINE double sum_of_lanes(Doubles v) { return v[0] + v[1]; }

#endif

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
