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

using Sums = hn::ScalableTag<double>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Sums()));

// kVectors vectors of sums stay in registers.
template <int kVectors>
HWY_INLINE void add_columns(double* HWY_RESTRICT sums, const float* HWY_RESTRICT x, int64_t rows,
                            int64_t step) {
  const Sums d;
  const hn::Rebind<float, Sums> narrow;
  hn::Vec<Sums> total[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) total[v] = hn::LoadU(d, sums + v * kLanes);
  for (int64_t i = 0; i < rows; ++i, x += step) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      total[v] = hn::Add(total[v], hn::PromoteTo(d, hn::LoadU(narrow, x + v * kLanes)));
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) hn::StoreU(total[v], d, sums + v * kLanes);
}

void add_rows(double* sums, const float* x, int64_t rows, int64_t step, int64_t count) {
  int64_t k = 0;
  for (; k + 8 * kLanes <= count; k += 8 * kLanes) add_columns<8>(sums + k, x + k, rows, step);
  for (; k + kLanes <= count; k += kLanes) add_columns<1>(sums + k, x + k, rows, step);
  for (; k < count; ++k)
    for (int64_t i = 0; i < rows; ++i) sums[k] += static_cast<double>(x[i * step + k]);
}

constexpr ReduceTable kTable = {add_rows};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const ReduceTable& reduce_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
