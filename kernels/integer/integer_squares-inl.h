// SPDX-License-Identifier: Apache-2.0
// Products of quads in squares of sums (SMMLA), for IntegerTable: two quads of two rows times those
// of two columns. Included once for every instruction set.
#if defined(HG_KERNELS_INTEGER_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_INTEGER_SQUARES_INL_H_
#undef HG_KERNELS_INTEGER_SQUARES_INL_H_
#else
#define HG_KERNELS_INTEGER_SQUARES_INL_H_
#endif

#include <array>
#include <utility>

#include "kernels/integer/integer_quads-inl.h"
#include "kernels/simd/mmla-inl.h"

#if defined(HG_HAS_SQUARES)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

constexpr int kSquareMr = 8;

// The quads of two places.
template <int kPairs, int kSquares>
HWY_INLINE void add_two_quads(const uint8_t* first, const uint8_t* second, const int8_t* a,
                              V32 (&square)[kPairs][kSquares]) {
  V32 x[kSquares];
#pragma GCC unroll 2
  for (int v = 0; v < kSquares / 2; ++v) {
    const V32 one = hn::LoadU(D32(), reinterpret_cast<const int32_t*>(first) + v * kLanes),
              other = hn::LoadU(D32(), reinterpret_cast<const int32_t*>(second) + v * kLanes);
    x[2 * v] = hn::InterleaveLower(D32(), one, other);
    x[2 * v + 1] = hn::InterleaveUpper(D32(), one, other);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kPairs; ++i) {
    const V32 w = hn::LoadU(D32(), reinterpret_cast<const int32_t*>(a) + i * kLanes);
#pragma GCC unroll 4
    for (int j = 0; j < kSquares; ++j) square[i][j] = add_byte_square(square[i][j], w, x[j]);
  }
}

template <int kRows, int kVectors>
HWY_INLINE void add_all_squares(const QuadPlaces& places, const int8_t* HWY_RESTRICT a,
                                const uint8_t* HWY_RESTRICT x, const int32_t* start,
                                V32 (&sum)[kRows][kVectors]) {
  constexpr int kPairs = (kRows + 1) / 2;
  V32 square[kPairs][2 * kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kPairs; ++i) {
    const int other = 2 * i + 1 < kRows ? 2 * i + 1 : 2 * i;
    const V32 first = hn::Set(D32(), start ? start[2 * i] : 0),
              second = hn::Set(D32(), start ? start[other] : 0);
#pragma GCC unroll 4
    for (int j = 0; j < 2 * kVectors; ++j)
      square[i][j] = hn::ConcatLowerLower(D32(), second, first);
  }
  const auto at = [&](int64_t place) HWY_ATTR { return x + int64_t{places.offset[place]} * 4; };
  int64_t q = 0;
  for (; q + 2 <= places.whole; q += 2, a += 16 * kPairs) {
    __builtin_prefetch(a + kAhead);
    add_two_quads(at(q), at(q + 1), a, square);
  }
  // The second quads of the last weights are zeros.
  if (q < places.whole) {
    add_two_quads(at(q), at(q), a, square);
    a += 16 * kPairs;
  }
  for (q = 0; q < places.more; q += 2, a += 16 * kPairs)
    add_two_quads(at(places.index[q]), at(places.index[q + 1 < places.more ? q + 1 : q]), a,
                  square);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = row_of_squares(square, i, v);
}

template <int kRows, int kVectors>
void square_block(const QuadPlaces& places, const int8_t* a, const uint8_t* x, int32_t* sums,
                  int64_t sums_row) {
  V32 sum[kRows][kVectors];
  add_all_squares(places, a, x, nullptr, sum);
  store_sums(sum, sums, sums_row);
}
template <int kVectors, int... kIndex>
constexpr std::array<QuadBlock, kSquareMr> square_blocks_of(std::integer_sequence<int, kIndex...>) {
  return {square_block<kIndex + 1, kVectors>...};
}
template <int kVectors>
constexpr auto kSquareBlocks =
    square_blocks_of<kVectors>(std::make_integer_sequence<int, kSquareMr>());

template <int kRows, int kVectors>
void square_bytes_block(const QuadPlaces& places, const int8_t* a, const uint8_t* x,
                        const IntegerFinish& f, int64_t valid, uint8_t* y, int64_t y_row) {
  V32 sum[kRows][kVectors];
  add_all_squares(places, a, x, f.row_add, sum);
  store_bytes(sum, f, valid, y, y_row);
}
template <int kVectors, int... kIndex>
constexpr std::array<QuadBytesBlock, kSquareMr> square_bytes_blocks_of(
    std::integer_sequence<int, kIndex...>) {
  return {square_bytes_block<kIndex + 1, kVectors>...};
}
template <int kVectors>
constexpr auto kSquareBytesBlocks =
    square_bytes_blocks_of<kVectors>(std::make_integer_sequence<int, kSquareMr>());

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
