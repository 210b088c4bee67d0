// SPDX-License-Identifier: Apache-2.0
// Vectors of floats: short rows copied and cleared without a call, and partial rows loaded and
// stored. Included once for every instruction set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_ROWS_INL_H_
#undef HG_KERNELS_ROWS_INL_H_
#else
#define HG_KERNELS_ROWS_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

HWY_INLINE void copy_row(const float* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  const D d;
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
  if (j == count) return;
  if (count >= kLanes) {  // the last vector again, shifted
    hn::StoreU(hn::LoadU(d, from + count - kLanes), d, to + count - kLanes);
    return;
  }
  for (; j < count; ++j) to[j] = from[j];
}

HWY_INLINE void clear_row(int64_t count, float* to) {
  const D d;
  const auto zero = hn::Zero(d);
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) hn::StoreU(zero, d, to + j);
#pragma GCC unroll 1
  for (; j < count; ++j) to[j] = 0;
}

// Loads the first `valid` elements and nothing beyond them. Masked if the instruction set's masks
// do not touch elements of other threads.
HWY_INLINE V load_part(D d, const float* from, int valid) {
  if (valid == kLanes) return hn::LoadU(d, from);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(valid)), d, from);
#else
  HWY_ALIGN float part[kLanes] = {};
  for (int i = 0; i < valid; ++i) part[i] = from[i];
  return hn::Load(d, part);
#endif
}
HWY_INLINE void store_part(D d, V x, int valid, float* to) {
  if (valid == kLanes) return hn::StoreU(x, d, to);
#if HWY_TARGET == HWY_AVX3
  hn::BlendedStore(x, hn::FirstN(d, static_cast<size_t>(valid)), d, to);
#else
  HWY_ALIGN float part[kLanes];
  int i = 0;
#if HWY_TARGET == HWY_AVX2  // masked stores are slow on some processors
  const hn::Half<D> half;
  if (valid >= kLanes / 2) {
    hn::StoreU(hn::LowerHalf(half, x), half, to);
    i = kLanes / 2;
    if (valid == i) return;
  }
#endif
  hn::Store(x, d, part);
  for (; i < valid; ++i) to[i] = part[i];
#endif
}

// Calls run.operator()<n>(first) for each n of the rows from `first` to `end`: kMost, then fewer.
template <int kMost, class Run>
HWY_INLINE void by_rows(int64_t first, int64_t end, const Run& run) {
  for (; end - first >= kMost; first += kMost) run.template operator()<kMost>(first);
  if constexpr (kMost > 1) by_rows<kMost - 1>(first, end, run);
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
