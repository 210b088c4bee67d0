// SPDX-License-Identifier: Apache-2.0
// Rows of floats copied and cleared without a call, for rows of a few vectors. Included once for
// every instruction set, as kernels/simd.h describes.
#if defined(HG_KERNELS_CONV_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_CONV_ROWS_INL_H_
#undef HG_KERNELS_CONV_ROWS_INL_H_
#else
#define HG_KERNELS_CONV_ROWS_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

HWY_INLINE void copy_row(const float* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> d;
  constexpr int64_t kStep = static_cast<int64_t>(hwy::HWY_NAMESPACE::MaxLanes(d));
  int64_t j = 0;
  for (; j + kStep <= count; j += kStep)
    hwy::HWY_NAMESPACE::StoreU(hwy::HWY_NAMESPACE::LoadU(d, from + j), d, to + j);
  if (j == count) return;
  if (count >= kStep) {  // the last vector again, shifted
    hwy::HWY_NAMESPACE::StoreU(hwy::HWY_NAMESPACE::LoadU(d, from + count - kStep), d,
                               to + count - kStep);
    return;
  }
  for (; j < count; ++j) to[j] = from[j];
}

HWY_INLINE void clear_row(int64_t count, float* to) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> d;
  constexpr int64_t kStep = static_cast<int64_t>(hwy::HWY_NAMESPACE::MaxLanes(d));
  const auto zero = hwy::HWY_NAMESPACE::Zero(d);
  int64_t j = 0;
  for (; j + kStep <= count; j += kStep) hwy::HWY_NAMESPACE::StoreU(zero, d, to + j);
#pragma GCC unroll 1
  for (; j < count; ++j) to[j] = 0;
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
