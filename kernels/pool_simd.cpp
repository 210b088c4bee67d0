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

struct Max {  // NaN where one is NaN
  static HWY_INLINE V start() { return hn::Set(D(), -HUGE_VALF); }
  static HWY_INLINE V fold(V best, V x) {
    return hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::IsNaN(x)), x, best);
  }
};
struct Sum {
  static HWY_INLINE V start() { return hn::Zero(D()); }
  static HWY_INLINE V fold(V sum, V x) { return hn::Add(sum, x); }
};

// Vectors of outputs, from a row with its padding.
template <class F, int kStride>
HWY_INLINE V fold(const float* line, int64_t kernel) {
  const D d;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kStride == 2) {
    V even, odd;
    hn::LoadInterleaved2(d, line, even, odd);
    V y = kernel > 1 ? F::fold(even, odd) : even;
    for (int64_t k = 2; k < kernel; k += 2) {
      hn::LoadInterleaved2(d, line + k, even, odd);
      y = F::fold(y, even);
      if (k + 1 < kernel) y = F::fold(y, odd);
    }
    return y;
  }
#endif
  V y = hn::LoadU(d, line);
  for (int64_t k = 1; k < kernel; ++k) y = F::fold(y, hn::LoadU(d, line + k));
  return y;
}

template <class F>
void window_row(const WindowRow& r) {
  const D d;
  // Loads of the last vector go beyond the padding on the right.
  HWY_ALIGN float line[PoolTable::kMaxColumns + 6 * kLanes];
  const V start = F::start();
  const int64_t end = r.outputs * r.stride + r.kernel + 2 * kLanes;
  for (int64_t j = 0; j < r.padding; j += kLanes) hn::StoreU(start, d, line + j);
  float* row = line + r.padding;
  int64_t j = 0;
  for (; j + kLanes <= r.columns; j += kLanes) {
    V y = start;
    for (int64_t i = 0; i < r.rows; ++i) y = F::fold(y, hn::LoadU(d, r.x + i * r.row_step + j));
    hn::StoreU(y, d, row + j);
  }
  if (j < r.columns) {
    const int rest = static_cast<int>(r.columns - j);
    V y = start;
    for (int64_t i = 0; i < r.rows; ++i)
      y = F::fold(y, load_part(d, r.x + i * r.row_step + j, rest));
    hn::StoreU(y, d, row + j);
  }
  for (j = r.padding + r.columns; j < end; j += kLanes) hn::StoreU(start, d, line + j);
  for (int64_t o = 0; o < r.outputs; o += kLanes) {
    const int valid = static_cast<int>(std::min<int64_t>(kLanes, r.outputs - o));
    const V y = r.stride == 2 ? fold<F, 2>(line + 2 * o, r.kernel) : fold<F, 1>(line + o, r.kernel);
    store_part(d, y, valid, r.y + o);
  }
}

constexpr PoolTable kTable = {window_row<Max>, window_row<Sum>};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const PoolTable& pool_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
