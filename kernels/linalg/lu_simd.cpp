// SPDX-License-Identifier: Apache-2.0
// The loops of lu_simd.h. A vector has neighboring columns.
#include "kernels/linalg/lu_simd.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/lu_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/doubles-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

namespace {

constexpr int kPanelVectors = static_cast<int>(kLuPanel / kDoubles);
constexpr int kTileRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;

// Eliminates `count` columns from column p on, in the columns of the panel, and exchanges whole
// rows.
bool factor_panel(const LuSystem& s, int64_t p, int64_t count) {
  constexpr double kSmallest = 0x1p-1000;  // the inverse is far from overflow
  int64_t pivot = p;
  double most = 0;
  const auto compare = [&](int64_t i, int64_t j) {
    const double size = std::fabs(s.row(i)[j]);
    if (!(size > most)) return;
    most = size;
    pivot = i;
  };
  for (int64_t i = p; i < s.rows; ++i) compare(i, p);
  for (int64_t j = p; j < p + count; ++j) {
    if (!(most > kSmallest)) return false;
    s.pivots[j] = pivot;
    if (pivot != j) std::swap_ranges(s.row(j), s.row(j) + s.width, s.row(pivot));
    const double inverse = 1 / s.row(j)[j];
    double beyond[kLuPanel] = {};  // the pivot's row, without columns that are done
    std::copy(s.row(j) + j + 1, s.row(j) + p + kLuPanel, beyond + (j + 1 - p));
    Doubles u[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) u[v] = load_doubles(beyond + v * kDoubles);
    most = 0;
    for (int64_t i = j + 1; i < s.rows; ++i) {
      double* const row = s.row(i);
      const double f = row[j] * inverse;
      const Doubles factor = set_doubles(f);
      for (int v = 0; v < kPanelVectors; ++v) {
        double* const to = row + p + v * kDoubles;
        store_doubles(neg_mul_add(factor, u[v], load_doubles(to)), to);
      }
      row[j] = f;
      if (j + 1 < p + count) compare(i, j + 1);
    }
  }
  return true;
}

// y[kRows, kVectors] -= a[kRows, depth] b[depth, kVectors]
template <int kRows, int kVectors>
HWY_INLINE void subtract_tile(int64_t depth, const double* a, const double* b, double* y,
                              int64_t stride) {
  Doubles sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[r][v] = load_doubles(y + r * stride + v * kDoubles);
  for (int64_t q = 0; q < depth; ++q, b += stride) {
    Doubles right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) right[v] = load_doubles(b + v * kDoubles);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Doubles left = set_doubles(a[r * stride + q]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] = neg_mul_add(left, right[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store_doubles(sums[r][v], y + r * stride + v * kDoubles);
}
// y[rows, columns] -= a[rows, depth] b[depth, columns], all with the same stride.
template <int kVectors>
HWY_INLINE void subtract_columns(int64_t rows, int64_t depth, const double* a, const double* b,
                                 double* y, int64_t stride) {
  int64_t i = 0;
  for (; i + kTileRows <= rows; i += kTileRows)
    subtract_tile<kTileRows, kVectors>(depth, a + i * stride, b, y + i * stride, stride);
  for (; i + 2 <= rows; i += 2)
    subtract_tile<2, kVectors>(depth, a + i * stride, b, y + i * stride, stride);
  if (i < rows) subtract_tile<1, kVectors>(depth, a + i * stride, b, y + i * stride, stride);
}
void subtract(int64_t rows, int64_t depth, const double* a, const double* b, double* y,
              int64_t columns, int64_t stride) {
  int64_t j = 0;
  for (; j + 2 * kDoubles <= columns; j += 2 * kDoubles)
    subtract_columns<2>(rows, depth, a, b + j, y + j, stride);
  for (; j < columns; j += kDoubles) subtract_columns<1>(rows, depth, a, b + j, y + j, stride);
}

// y[count, columns] becomes a^-1 y for a triangle of a, whose diagonal has the given inverses, or
// is 1 if there are none.
template <bool kUpper>
HWY_INLINE void solve_vector(int64_t count, const double* a, const double* inverse, double* y,
                             int64_t stride) {
  Doubles x[kLuPanel];
  for (int64_t step = 0; step < count; ++step) {
    const int64_t i = kUpper ? count - 1 - step : step;
    Doubles sum = load_doubles(y + i * stride);
    for (int64_t q = kUpper ? i + 1 : 0; q < (kUpper ? count : i); ++q)
      sum = neg_mul_add(set_doubles(a[i * stride + q]), x[q], sum);
    if (inverse != nullptr) sum = mul(sum, set_doubles(inverse[i]));
    x[i] = sum;
    store_doubles(sum, y + i * stride);
  }
}
template <bool kUpper>
void solve_block(bool unit, int64_t count, const double* a, double* y, int64_t columns,
                 int64_t stride) {
  double inverse[kLuPanel] = {};
  for (int64_t i = 0; !unit && i < count; ++i) inverse[i] = 1 / a[i * stride + i];
  for (int64_t j = 0; j < columns; j += kDoubles)
    solve_vector<kUpper>(count, a, unit ? nullptr : inverse, y + j, stride);
}

bool factor(const LuSystem& s) {
  const int64_t end = std::min(s.rows, s.columns);
  for (int64_t p = 0; p < end; p += kLuPanel) {
    const int64_t count = std::min(kLuPanel, end - p), next = p + kLuPanel;
    if (!factor_panel(s, p, count)) return false;
    double* const right = s.row(p) + next;
    solve_block<false>(true, count, s.row(p) + p, right, s.width - next, s.stride);
    subtract(s.rows - p - count, count, s.row(p + count) + p, right, s.row(p + count) + next,
             s.width - next, s.stride);
  }
  return true;
}

void substitute(const LuSystem& s, bool upper, bool unit) {
  const int64_t n = s.rows, width = s.width - LuSystem::padded(s.columns);
  for (int64_t step = 0; step < n; step += kLuPanel) {
    const int64_t p = upper ? (n - 1) / kLuPanel * kLuPanel - step : step;
    const int64_t count = std::min(kLuPanel, n - p);
    const int64_t known = upper ? p + count : 0, depth = upper ? n - known : p;
    if (depth > 0)
      subtract(count, depth, s.row(p) + known, s.side(known), s.side(p), width, s.stride);
    const auto solve = upper ? solve_block<true> : solve_block<false>;
    solve(unit, count, s.row(p) + p, s.side(p), width, s.stride);
  }
}

}  // namespace

constexpr LuTable kLuTable = {factor, substitute, subtract};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const LuTable& lu_table() { return *HG_SIMD_CHOOSE(kLuTable); }

}  // namespace hg::kernels
#endif
