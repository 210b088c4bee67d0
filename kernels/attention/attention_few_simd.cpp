// SPDX-License-Identifier: Apache-2.0
// The loops of attention_few_simd.h. A number does not depend on the other queries and keys of a
// call.
#include "kernels/attention/attention_few_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_few_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/halves-inl.h"
#include "kernels/attention/attention_block.h"
#include "lib/table/holds.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr int kMostQueries = kManyRegisters ? 4 : 3;  // at once
constexpr int kKeys = 4;                              // at once
static_assert(kKeyBlock % kKeys == 0);

// Prefetches rows of memory this far ahead: one stream of reads waits for memory most of the time.
template <class T>
struct RowsAhead {
  static constexpr int64_t kBytes = 2048;
  const T* at;
  int64_t row, columns;
  RowsAhead(const T* rows, int64_t step, int64_t size) : row(step), columns(size) {
    const int64_t bytes = std::max<int64_t>(1, size * static_cast<int64_t>(sizeof(T)));
    at = rows + std::max<int64_t>(1, kBytes / bytes) * step;
  }
  HWY_INLINE void expect(int64_t rows) {
    for (; rows > 0; --rows, at += row)
      for (int64_t j = 0; j < columns; j += 64 / static_cast<int64_t>(sizeof(T)))
        __builtin_prefetch(at + j, 0, 2);
  }
};

#if HWY_TARGET != HWY_SCALAR
// Stores the sum of the blocks of four floats.
template <class Lanes>
HWY_INLINE void store_blocks(Lanes d, hn::Vec<Lanes> blocks, float* to) {
  if constexpr (hn::MaxLanes(Lanes()) <= 4) {
    hn::StoreU(blocks, d, to);
  } else {
    const hn::Half<Lanes> half;
    store_blocks(half, hn::Add(hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks)), to);
  }
}
#endif

// to[j] = the sum of sums[j]
HWY_INLINE void store_sums(const V (&sums)[kKeys], float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < kKeys; ++j) to[j] = hn::GetLane(sums[j]);
#else
  const D d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<D> > pairs;
  const auto add_pairs = [&](V a, V b) HWY_ATTR {
    return hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto low = add_pairs(sums[0], sums[1]), high = add_pairs(sums[2], sums[3]);
  const V all = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, low, high)),
                        hn::BitCast(d, hn::InterleaveUpper(pairs, low, high)));
  store_blocks(d, all, to);
#endif
}

template <int kQueries, class T>
void score_queries(int64_t keys, int64_t dim, const float* q, const T* k, int64_t k_row,
                   float* scores) {
  const D d;
  const int64_t q_row = padded_columns(dim);
  RowsAhead<T> ahead(k, k_row, dim);
  for (int64_t key = 0; key < keys; key += kKeys) {
    ahead.expect(std::min<int64_t>(kKeys, keys - key));
    const T* rows[kKeys];
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) rows[j] = k + std::min(keys - 1, key + j) * k_row;
    V sums[kQueries][kKeys];
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sums[i][j] = hn::Zero(d);
    const auto add = [&](int64_t p, const auto& load) HWY_ATTR {
      V left[kQueries];
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) left[i] = hn::LoadU(d, q + i * q_row + p);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) {
        const V right = load(rows[j] + p);
#pragma GCC unroll 4
        for (int i = 0; i < kQueries; ++i) sums[i][j] = hn::MulAdd(left[i], right, sums[i][j]);
      }
    };
    int64_t p = 0;
    for (; p + kLanes <= dim; p += kLanes)
      add(p, [&](const T* from) HWY_ATTR { return load_floats(d, from); });
    if (p < dim)
      add(p,
          [&](const T* from) HWY_ATTR { return load_first(d, from, static_cast<int>(dim - p)); });
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) store_sums(sums[i], scores + i * kKeyBlock + key);
  }
}

