// SPDX-License-Identifier: Apache-2.0
// The loops of attention_few_simd.h. A number does not depend on the other queries and keys of a
// call.
#if defined(HG_SMALL)
#undef HG_WITHOUT_AVX512
#define HG_WITHOUT_AVX512 1  // AVX2 waits for memory about as long
#endif
#include "kernels/attention/attention_few_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_few_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/halves-inl.h"
#include "kernels/attention/attention_block.h"
#include "kernels/saves_code.h"
#include "lib/table/holds.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;
// At once; more of them read keys from the cache again.
constexpr int kMostQueries = HWY_TARGET == HWY_SCALAR ? 1 : kSavesCode ? 2 : kManyRegisters ? 4 : 3;
constexpr int kKeys = 4;  // at once
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

// to = the first numbers, and zeros up to a vector.
template <class T>
const T* copy_first(const T* from, int64_t count, T* to) {
  std::fill_n(std::copy_n(from, count, to), kLanes - count, T());
  return to;
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
    for (int64_t p = 0; p < dim; p += kLanes) {
      int64_t at = p;
      T rest[kKeys][kLanes];
      if (dim - p < kLanes) {  // the last numbers of a row, and zeros
        for (int j = 0; j < kKeys; ++j) rows[j] = copy_first(rows[j] + p, dim - p, rest[j]);
        at = 0;
      }
      V left[kQueries];
#pragma GCC unroll 4
      for (int i = 0; i < kQueries; ++i) left[i] = hn::LoadU(d, q + i * q_row + p);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) {
        const V right = load_floats(d, rows[j] + at);
#pragma GCC unroll 4
        for (int i = 0; i < kQueries; ++i) sums[i][j] = hn::MulAdd(left[i], right, sums[i][j]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) store_sums(sums[i], scores + i * kKeyBlock + key);
  }
}

// kVectors vectors of columns. `ahead` is null if other columns of these rows were prefetched.
template <int kQueries, int kVectors, class T>
HWY_INLINE void gather_columns(int64_t keys, const float* weights, const T* v, int64_t v_row,
                               float* sums, int64_t sums_row, RowsAhead<T>* ahead) {
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
      const V right = load_floats(d, v + c * kLanes);
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
  constexpr bool kHasRoom = kQueries == 1 || (kQueries == 2 && kManyRegisters);
  constexpr int kVectors = kHasRoom && !kSavesCode ? 8 : 4;
  const int64_t sums_row = padded_columns(columns);
  RowsAhead<T> rows_ahead(v, v_row, columns);
  int64_t j = 0;
  const auto ahead = [&] { return j == 0 ? &rows_ahead : nullptr; };
  for (; j + kVectors * kLanes <= columns; j += kVectors * kLanes)
    gather_columns<kQueries, kVectors>(keys, weights, v + j, v_row, sums + j, sums_row, ahead());
  for (; j < columns; j += kLanes) {
    T rest[kKeyBlock * kLanes];
    const bool is_whole = columns - j >= kLanes;
    for (int64_t key = 0; key < (is_whole ? 0 : keys); ++key)
      copy_first(v + key * v_row + j, columns - j, rest + key * kLanes);
    gather_columns<kQueries, 1>(keys, weights, is_whole ? v + j : rest, is_whole ? v_row : kLanes,
                                sums + j, sums_row, ahead());
  }
}

template <class T>
void score(int64_t queries, int64_t keys, int64_t dim, const float* q, const void* k, int64_t k_row,
           float* scores) {
  by_rows<kMostQueries>(0, queries, [&]<int kQueries>(int64_t i) {
    score_queries<kQueries>(keys, dim, q + i * padded_columns(dim), static_cast<const T*>(k), k_row,
                            scores + i * kKeyBlock);
  });
}

template <class T>
void gather(int64_t queries, int64_t keys, int64_t columns, const float* weights, const void* v,
            int64_t v_row, float* sums) {
  by_rows<kMostQueries>(0, queries, [&]<int kQueries>(int64_t i) {
    gather_queries<kQueries>(keys, columns, weights + i * kKeyBlock, static_cast<const T*>(v),
                             v_row, sums + i * padded_columns(columns));
  });
}

}  // namespace

template <class T, DType kDType>
constexpr FewTable few_table_of() {
  FewTable loops;
  if constexpr (holds(kDType)) loops = {score<T>, gather<T>};
  return loops;
}
constexpr FewTable kFloats = few_table_of<float, DType::f32>();
constexpr FewTable kHalves = few_table_of<hg::Half, DType::f16>();
constexpr FewTable kBFloats = few_table_of<BFloat16, DType::bf16>();
constexpr FewTable kLevels = few_table_of<int8_t, DType::i8>();

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const FewTable& few_table(DType dtype) {
  if (dtype == f16) return *HG_SIMD_CHOOSE(kHalves);
  if (dtype == bf16) return *HG_SIMD_CHOOSE(kBFloats);
  if (dtype == i8) return *HG_SIMD_CHOOSE(kLevels);
  return *HG_SIMD_CHOOSE(kFloats);
}

}  // namespace hg::kernels
#endif
