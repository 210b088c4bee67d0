// SPDX-License-Identifier: Apache-2.0
// Casts between f32 and integers, by the rules of Cast in pointwise.cpp. Included once for every
// instruction set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_CAST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_CAST_INL_H_
#undef HG_KERNELS_CAST_INL_H_
#else
#define HG_KERNELS_CAST_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/vectors-inl.h"
#include "kernels/simd/bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

// The bytes 0 and 1: whether x[0] is not 0.
void is_true(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
    const V a = load_part(d, static_cast<const float*>(x[0]) + i, count);
    const auto holds = hn::RebindMask(du, hn::Not(hn::Eq(a, hn::Zero(d))));
    store_low_bytes(hn::IfThenElseZero(holds, hn::Set(du, 1)), count, static_cast<uint8_t*>(y) + i);
  });
}
// Toward zero; the smallest integer for NaN and floats beyond i32.
void to_i32(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  const D d;
  const DI di;
  for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
    const V a = load_part(d, static_cast<const float*>(x[0]) + i, count);
    const auto fits = hn::Lt(hn::Abs(a), spread(0x1p31));
    const auto whole = hn::ConvertTo(di, hn::IfThenElseZero(fits, a));
    const auto smallest = hn::Set(di, std::numeric_limits<int32_t>::min());
    const auto result = hn::IfThenElse(hn::RebindMask(di, fits), whole, smallest);
    store_part(d, hn::BitCast(d, result), count, static_cast<float*>(y) + i);
  });
}

#if HWY_TARGET == HWY_AVX2 && !defined(HG_SMALL)
// Smaller numbers by way of i32, as there is no instruction for i64.
void to_i64(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  const D d;
  const DI di;
  const hn::ScalableTag<int64_t> wide;
  const auto* from = static_cast<const float*>(x[0]);
  auto* to = static_cast<int64_t*>(y);
  int64_t i = 0;
  const auto convert = [&](int64_t end) {
    for (; i < end; ++i)
      to[i] = std::abs(from[i]) < 0x1p63F ? static_cast<int64_t>(from[i])
                                          : std::numeric_limits<int64_t>::min();
  };
  while (i + kLanes <= n) {
    const V a = hn::LoadU(d, from + i);
    if (!hn::AllTrue(d, hn::Lt(hn::Abs(a), spread(0x1p31)))) {
      convert(i + kLanes);
      continue;
    }
    const auto whole = hn::ConvertTo(di, a);
    hn::StoreU(hn::PromoteTo(wide, hn::LowerHalf(whole)), wide, to + i);
    hn::StoreU(hn::PromoteTo(wide, hn::UpperHalf(hn::Half<DI>(), whole)), wide,
               to + i + kLanes / 2);
    i += kLanes;
  }
  convert(n);
}
#elif HWY_TARGET == HWY_AVX3 && !defined(HG_SMALL)
void to_i64(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  const hn::ScalableTag<int64_t> d;
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(d)> narrow;
  constexpr auto kWide = static_cast<int64_t>(hn::MaxLanes(d));
  const auto convert = [&](const float* from, int64_t* to) HWY_ATTR {
    const auto a = hn::PromoteTo(wide, hn::LoadU(narrow, from));
    const auto fits = hn::Lt(hn::Abs(a), hn::Set(wide, 0x1p63));
    const auto whole = hn::ConvertTo(d, hn::IfThenElseZero(fits, a));
    const auto smallest = hn::Set(d, std::numeric_limits<int64_t>::min());
    hn::StoreU(hn::IfThenElse(hn::RebindMask(d, fits), whole, smallest), d, to);
  };
  const auto* from = static_cast<const float*>(x[0]);
  auto* to = static_cast<int64_t*>(y);
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) convert(from + i, to + i);
  if (i == n) return;
  HWY_ALIGN float part[kWide] = {};
  HWY_ALIGN int64_t result[kWide];
  std::copy_n(from + i, n - i, part);
  convert(part, result);
  std::copy_n(result, n - i, to + i);
}
#else
constexpr Block to_i64 = nullptr;
#endif
// On x86, numbers that fit into i32 are converted by way of it: older instruction sets have no
// vectors of i64 to floats.
void from_i64(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  const auto* from = static_cast<const int64_t*>(x[0]);
  auto* to = static_cast<float*>(y);
  int64_t i = 0;
  const auto convert = [&](int64_t end) {
    for (; i < end; ++i) to[i] = static_cast<float>(from[i]);
  };
#if (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3) && !defined(HG_SMALL)
  const hn::ScalableTag<int64_t> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<int32_t, decltype(d)> narrow;
  const hn::RebindToUnsigned<decltype(narrow)> narrow_u;
  const hn::Rebind<float, decltype(d)> floats;
  constexpr auto kWide = static_cast<int64_t>(hn::MaxLanes(d));
  while (i + kWide <= n) {
    const auto a = hn::LoadU(d, from + i);
    const auto low = hn::BitCast(narrow, hn::TruncateTo(narrow_u, hn::BitCast(du, a)));
    if (!hn::AllTrue(d, hn::Eq(hn::PromoteTo(d, low), a))) {
      convert(i + kWide);
      continue;
    }
    hn::StoreU(hn::ConvertTo(floats, low), floats, to + i);
    i += kWide;
  }
#endif
  convert(n);
}

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
