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

constexpr Transpose kTranspose = transpose;

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

Transpose transpose_words() { return *HG_SIMD_CHOOSE(kTranspose); }

}  // namespace hg::kernels
#endif