// kVectors vectors of columns. `ahead` is null if other columns of these rows were prefetched.
template <int kQueries, int kVectors, class T, class Load>
HWY_INLINE void gather_columns(int64_t keys, const float* weights, const T* v, int64_t v_row,
                               float* sums, int64_t sums_row, RowsAhead<T>* ahead,
                               const Load& load) {
  const D d;
  V at[kQueries][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i)
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) at[i][c] = hn::LoadU(d, sums + i * sums_row + c * kLanes);
  for (int64_t key = 0; key < keys; ++key, v += v_row) {
    if (ahead != nullptr) ahead->expect(1);
    V weight[kQueries];
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) weight[i] = hn::Set(d, weights[i * kKeyBlock + key]);
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      const V right = load(v + c * kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) at[i][c] = hn::MulAdd(weight[i], right, at[i][c]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i)
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) hn::StoreU(at[i][c], d, sums + i * sums_row + c * kLanes);
}

template <int kQueries, class T>
void gather_queries(int64_t keys, int64_t columns, const float* weights, const T* v, int64_t v_row,
                    float* sums) {
  constexpr int kVectors = kQueries == 1 || (kQueries == 2 && kManyRegisters) ? 8 : 4;
  const D d;
  const int64_t sums_row = padded_columns(columns);
  RowsAhead<T> rows_ahead(v, v_row, columns);
  const auto load = [&](const T* from) HWY_ATTR { return load_floats(d, from); };
  int64_t j = 0;
  const auto ahead = [&] { return j == 0 ? &rows_ahead : nullptr; };
  for (; j + kVectors * kLanes <= columns; j += kVectors * kLanes)
    gather_columns<kQueries, kVectors>(keys, weights, v + j, v_row, sums + j, sums_row, ahead(),
                                       load);
  for (; j + kLanes <= columns; j += kLanes)
    gather_columns<kQueries, 1>(keys, weights, v + j, v_row, sums + j, sums_row, ahead(), load);
  if (j == columns) return;
  const int last = static_cast<int>(columns - j);
  gather_columns<kQueries, 1>(keys, weights, v + j, v_row, sums + j, sums_row, ahead(),
                              [&](const T* from) HWY_ATTR { return load_first(d, from, last); });
}

template <class T>
void score(int64_t queries, int64_t keys, int64_t dim, const float* q, const T* k, int64_t k_row,
           float* scores) {
  const int64_t q_row = padded_columns(dim);
  for (int64_t i = 0; i < queries; i += kMostQueries) {
    const int64_t left = std::min<int64_t>(kMostQueries, queries - i);
    const auto run = [&](auto loop) {
      loop(keys, dim, q + i * q_row, k, k_row, scores + i * kKeyBlock);
    };
    if (left == 1) run(score_queries<1, T>);
    if (left == 2) run(score_queries<2, T>);
    if (left == 3) run(score_queries<3, T>);
    if constexpr (kMostQueries == 4)
      if (left == 4) run(score_queries<4, T>);
  }
}

template <class T>
void gather(int64_t queries, int64_t keys, int64_t columns, const float* weights, const T* v,
            int64_t v_row, float* sums) {
  const int64_t sums_row = padded_columns(columns);
  for (int64_t i = 0; i < queries; i += kMostQueries) {
    const int64_t left = std::min<int64_t>(kMostQueries, queries - i);
    const auto run = [&](auto loop) {
      loop(keys, columns, weights + i * kKeyBlock, v, v_row, sums + i * sums_row);
    };
    if (left == 1) run(gather_queries<1, T>);
    if (left == 2) run(gather_queries<2, T>);
    if (left == 3) run(gather_queries<3, T>);
    if constexpr (kMostQueries == 4)
      if (left == 4) run(gather_queries<4, T>);
  }
}

template <class T, DType kDType>
constexpr FewTable<T> table() {
  FewTable<T> loops;
  if constexpr (holds(kDType)) loops = {score<T>, gather<T>};
  return loops;
}
constexpr FewTable<float> kFloats = table<float, DType::f32>();
constexpr FewTable<hg::Half> kHalves = table<hg::Half, DType::f16>();
constexpr FewTable<BFloat16> kBFloats = table<BFloat16, DType::bf16>();

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

template <>
const FewTable<float>& few_table() {
  return *HG_SIMD_CHOOSE(kFloats);
}
template <>
const FewTable<Half>& few_table() {
  return *HG_SIMD_CHOOSE(kHalves);
}
template <>
const FewTable<BFloat16>& few_table() {
  return *HG_SIMD_CHOOSE(kBFloats);
}

}  // namespace hg::kernels
#endif
