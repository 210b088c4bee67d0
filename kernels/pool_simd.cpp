// SPDX-License-Identifier: Apache-2.0
// The inner loops of pool_simd.h.
#include "kernels/pool_simd.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_simd.cpp"
// clang-format off
#include "kernels/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// The larger; NaN where x or best is.
HWY_INLINE V larger(V best, V x) {
  return hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::Ne(x, x)), x, best);
}

// The maxima of vectors of outputs, from a row with its padding.
template <int kStride>
HWY_INLINE V fold(const float* line, int64_t kernel) {
  const D d;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kStride == 2) {
    V even, odd;
    hn::LoadInterleaved2(d, line, even, odd);
    V best = kernel > 1 ? larger(even, odd) : even;
    for (int64_t k = 2; k < kernel; k += 2) {
      hn::LoadInterleaved2(d, line + k, even, odd);
      best = larger(best, even);
      if (k + 1 < kernel) best = larger(best, odd);
    }
    return best;
  }
#endif
  V best = hn::LoadU(d, line);
  for (int64_t k = 1; k < kernel; ++k) best = larger(best, hn::LoadU(d, line + k));
  return best;
}

void max_row(const MaxRow& r) {
  const D d;
  // Loads of the last vector go beyond the padding on the right.
  HWY_ALIGN float line[PoolTable::kMaxColumns + 6 * kLanes];
  const V low = hn::Set(d, -HUGE_VALF);
  const int64_t end = r.outputs * r.stride + r.kernel + 2 * kLanes;
  for (int64_t j = 0; j < r.padding; j += kLanes) hn::StoreU(low, d, line + j);
  float* row = line + r.padding;
  int64_t j = 0;
  for (; j + kLanes <= r.columns; j += kLanes) {
    V best = low;
    for (int64_t i = 0; i < r.rows; ++i)
      best = larger(best, hn::LoadU(d, r.x + i * r.row_step + j));
    hn::StoreU(best, d, row + j);
  }
  if (j < r.columns) {
    const int rest = static_cast<int>(r.columns - j);
    V best = low;
    for (int64_t i = 0; i < r.rows; ++i)
      best = larger(best, load_part(d, r.x + i * r.row_step + j, rest));
    hn::StoreU(best, d, row + j);
  }
  for (j = r.padding + r.columns; j < end; j += kLanes) hn::StoreU(low, d, line + j);
  for (int64_t o = 0; o < r.outputs; o += kLanes) {
    const int valid = static_cast<int>(std::min<int64_t>(kLanes, r.outputs - o));
    const V best = r.stride == 2 ? fold<2>(line + 2 * o, r.kernel) : fold<1>(line + o, r.kernel);
    store_part(d, best, valid, r.y + o);
  }
}

constexpr PoolTable kTable = {max_row};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const PoolTable& pool_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
