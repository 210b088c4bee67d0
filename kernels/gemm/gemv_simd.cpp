// SPDX-License-Identifier: Apache-2.0
// The loops of gemv_simd.h: as many rows and columns of y at once as fit in registers.
#include "kernels/gemm/gemv_simd.h"

#include "kernels/saves_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemv_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/halves-inl.h"
#include "lib/table/holds.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

constexpr int kMostRows = kSavesCode ? 2 : 4;  // at once; more of them read b from the cache again

// Rounds exactly as often as the vector code does.
HWY_INLINE float mul_add(float a, float b, float sum) {
  const hn::CappedTag<float, 1> one;
  return hn::GetLane(hn::MulAdd(hn::Set(one, a), hn::Set(one, b), hn::Set(one, sum)));
}

// Adds the products of [first, k) to y one by one: the remainder of dots. A separate function,
// because inlined copies would be large.
template <class B>
HWY_NOINLINE void add_rest(int rows, int columns, int64_t first, int64_t k, const float* a,
                           int64_t a_row, const B* b, int64_t b_row, float* y, int64_t y_row) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float sum = y[i * y_row + j];
      for (int64_t p = first; p < k; ++p)
        sum = mul_add(a[i * a_row + p], static_cast<float>(b[j * b_row + p]), sum);
      y[i * y_row + j] = sum;
    }
}

// Rows of b are prefetched so many bytes ahead, unless that would be too far for the cache.
constexpr int64_t kFetchAhead = 8192, kFetchMost = 1 << 17;
// The distance in elements, for columns that are read at once.
template <class B>
int64_t fetch_ahead(int columns, int64_t b_row) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(B));
  const int64_t block = columns * b_row;
  if (block <= 0 || block * kSize > kFetchMost) return kFetchAhead / kSize;
  return (kFetchAhead / kSize + block - 1) / block * block;
}

// kRows x kColumns dot products at once.
template <int kRows, int kColumns, class B>
HWY_INLINE void dots_of(int64_t k, const float* HWY_RESTRICT a, int64_t a_row, const B* b,
                        int64_t b_row, float* y, int64_t y_row) {
  const D d;
  V sums[kRows][kColumns];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) sums[i][j] = hn::Zero(d);
  const auto step = [&](int64_t p) HWY_ATTR {
    V left[kRows];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) left[i] = hn::LoadU(d, a + i * a_row + p);
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      const V right = load_floats(d, b + (j * b_row + p));
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sums[i][j] = hn::MulAdd(left[i], right, sums[i][j]);
    }
  };
  int64_t p = 0;
#if !defined(HG_SMALL)
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(B));
  static_assert(kLine % kLanes == 0);
  const int64_t ahead = fetch_ahead<B>(kColumns, b_row);
  for (; p + kLine <= k; p += kLine) {
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) __builtin_prefetch(b + (j * b_row + p + ahead), 0, 2);
#pragma GCC unroll 4
    for (int64_t q = 0; q < kLine; q += kLanes) step(p + q);
  }
#endif
  for (; p + kLanes <= k; p += kLanes) step(p);
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j)
      y[i * y_row + j] = hn::GetLane(hn::SumOfLanes(d, sums[i][j]));
  if (p < k) add_rest(kRows, kColumns, p, k, a, a_row, b, b_row, y, y_row);
}

template <int kRows, class B>
void dots_rows(int64_t columns, int64_t k, const float* a, int64_t a_row, const B* b, int64_t b_row,
               float* y, int64_t y_row) {
  constexpr int kColumns = kRows == 1 ? 8 : kRows == 2 ? 4 : kRows == 3 ? 3 : 2;
  int64_t j = 0;
  for (; j + kColumns <= columns; j += kColumns)
    dots_of<kRows, kColumns>(k, a, a_row, b + j * b_row, b_row, y + j, y_row);
  for (; j < columns; ++j) dots_of<kRows, 1>(k, a, a_row, b + j * b_row, b_row, y + j, y_row);
}

template <class B>
void dots(int64_t rows, int64_t columns, int64_t k, const float* a, int64_t a_row, const void* b,
          int64_t b_row, float* y, int64_t y_row) {
  by_rows<kMostRows>(0, rows, [&]<int kRows>(int64_t i) {
    dots_rows<kRows>(columns, k, a + i * a_row, a_row, static_cast<const B*>(b), b_row,
                     y + i * y_row, y_row);
  });
}

// As add_rest, for distances.
HWY_NOINLINE void add_rest_of_distances(int columns, int64_t first, int64_t k, const float* a,
                                        const float* b, int64_t b_row, float* y) {
  for (int j = 0; j < columns; ++j)
    for (int64_t p = first; p < k; ++p)
      y[j] += (a[p] - b[j * b_row + p]) * (a[p] - b[j * b_row + p]);
}

