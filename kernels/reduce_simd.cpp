// SPDX-License-Identifier: Apache-2.0
// The inner loop of reduce_simd.h.
#include "kernels/reduce_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_simd.cpp"
// clang-format off
#include "kernels/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void add_row(double* HWY_RESTRICT sums, const float* HWY_RESTRICT x, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(d));
  int64_t k = 0;
  for (; k + kStep <= count; k += kStep)
    hn::StoreU(hn::Add(hn::LoadU(d, sums + k), hn::PromoteTo(d, hn::LoadU(narrow, x + k))), d,
               sums + k);
  for (; k < count; ++k) sums[k] += static_cast<double>(x[k]);
}

constexpr ReduceTable kTable = {add_row};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const ReduceTable& reduce_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
