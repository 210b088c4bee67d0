// SPDX-License-Identifier: Apache-2.0
// The inner loops of reduce_simd.h.
#include "kernels/reduce/reduce_simd.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/reduce_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/doubles-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

constexpr int64_t kLanes = kDoubles;

// kVectors vectors of sums stay in registers.
template <int kVectors>
HWY_INLINE void add_columns(double* HWY_RESTRICT sums, const float* HWY_RESTRICT x, int64_t rows,
                            int64_t step) {
  Doubles total[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) total[v] = load_doubles(sums + v * kLanes);
  for (int64_t i = 0; i < rows; ++i, x += step) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) total[v] = add(total[v], widen(x + v * kLanes));
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) store_doubles(total[v], sums + v * kLanes);
}

void add_rows(double* sums, const float* x, int64_t rows, int64_t step, int64_t count) {
  int64_t k = 0;
  for (; k + 8 * kLanes <= count; k += 8 * kLanes) add_columns<8>(sums + k, x + k, rows, step);
  for (; k + kLanes <= count; k += kLanes) add_columns<1>(sums + k, x + k, rows, step);
  for (; k < count; ++k)
    for (int64_t i = 0; i < rows; ++i) sums[k] += static_cast<double>(x[i * step + k]);
}

void add_lanes(double* lanes, const float* x, int64_t count) {
  constexpr int64_t kStep = std::min<int64_t>(16, 8 * kLanes);
  const int64_t even = count / 16 * 16;
  for (int64_t k = 0; k < 16; k += kStep)
    add_columns<kStep / kLanes>(lanes + k, x + k, count / 16, 16);
  for (int64_t k = even; k < count; ++k) lanes[k - even] += static_cast<double>(x[k]);
}

enum class Join { add, multiply, add_squares };

template <Join join>
HWY_INLINE Doubles joined(Doubles total, Doubles x) {
  if constexpr (join == Join::multiply) return mul(total, x);
  if constexpr (join == Join::add_squares) return mul_add(x, x, total);
  return add(total, x);
}

// Several rows at once hide the latency of the operation.
template <Join join, int kRows, class T>
HWY_INLINE void join_together(const T* const* rows, int64_t count, double* results) {
  constexpr int64_t kVectors = 16 / kLanes;
  constexpr double kFirst = join == Join::multiply ? 1 : 0;
  constexpr Join kMerge = join == Join::multiply ? join : Join::add;
  Doubles total[kRows][kVectors];
  const auto take = [&](const T* const* x, int64_t i) HWY_ATTR {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int64_t v = 0; v < kVectors; ++v)
        total[r][v] = joined<join>(total[r][v], widen(x[r] + i + v * kLanes));
    }
  };
  const T* x[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    x[r] = rows[r];
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v) total[r][v] = set_doubles(kFirst);
  }
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) take(x, i);
  if (i < count) {  // a lane without an element takes the number that it began with
    HWY_ALIGN T part[kRows][16];
    for (int r = 0; r < kRows; ++r) {
      std::fill_n(part[r], 16, static_cast<T>(kFirst));
      std::memcpy(part[r], x[r] + i, static_cast<size_t>(count - i) * sizeof(T));
      x[r] = part[r];
    }
    take(x, 0);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t half = kVectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (int64_t v = 0; v < half; ++v)
        total[r][v] = joined<kMerge>(total[r][v], total[r][v + half]);
    }
    alignas(64) double lanes[kLanes];
    store_doubles(total[r][0], lanes);
#pragma GCC unroll 4
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
      for (int64_t k = 0; k < half; ++k)
        lanes[k] = join == Join::multiply ? lanes[k] * lanes[k + half] : lanes[k] + lanes[k + half];
    }
    results[r] = lanes[0];
  }
}

