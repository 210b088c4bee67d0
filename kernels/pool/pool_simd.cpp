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

// The rows of x that the windows of a row of y meet, as one, with its padding: `end` elements.
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
  // Loads of the last vector go beyond the padding on the right.
  constexpr int64_t kLine = PoolTable::kMaxColumns + 6 * kLanes;
  HWY_ALIGN float lines[PoolTable::kMaxRows * kLine];
  const WindowRow& first = rows[0];
  const int64_t end = first.outputs * first.stride + first.kernel + 2 * kLanes;
  for (int i = 0; i < count; ++i) fold_rows<F>(rows[i], end, lines + i * kLine);
  for (int i = 0; i < count; ++i) {
    const float* line = lines + i * kLine;
    for (int64_t o = 0; o < first.outputs; o += kLanes) {
      const int valid = static_cast<int>(std::min<int64_t>(kLanes, first.outputs - o));
      V y = first.stride == 2 ? fold<F, 2>(line + 2 * o, first.kernel)
                              : fold<F, 1>(line + o, first.kernel);
      if (first.widths != nullptr)
        y = hn::Div(y, hn::Mul(hn::Set(d, rows[i].height), load_part(d, first.widths + o, valid)));
      store_part(d, y, valid, rows[i].y + o);
    }
  }
}

// A vector of outputs from twice as many neighbours.
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

// Many rows become one line first, so that vectors of outputs go on from one to the next.
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

// The elements at tap k of a vector of windows that begins at `line`.
template <int kStride>
HWY_INLINE V taps(const float* line, int64_t k) {
  const D d;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kStride == 2) {
    V even, odd;
    hn::LoadInterleaved2(d, line + k, even, odd);
    return even;
  }
#endif
  return hn::LoadU(d, line + k);
}

template <int kStride>
void find_places(const WindowRow& r, int32_t first, int32_t* places) {
  const D d;
  const hn::RebindToSigned<D> di;
  using I = hn::Vec<decltype(di)>;
  HWY_ALIGN float line[PoolTable::kMaxColumns + 6 * kLanes];
  HWY_ALIGN float maxima[PoolTable::kMaxColumns + kLanes];
  std::fill(line, line + r.outputs * kStride + r.kernel + 2 * kLanes, -HUGE_VALF);
  const auto padding = static_cast<int32_t>(r.padding);
  const I lanes = hn::Mul(hn::Iota(di, 0), hn::Set(di, kStride));
  for (int64_t i = 0; i < r.rows; ++i) {
    copy_row(r.x + i * r.row_step, r.columns, line + r.padding);
    const int32_t row = first + static_cast<int32_t>(i * r.row_step);
    for (int64_t o = 0; o < r.outputs; o += kLanes) {
      // Of tap 0, in its row; the left padding has none.
      const I column = hn::Add(lanes, hn::Set(di, static_cast<int32_t>(o) * kStride - padding));
      V best = hn::Set(d, -HUGE_VALF);
      I place = hn::Add(hn::Max(column, hn::Zero(di)), hn::Set(di, row));
      if (i > 0) {
        best = hn::LoadU(d, maxima + o);
        place = hn::LoadU(di, places + o);
      }
      for (int64_t k = 0; k < r.kernel; ++k) {
        const V x = taps<kStride>(line + o * kStride, k);
        const auto is_better = hn::Or(hn::Gt(x, best), hn::IsNaN(x));
        best = hn::IfThenElse(is_better, x, best);
        place = hn::IfThenElse(hn::RebindMask(di, is_better),
                               hn::Add(column, hn::Set(di, row + static_cast<int32_t>(k))), place);
      }
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
