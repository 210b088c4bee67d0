// SPDX-License-Identifier: Apache-2.0
// Steps of quantized models: bytes to floats and back, and sums of two of them. Included once for
// every instruction set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_QUANTIZED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_QUANTIZED_INL_H_
#undef HG_KERNELS_QUANTIZED_INL_H_
#else
#define HG_KERNELS_QUANTIZED_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/vectors-inl.h"
#include "kernels/simd/bytes-inl.h"
#include "kernels/simd/quotient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

// Between params.a and params.b; NaN stays.
struct Limited {
  explicit Limited(const PointwiseParams& p) : low(spread(p.a)), high(spread(p.b)) {}
  HWY_INLINE V operator()(V x) const { return smaller_of(high, larger_of(low, x)); }
  V low, high;
};

// Stores floats as bytes, by the rules of Cast in pointwise.cpp: truncated to i32, of which the low
// byte remains.
HWY_INLINE void store_bytes(V x, int count, uint8_t* to) {
  const V fits = hn::IfThenElseZero(hn::Lt(hn::Abs(x), hn::Set(D(), 0x1p31F)), x);
  store_low_bytes(hn::BitCast(hn::RebindToUnsigned<D>(), hn::ConvertTo(DI(), fits)), count, to);
}
template <class T>
void from_bytes(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
    store_part(D(), floats_of(static_cast<const T*>(x[0]) + i, count), count,
               static_cast<float*>(y) + i);
  });
}
void to_bytes(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
    store_bytes(load_part(D(), static_cast<const float*>(x[0]) + i, count), count,
                static_cast<uint8_t*>(y) + i);
  });
}
// An operand of a step of quantization: its first element if all are equal.
template <bool kSame>
class Operand {
 public:
  explicit Operand(const void* x)
      : at_(static_cast<const float*>(x)), first_(hn::Set(D(), at_[0])) {}
  HWY_INLINE V operator()(int64_t i, int count) const {
    if constexpr (kSame) return first_;
    return load_part(D(), at_ + i, count);
  }
  float first() const { return at_[0]; }

 private:
  const float* at_;
  V first_;
};
// Whether each of `count` operands from x[first] on has equal elements.
bool are_same(const PointwiseParams& params, int first, int count) {
  return (~params.same >> first & ((1U << count) - 1)) == 0;
}

template <class T, bool kSame>
HWY_INLINE void dequantize_of(void* y, const void* const* x, int64_t n) {
  const Operand<kSame> zero(x[1]), scale(x[2]);
  for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
    const V level = floats_of(static_cast<const T*>(x[0]) + i, count);
    store_part(D(), hn::Mul(hn::Sub(level, zero(i, count)), scale(i, count)), count,
               static_cast<float*>(y) + i);
  });
}
template <class T>
void dequantize(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  are_same(params, 1, 2) ? dequantize_of<T, true>(y, x, n) : dequantize_of<T, false>(y, x, n);
}

// Approximate quotients, rounded to whole numbers, plus `zero`, between the limits of params, as
// bytes, if no error of a quotient can change the result.
class Levels {
 public:
  // error: of quotients between the limits.
  Levels(const PointwiseParams& params, float zero, double error) {
    constexpr double kMost = 512;
    const double low = params.a - double{zero}, high = params.b - double{zero};
    const auto is_whole = [](double x) { return x == std::trunc(x) && std::abs(x) <= kMost; };
    const bool fits = error < 0.25 && is_whole(low) && is_whole(high) && is_whole(zero);
    low_ = spread(fits ? low : 0);
    high_ = spread(fits ? high : 0);
    zero_ = hn::Set(DI(), fits ? static_cast<int32_t>(zero) : 0);
    most_rest_ = spread(fits ? 0.5 - error : -1);
  }
  // The level, in the low bits of a float. Raises `distance` to that of the quotient.
  HWY_INLINE V rounded(V quotient, V& distance) const {
    const V large = hn::Set(D(), 0x1.8p23F);  // leaves a float no bits for a fraction
    const V limited = hn::Min(hn::Max(quotient, low_), high_), level = hn::Add(limited, large);
    distance = hn::Max(distance, hn::Abs(hn::Sub(limited, hn::Sub(level, large))));
    return level;
  }
  HWY_INLINE bool is_sure(V distance) const {
    return hn::AllTrue(D(), hn::Lt(distance, most_rest_));
  }
  HWY_INLINE void store(V level, int count, uint8_t* to) const {
    store_low_bytes(hn::Add(hn::BitCast(DI(), level), zero_), count, to);
  }

