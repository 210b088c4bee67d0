// SPDX-License-Identifier: Apache-2.0
// The loops of half_simd.h.
#include "kernels/simd/half_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/half_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

void widen_f16(int64_t count, const Half* from, float* to) {
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // others have no instruction for it
  const D d;
  const hn::Rebind<hwy::float16_t, D> narrow;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(
        hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from + i))), d,
        to + i);
#endif
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

void widen_bf16(int64_t count, const BFloat16* from, float* to) {
  const D d;
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<uint16_t, D> narrow;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto half = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from + i));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, half))), d, to + i);
  }
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow_f16(int64_t count, const float* from, Half* to) {
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const D d;
  const hn::Rebind<hwy::float16_t, D> narrow;
  for (; i + kLanes <= count; i += kLanes) {
    const V v = hn::LoadU(d, from + i);
    if (hn::AllFalse(d, hn::IsNaN(v)))
      hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<hwy::float16_t*>(to + i));
    else  // the instruction preserves NaN bits that Half does not
      for (int64_t k = i; k < i + kLanes; ++k) to[k] = Half(from[k]);
  }
#endif
  for (; i < count; ++i) to[i] = Half(from[i]);
}

void narrow_bf16(int64_t count, const float* from, BFloat16* to) {
  const D d;
  const hn::RebindToSigned<D> bits;
  const hn::Rebind<uint16_t, D> narrow;
  const auto one = hn::Set(bits, 1), half = hn::Set(bits, 0x7fff), quiet = hn::Set(bits, 0x40),
             low = hn::Set(bits, 0xffff);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const V v = hn::LoadU(d, from + i);
    const auto x = hn::BitCast(bits, v), high = hn::ShiftRight<16>(x);
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(x, half), hn::And(high, one)));
    const auto nan = hn::RebindMask(bits, hn::IsNaN(v));
    const auto kept = hn::And(hn::IfThenElse(nan, hn::Or(high, quiet), rounded), low);
    hn::StoreU(hn::DemoteTo(narrow, kept), narrow, reinterpret_cast<uint16_t*>(to + i));
  }
  for (; i < count; ++i) to[i] = BFloat16(from[i]);
}

constexpr HalfTable kTable = {widen_f16, widen_bf16, narrow_f16, narrow_bf16};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const HalfTable& half_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