template <Join join, class T>
void join_rows(const T* const* rows, int64_t n, int64_t count, double* results) {
  int64_t r = 0;
#if !defined(HG_SMALL)
  constexpr int kTogether = kLanes >= 8 ? 4 : 2;  // as many as fit in registers
  for (; r + kTogether <= n; r += kTogether)
    join_together<join, kTogether>(rows + r, count, results + r);
#endif
  for (; r < n; ++r) join_together<join, 1>(rows + r, count, results + r);
}

// Instruction sets differ in Max and Min of NaN, so NaN is tested separately. Some have no vectors
// of doubles.
template <bool kLargest, class T>
T extreme(const T* x, int64_t count) {
  T result = x[0];
  bool has_nan = false;
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float> || HWY_HAVE_FLOAT64) {
    const hn::ScalableTag<T> d;
    constexpr int64_t kNumbers = static_cast<int64_t>(hn::MaxLanes(d));
    constexpr int kVectors = 4;
    const auto better = [](auto a, auto b)
                            HWY_ATTR { return kLargest ? hn::Max(a, b) : hn::Min(a, b); };
    if (count >= kVectors * kNumbers) {
      hn::Vec<decltype(d)> best[kVectors], nan = hn::Zero(d);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) best[v] = hn::LoadU(d, x + v * kNumbers);
      const auto take = [&](const T* at, int v) HWY_ATTR {
        const auto next = hn::LoadU(d, at);
        best[v] = better(next, best[v]);
        nan = hn::Or(nan, hn::VecFromMask(d, hn::IsNaN(next)));
      };
      for (; i + kVectors * kNumbers <= count; i += kVectors * kNumbers) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) take(x + i + v * kNumbers, v);
      }
      for (; i + kNumbers <= count; i += kNumbers) take(x + i, 0);
      if (i < count) take(x + count - kNumbers, 1);  // elements that count twice change nothing
      i = count;
      has_nan = !hn::AllTrue(d, hn::Eq(nan, hn::Zero(d)));
      HWY_ALIGN T lanes[kNumbers];
      hn::Store(better(better(best[0], best[1]), better(best[2], best[3])), d, lanes);
      result = lanes[0];
      for (const T lane : lanes)
        if (kLargest ? lane > result : lane < result) result = lane;
    }
  }
  for (; i < count; ++i) {
    has_nan |= x[i] != x[i];
    if (kLargest ? x[i] > result : x[i] < result) result = x[i];
  }
  return has_nan ? std::numeric_limits<T>::quiet_NaN() : result;
}

template <bool kLargest>
void extremes(float* HWY_RESTRICT best, const float* HWY_RESTRICT x, int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr int64_t kFloats = static_cast<int64_t>(hn::MaxLanes(d));
  int64_t k = 0;
  for (; k + kFloats <= count; k += kFloats) {
    const auto a = hn::LoadU(d, best + k), b = hn::LoadU(d, x + k);
    const auto is_better = kLargest ? hn::Gt(b, a) : hn::Lt(b, a);
    hn::StoreU(hn::IfThenElse(hn::Or(is_better, hn::IsNaN(b)), b, a), d, best + k);
  }
  for (; k < count; ++k)
    if ((kLargest ? x[k] > best[k] : x[k] < best[k]) || x[k] != x[k]) best[k] = x[k];
}

constexpr ReduceTable kTable = {.add_rows = add_rows,
                                .add_lanes = add_lanes,
                                .add = join_rows<Join::add, float>,
                                .multiply = join_rows<Join::multiply, float>,
                                .add_squares = join_rows<Join::add_squares, float>,
#if !defined(HG_SMALL)
                                .add_doubles = join_rows<Join::add, double>,
                                .multiply_doubles = join_rows<Join::multiply, double>,
                                .add_double_squares = join_rows<Join::add_squares, double>,
#endif
                                .largest = extreme<true, float>,
                                .smallest = extreme<false, float>,
                                .largest_double = extreme<true, double>,
                                .smallest_double = extreme<false, double>,
                                .larger = extremes<true>,
                                .smaller = extremes<false>};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const ReduceTable& reduce_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