 private:
  V low_, high_, most_rest_;
  hn::Vec<DI> zero_;
};

template <bool kSame>
HWY_INLINE void quantize_of(void* y, const void* const* x, int64_t n,
                            const PointwiseParams& params) {
  const Limited limited(params);
  const Operand<kSame> scale(x[1]), zero(x[2]);
  const float size = std::abs(scale.first());
  // A product with the reciprocal differs from the rounded quotient by less than 2^-22 of it.
  const bool is_near = kSame && size > 0x1p-100F && size < 0x1p100F;
  const Levels levels(params, zero.first(), is_near ? 0x1p-12 : 1);
  const V reciprocal = spread(1 / scale.first());
  for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
    const V number = load_part(D(), static_cast<const float*>(x[0]) + i, count);
    auto* const to = static_cast<uint8_t*>(y) + i;
    V distance = hn::IfThenElse(hn::Eq(number, number), hn::Zero(D()), spread(1));
    const V level = levels.rounded(hn::Mul(number, reciprocal), distance);
    if (kSame && levels.is_sure(distance)) return levels.store(level, count, to);
    const V rounded = hn::Round(quotient_of(number, scale(i, count)));
    store_bytes(limited(hn::Add(rounded, zero(i, count))), count, to);
  });
}
void quantize(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  are_same(params, 1, 2) ? quantize_of<true>(y, x, n, params) : quantize_of<false>(y, x, n, params);
}

template <class A, class B>
void quantized_sum(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  const Limited limited(params);
  const auto number = [&](int k) { return *static_cast<const float*>(x[k]); };
  const V a_zero = spread(number(1)), a_scale = spread(number(2)), b_zero = spread(number(4)),
          b_scale = spread(number(5)), scale = spread(number(6)), zero = spread(number(7));
  // The quotient is a_factor a + b_factor b + start. Errors are those of eight roundings.
  const double divisor = number(6), a_factor = number(2) / divisor, b_factor = number(5) / divisor;
  const double most = std::abs(a_factor) * (256 + std::abs(number(1))) +
                      std::abs(b_factor) * (256 + std::abs(number(4)));
  const bool is_near = std::abs(divisor) > 0x1p-100 && std::abs(divisor) < 0x1p100 &&
                       std::abs(number(2)) < 0x1p100F && std::abs(number(5)) < 0x1p100F;
  const Levels levels(params, number(7), is_near ? most * 0x1p-20 + 0x1p-20 : 1);
  const V a_part = spread(a_factor), b_part = spread(b_factor),
          start = spread(-a_factor * number(1) - b_factor * number(4));
  auto* const to = static_cast<uint8_t*>(y);
  const auto level_of = [&](int64_t i, int count, V& distance) HWY_ATTR {
    const V a = floats_of(static_cast<const A*>(x[0]) + i, count),
            b = floats_of(static_cast<const B*>(x[3]) + i, count);
    return levels.rounded(hn::MulAdd(a, a_part, hn::MulAdd(b, b_part, start)), distance);
  };
  const V one = spread(1);
  const auto store = [&](int64_t i, int count) HWY_ATTR {
    V distance = hn::Zero(D());
    const V level = level_of(i, count, distance);
    if (levels.is_sure(distance)) return levels.store(level, count, to + i);
    const V a = floats_of(static_cast<const A*>(x[0]) + i, count),
            b = floats_of(static_cast<const B*>(x[3]) + i, count);
    // The compiler would round a product and a sum of it at once; it leaves those of MulAdd.
    const V sum =
        hn::MulAdd(hn::Mul(hn::Sub(a, a_zero), a_scale), one, hn::Mul(hn::Sub(b, b_zero), b_scale));
    store_bytes(limited(hn::Add(hn::Round(quotient_of(sum, scale)), zero)), count, to + i);
  };
#if defined(HG_SMALL)
  constexpr int kVectors = 1;
#else
  constexpr int kVectors = 4;  // whose distances are compared at once
#endif
  int64_t i = 0;
  for (; kVectors > 1 && i + kVectors * kLanes <= n; i += kVectors * kLanes) {
    V distance = hn::Zero(D()), level[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) level[v] = level_of(i + v * kLanes, kLanes, distance);
    const bool is_sure = levels.is_sure(distance);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors && is_sure; ++v)
      levels.store(level[v], kLanes, to + i + v * kLanes);
#pragma GCC unroll 1
    for (int v = 0; v < kVectors && !is_sure; ++v) store(i + v * kLanes, kLanes);
  }
  for (; i < n; i += kLanes) store(i, static_cast<int>(std::min<int64_t>(kLanes, n - i)));
}

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
