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
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // the others have no instruction for it
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

constexpr HalfTable kTable = {widen_f16, widen_bf16};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const HalfTable& half_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
