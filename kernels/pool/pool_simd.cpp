// SPDX-License-Identifier: Apache-2.0
// The inner loops of pool_simd.h.
#include "kernels/pool/pool_simd.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/pool_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/rows-inl.h"
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

// Calls f(i, element i of a vector of windows that begin at `line` and are kStride apart) for i <
// kStride.
template <int kStride, class F>
HWY_INLINE void for_strided(const float* line, const F& f) {
#if HWY_TARGET != HWY_SCALAR
  V a, b, c, d;
  if constexpr (kStride == 4) {
    hn::LoadInterleaved4(D(), line, a, b, c, d);
    f(0, a), f(1, b), f(2, c), f(3, d);
    return;
  }
  if constexpr (kStride == 2) {
    hn::LoadInterleaved2(D(), line, a, b);
    f(0, a), f(1, b);
    return;
  }
#endif
  for (int i = 0; i < kStride; ++i) f(i, hn::LoadU(D(), line + i));
}

// A row with its padding. Loads for the last vector of windows read beyond it.
constexpr int64_t kLine = PoolTable::kMaxColumns + 9 * kLanes;
HWY_INLINE int64_t read_end(const WindowRow& r) {
  return r.outputs * r.stride + r.kernel + 2 * r.stride * kLanes;
}

// Vectors of outputs from a row with its padding.
template <class F, int kStride>
HWY_INLINE V fold(const float* line, int64_t kernel) {
  V y = F::start();
  for (int64_t k = 0; k < kernel; k += kStride)
    for_strided<kStride>(line + k, [&](int i, V x) HWY_ATTR {
      if (k + i < kernel) y = F::fold(y, x);
    });
  return y;
}

// The rows of x that the windows of a row of y read, folded into one, with padding: `end` elements.
template <class F>
HWY_INLINE void fold_rows(const WindowRow& r, int64_t end, float* line) {
  const D d;
  const V start = F::start();
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
}

template <class F>
void window_rows(const WindowRow* rows, int count) {
  const D d;
  HWY_ALIGN float lines[PoolTable::kMaxRows * kLine];
  const WindowRow& first = rows[0];
  for (int i = 0; i < count; ++i) fold_rows<F>(rows[i], read_end(first), lines + i * kLine);
  for (int i = 0; i < count; ++i) {
    const float* line = lines + i * kLine;
    for (int64_t o = 0; o < first.outputs; o += kLanes, line += first.stride * kLanes) {
      const int valid = static_cast<int>(std::min<int64_t>(kLanes, first.outputs - o));
      V y = first.stride == 1   ? fold<F, 1>(line, first.kernel)
            : first.stride == 2 ? fold<F, 2>(line, first.kernel)
                                : fold<F, 4>(line, first.kernel);
      if (first.widths != nullptr)
        y = hn::Div(y, hn::Mul(hn::Set(d, rows[i].height), load_part(d, first.widths + o, valid)));
      store_part(d, y, valid, rows[i].y + o);
    }
  }
}

// A vector of outputs from twice as many neighbors.
template <class F>
HWY_INLINE V fold_pairs(const float* line) {
#if HWY_TARGET == HWY_SCALAR
  return F::fold(hn::LoadU(D(), line), hn::LoadU(D(), line + 1));
#else
  V even, odd;
  hn::LoadInterleaved2(D(), line, even, odd);
  return F::fold(even, odd);
#endif
}

// Folds many rows into one line first, so that vectors of outputs continue from one row to the
// next.
template <class F, bool kMean>
void pair_rows(const float* x, int64_t rows, int64_t outputs, float* y) {
  const D d;
  HWY_ALIGN float line[PoolTable::kMaxColumns + 2 * kLanes];
  const int64_t columns = 2 * outputs, most = PoolTable::kMaxColumns / columns;
  const float* const end = x + rows * 2 * columns;
  for (int64_t r = 0; r < rows; r += most) {
    const int64_t count = std::min(most, rows - r);
    for (int64_t i = 0; i < count; ++i, x += 2 * columns)
      for (int64_t j = 0; j < columns; j += kLanes) {
        const float* const below = x + columns + j;
        const bool is_inside = end - below >= kLanes;
        const int valid = static_cast<int>(std::min<int64_t>(kLanes, columns - j));
        const V a = is_inside ? hn::LoadU(d, x + j) : load_part(d, x + j, valid);
        const V b = is_inside ? hn::LoadU(d, below) : load_part(d, below, valid);
        hn::StoreU(F::fold(F::fold(F::start(), a), b), d, line + i * columns + j);
      }
    for (int64_t o = 0; o < count * outputs; o += kLanes) {
      V z = fold_pairs<F>(line + 2 * o);
      if (kMean) z = hn::Mul(z, hn::Set(d, 0.25f));
      store_part(d, z, static_cast<int>(std::min<int64_t>(kLanes, count * outputs - o)), y + o);
    }
    y += count * outputs;
  }
}

template <int kStride>
void find_places(const WindowRow& r, int32_t first, int32_t* places) {
  const D d;
  const hn::RebindToSigned<D> di;
  using I = hn::Vec<decltype(di)>;
  HWY_ALIGN float line[kLine];
  HWY_ALIGN float maxima[PoolTable::kMaxColumns + kLanes];
  std::fill(line, line + read_end(r), -HUGE_VALF);
  const auto padding = static_cast<int32_t>(r.padding);
  const I lanes = hn::Mul(hn::Iota(di, 0), hn::Set(di, kStride));
  for (int64_t i = 0; i < r.rows; ++i) {
    copy_row(r.x + i * r.row_step, r.columns, line + r.padding);
    const int32_t row = first + static_cast<int32_t>(i * r.row_step);
    for (int64_t o = 0; o < r.outputs; o += kLanes) {
      // For tap 0 in its row; the left padding has none.
      const I column = hn::Add(lanes, hn::Set(di, static_cast<int32_t>(o) * kStride - padding));
      V best = hn::Set(d, -HUGE_VALF);
      I place = hn::Add(hn::Max(column, hn::Zero(di)), hn::Set(di, row));
      if (i > 0) {
        best = hn::LoadU(d, maxima + o);
        place = hn::LoadU(di, places + o);
      }
      for (int64_t k = 0; k < r.kernel; k += kStride)
        for_strided<kStride>(line + o * kStride + k, [&](int i, V x) HWY_ATTR {
          if (k + i >= r.kernel) return;
          const auto is_better = hn::Or(hn::Gt(x, best), hn::IsNaN(x));
          best = hn::IfThenElse(is_better, x, best);
          const I at = hn::Add(column, hn::Set(di, row + static_cast<int32_t>(k) + i));
          place = hn::IfThenElse(hn::RebindMask(di, is_better), at, place);
        });
      hn::StoreU(best, d, maxima + o);
      hn::StoreU(place, di, places + o);
    }
  }
}

void max_places(const WindowRow& row, int32_t first, int32_t* places) {
  (row.stride == 2 ? find_places<2> : find_places<1>)(row, first, places);
}

constexpr PoolTable kTable = {window_rows<Max>, window_rows<Sum>, pair_rows<Max, false>,
                              pair_rows<Sum, true>, max_places};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const PoolTable& pool_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
