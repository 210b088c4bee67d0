// SPDX-License-Identifier: Apache-2.0
// The loops of gather_simd.h. The last vector of a row ends with the row, and overlaps the one
// before it.
#include "kernels/simd/gather_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/gather_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr auto kWords = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<uint32_t>()));

void copy(const uint32_t* from, int64_t step, int64_t rows, int64_t n, uint32_t* to) {
  const hn::ScalableTag<uint32_t> d;
  const int64_t last = n - kWords;
  for (int64_t r = 0; r < rows; ++r, from += step, to += n) {
    for (int64_t i = 0; i < last; i += kWords) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    hn::StoreU(hn::LoadU(d, from + last), d, to + last);
  }
}

void fill(const uint32_t* from, int64_t step, int64_t rows, int64_t n, uint32_t* to) {
  const hn::ScalableTag<uint32_t> d;
  const int64_t last = n - kWords;
  for (int64_t r = 0; r < rows; ++r, from += step, to += n) {
    const auto value = hn::Set(d, *from);
    for (int64_t i = 0; i < last; i += kWords) hn::StoreU(value, d, to + i);
    hn::StoreU(value, d, to + last);
  }
}

constexpr GatherTable kTable = {kWords, copy, fill};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const GatherTable& gather_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
