// SPDX-License-Identifier: Apache-2.0
// Loads vectors of 16-bit floats, and of 8-bit integers, as f32. Included once for every
// instruction set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_HALVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_HALVES_INL_H_
#undef HG_KERNELS_HALVES_INL_H_
#else
#define HG_KERNELS_HALVES_INL_H_
#endif

#include "hg/tensor.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

HWY_INLINE V load_floats(D d, const float* from) { return hn::LoadU(d, from); }
HWY_INLINE V load_floats(D d, const Half* from) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // others have no instruction for it
  const hn::Rebind<hwy::float16_t, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  HWY_ALIGN float wide[kLanes];
  for (int i = 0; i < kLanes; ++i) wide[i] = static_cast<float>(from[i]);
  return hn::Load(d, wide);
#endif
}
HWY_INLINE V load_floats(D d, const BFloat16* from) {
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<uint16_t, D> narrow;
  const auto half = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, half)));
}

HWY_INLINE V load_floats(D d, const int8_t* from) {
  const hn::Rebind<int8_t, D> narrow;
  const hn::RebindToSigned<D> wide;
  return hn::ConvertTo(d, hn::PromoteTo(wide, hn::LoadU(narrow, from)));
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
