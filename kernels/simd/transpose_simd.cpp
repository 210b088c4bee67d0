// SPDX-License-Identifier: Apache-2.0
// The loops of transpose_simd.h.
#include "kernels/simd/transpose_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/transpose_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

using Four = hn::CappedTag<uint32_t, 4>;
using Eight = hn::CappedTag<uint32_t, 8>;

// Four elements of column c; with eight lanes, also of column c + 4.
template <class Tag>
HWY_INLINE hn::Vec<Tag> column(const uint32_t* from, int64_t from_columns, int64_t c) {
  const auto low = hn::LoadU(Four(), from + c * from_columns);
  if constexpr (hn::MaxLanes(Tag()) == 8)
    return hn::Combine(Tag(), hn::LoadU(Four(), from + (c + 4) * from_columns), low);
  else
    return low;
}

// Four rows of as many columns as there are lanes: blocks of four by four change places.
template <class Tag>
HWY_INLINE void copy_rows(const uint32_t* from, int64_t from_columns, uint32_t* to,
                          int64_t to_rows) {
  const Tag d;
  const auto a = column<Tag>(from, from_columns, 0), b = column<Tag>(from, from_columns, 1),
             c = column<Tag>(from, from_columns, 2), e = column<Tag>(from, from_columns, 3);
  const auto even_low = hn::InterleaveLower(d, a, c), odd_low = hn::InterleaveLower(d, b, e);
  const auto even_high = hn::InterleaveUpper(d, a, c), odd_high = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, to);
  hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, to + to_rows);
  hn::StoreU(hn::InterleaveLower(d, even_high, odd_high), d, to + 2 * to_rows);
  hn::StoreU(hn::InterleaveUpper(d, even_high, odd_high), d, to + 3 * to_rows);
}

#endif

void transpose(const uint32_t* from, int64_t from_columns, uint32_t* to, int64_t to_rows,
               int64_t rows, int64_t columns) {
  int64_t whole_rows = 0, c = 0;  // that vectors copy
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kWide = static_cast<int64_t>(hn::MaxLanes(Eight()));
  whole_rows = rows / 4 * 4;
  const auto copy = [&]<class Tag>(Tag) HWY_ATTR {
    for (int64_t r = 0; r < whole_rows; r += 4)
      copy_rows<Tag>(from + r + c * from_columns, from_columns, to + r * to_rows + c, to_rows);
  };
  for (; c + kWide <= columns; c += kWide) copy(Eight());
  for (; c + 4 <= columns; c += 4) copy(Four());
#endif
  for (int64_t k = 0; k < columns; ++k)
    for (int64_t r = k < c ? whole_rows : 0; r < rows; ++r)
      to[r * to_rows + k] = from[r + k * from_columns];
}

#if HWY_TARGET != HWY_SCALAR && !defined(HG_SMALL)

using Bytes = hn::FixedTag<uint8_t, 16>;

// 16 rows of 16 columns. Each step moves the highest bit of a vector's index below the bits of the
// element's index; after four steps, both indices have changed places.
HWY_INLINE void copy_square(const uint8_t* from, int64_t from_columns, uint8_t* to,
                            int64_t to_rows) {
  const Bytes d;
  hn::Vec<Bytes> v[16], next[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = hn::LoadU(d, from + i * from_columns);
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = hn::InterleaveLower(d, v[i], v[i + 8]);
      next[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) v[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) hn::StoreU(v[i], d, to + i * to_rows);
}

#endif

void transpose_of_bytes(const uint8_t* from, int64_t from_columns, uint8_t* to, int64_t to_rows,
                        int64_t rows, int64_t columns) {
  int64_t whole_rows = 0, whole_columns = 0;  // that vectors copy
#if HWY_TARGET != HWY_SCALAR && !defined(HG_SMALL)
  whole_rows = rows / 16 * 16;
  whole_columns = columns / 16 * 16;
  for (int64_t c = 0; c < whole_columns; c += 16)
    for (int64_t r = 0; r < whole_rows; r += 16)
      copy_square(from + r + c * from_columns, from_columns, to + r * to_rows + c, to_rows);
#endif
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      to[r * to_rows + c] = from[r + c * from_columns];
}

constexpr Transpose kTranspose = transpose;
constexpr TransposeOf<uint8_t> kTransposeBytes = transpose_of_bytes;

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

Transpose transpose_words() { return *HG_SIMD_CHOOSE(kTranspose); }
TransposeOf<uint8_t> transpose_bytes() { return *HG_SIMD_CHOOSE(kTransposeBytes); }

}  // namespace hg::kernels
#endif