// Sums of squared differences of one row and kColumns others.
template <int kColumns>
HWY_INLINE void distances_of(int64_t k, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                             int64_t b_row, float* y) {
  const D d;
  V sums[kColumns];
#pragma GCC unroll 4
  for (int j = 0; j < kColumns; ++j) sums[j] = hn::Zero(d);
  int64_t p = 0;
  for (; p + kLanes <= k; p += kLanes) {
    const V left = hn::LoadU(d, a + p);
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      const V difference = hn::Sub(left, hn::LoadU(d, b + j * b_row + p));
      sums[j] = hn::MulAdd(difference, difference, sums[j]);
    }
  }
  for (int j = 0; j < kColumns; ++j) y[j] = hn::GetLane(hn::SumOfLanes(d, sums[j]));
  if (p < k) add_rest_of_distances(kColumns, p, k, a, b, b_row, y);
}

void distances(int64_t columns, int64_t k, const float* a, const float* b, int64_t b_row,
               float* y) {
  int64_t j = 0;
  for (; j + 4 <= columns; j += 4) distances_of<4>(k, a, b + j * b_row, b_row, y + j);
  for (; j < columns; ++j) distances_of<1>(k, a, b + j * b_row, b_row, y + j);
}

template <int kRows, int kVectors, class B>
HWY_INLINE void combine_of(int64_t k, const float* HWY_RESTRICT a, int64_t a_row, int64_t a_col,
                           const B* b, int64_t b_row, float* y, int64_t y_row) {
  const D d;
  V sums[kRows][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
  for (int64_t p = 0; p < k; ++p) {
    V factor[kRows];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) factor[i] = hn::Set(d, a[i * a_row + p * a_col]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const V right = load_floats(d, b + (p * b_row + v * kLanes));
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sums[i][v] = hn::MulAdd(factor[i], right, sums[i][v]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], d, y + i * y_row + v * kLanes);
}

// The last columns of combine, which do not fill a vector.
template <class B>
HWY_NOINLINE void combine_rest(int rows, int64_t columns, int64_t k, const float* a, int64_t a_row,
                               int64_t a_col, const B* b, int64_t b_row, float* y, int64_t y_row) {
  for (int64_t j = 0; j < columns; ++j)
    for (int i = 0; i < rows; ++i) {
      float sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum = mul_add(a[i * a_row + p * a_col], static_cast<float>(b[p * b_row + j]), sum);
      y[i * y_row + j] = sum;
    }
}

template <int kRows, class B>
void combine_rows(int64_t columns, int64_t k, const float* a, int64_t a_row, int64_t a_col,
                  const B* b, int64_t b_row, float* y, int64_t y_row) {
  constexpr int kVectors = kRows == 1 ? 8 : kRows == 2 ? 4 : kRows == 3 ? 3 : 2;
  int64_t j = 0;
  for (; j + kVectors * kLanes <= columns; j += kVectors * kLanes)
    combine_of<kRows, kVectors>(k, a, a_row, a_col, b + j, b_row, y + j, y_row);
  for (; j + kLanes <= columns; j += kLanes)
    combine_of<kRows, 1>(k, a, a_row, a_col, b + j, b_row, y + j, y_row);
  if (j < columns) combine_rest(kRows, columns - j, k, a, a_row, a_col, b + j, b_row, y + j, y_row);
}

template <class B>
void combine(int64_t rows, int64_t columns, int64_t k, const float* a, int64_t a_row, int64_t a_col,
             const void* b, int64_t b_row, float* y, int64_t y_row) {
  by_rows<kMostRows>(0, rows, [&]<int kRows>(int64_t i) {
    combine_rows<kRows>(columns, k, a + i * a_row, a_row, a_col, static_cast<const B*>(b), b_row,
                        y + i * y_row, y_row);
  });
}

template <class B, DType kDType>
constexpr GemvTable table_of() {
  GemvTable loops;
  if constexpr (holds(kDType)) loops = {dots<B>, combine<B>};
  return loops;
}
constexpr GemvTable kFloats = {dots<float>, combine<float>, distances};
constexpr GemvTable kHalves = table_of<Half, DType::f16>();
constexpr GemvTable kBFloats = table_of<BFloat16, DType::bf16>();

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const GemvTable& gemv_table(DType b) {
  if (b == f16) return *HG_SIMD_CHOOSE(kHalves);
  if (b == bf16) return *HG_SIMD_CHOOSE(kBFloats);
  return *HG_SIMD_CHOOSE(kFloats);
}

}  // namespace hg::kernels
#endif
