// SPDX-License-Identifier: Apache-2.0
// Products of quads in registers, for IntegerTable: quads of u8 times quads of i8. Included once
// for every instruction set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_INTEGER_QUADS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_INTEGER_QUADS_INL_H_
#undef HG_KERNELS_INTEGER_QUADS_INL_H_
#else
#define HG_KERNELS_INTEGER_QUADS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/integer/integer_bytes-inl.h"
#include "kernels/saves_code.h"
#include "kernels/simd/bytes-inl.h"
#include "kernels/simd/dot-inl.h"

#if defined(HG_HAS_QUADS)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kAhead = 2048;  // bytes of weights to prefetch, which often come from memory

// Without VNNI, each row has its own additional quads, of which it needs few.
template <bool kDot>
constexpr bool kPlacesByRow = !kDot && !kSavesCode;

template <bool kDot, int kRows, int kVectors>
HWY_INLINE void add_quad(const uint8_t* panel, const int8_t* a, V32 (*sum)[kVectors]) {
  V32 x[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v)
    x[v] = hn::LoadU(D32(), reinterpret_cast<const int32_t*>(panel) + v * kLanes);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    int32_t quad;
    std::memcpy(&quad, a + 4 * i, 4);
    const V32 w = hn::Set(D32(), quad);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = add_quads<kDot>(sum[i][v], x[v], w);
  }
}

template <bool kDot, int kRows, int kVectors>
HWY_INLINE void add_all_quads(const QuadPlaces& places, const int8_t* HWY_RESTRICT a,
                              const uint8_t* HWY_RESTRICT x, const IntegerFinish* f,
                              V32 (&sum)[kRows][kVectors]) {
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Set(D32(), f ? f->row_add[f->row_at(i)] : 0);
  const int32_t* const offset = places.offset;
  for (int64_t q = 0; q < places.whole; ++q, a += 4 * kRows) {
    __builtin_prefetch(a + kAhead);
    add_quad<kDot, kRows>(x + int64_t{offset[q]} * 4, a, sum);
  }
  if constexpr (kPlacesByRow<kDot>) {
    const int32_t* index = places.index;
    for (int64_t q = 0; q < places.more; ++q, a += 4 * kRows, index += kRows)
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i)
        add_quad<kDot, 1>(x + int64_t{index[i]} * 4, a + 4 * i, sum + i);
  } else {
    for (int64_t q = 0; q < places.more; ++q, a += 4 * kRows)
      add_quad<kDot, kRows>(x + int64_t{offset[places.index[q]]} * 4, a, sum);
  }
}

template <int kRows, int kVectors>
HWY_INLINE void store_sums(const V32 (&sum)[kRows][kVectors], int32_t* sums, int64_t sums_row) {
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(sum[i][v], D32(), sums + i * sums_row + v * kLanes);
}

// With the scale, `to` and `zero` of f.
template <int kRows, int kVectors>
HWY_INLINE void store_bytes(const V32 (&sum)[kRows][kVectors], const IntegerFinish& f,
                            int64_t valid, uint8_t* y, int64_t y_row) {
  const AsBytes as_bytes(f);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const int64_t row = f.row_at(i);
    const auto scale = hn::Set(DF(), f.scale[f.scale_by_row ? row : 0]);
    uint8_t* const to = y + row * y_row;
#if HWY_TARGET == HWY_AVX2
    if constexpr (kVectors == 2 && !kSavesCode)
      if (valid >= kNr) {
        as_bytes.store(hn::Mul(hn::ConvertTo(DF(), sum[i][0]), scale),
                       hn::Mul(hn::ConvertTo(DF(), sum[i][1]), scale), to);
        continue;
      }
#endif
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      store_low_bytes(as_bytes.in_lanes(hn::Mul(hn::ConvertTo(DF(), sum[i][v]), scale)),
                      valid - v * kLanes, to + v * kLanes);
  }
}

template <bool kDot, int kRows, int kVectors>
void quad_block(const QuadPlaces& places, const int8_t* a, const uint8_t* x, int32_t* sums,
                int64_t sums_row) {
  V32 sum[kRows][kVectors];
  add_all_quads<kDot>(places, a, x, nullptr, sum);
  store_sums(sum, sums, sums_row);
}

using QuadBlock = void (*)(const QuadPlaces& places, const int8_t* a, const uint8_t* x,
                           int32_t* sums, int64_t sums_row);
template <bool kDot, int kVectors, int... kIndex>
constexpr std::array<QuadBlock, kMr> quad_blocks_of(std::integer_sequence<int, kIndex...>) {
  return {quad_block<kDot, kIndex + 1, kVectors>...};
}
template <bool kDot, int kVectors>
constexpr auto kQuadBlocks = quad_blocks_of<kDot, kVectors>(std::make_integer_sequence<int, kMr>());

// The results as bytes, from the registers of the sums.
template <bool kDot, int kRows, int kVectors>
void quad_bytes_block(const QuadPlaces& places, const int8_t* a, const uint8_t* x,
                      const IntegerFinish& f, int64_t valid, uint8_t* y, int64_t y_row) {
  V32 sum[kRows][kVectors];
  add_all_quads<kDot>(places, a, x, &f, sum);
  store_bytes(sum, f, valid, y, y_row);
}

using QuadBytesBlock = void (*)(const QuadPlaces& places, const int8_t* a, const uint8_t* x,
                                const IntegerFinish& f, int64_t valid, uint8_t* y, int64_t y_row);
template <bool kDot, int kVectors, int... kIndex>
constexpr std::array<QuadBytesBlock, kMr> quad_bytes_blocks_of(
    std::integer_sequence<int, kIndex...>) {
  return {quad_bytes_block<kDot, kIndex + 1, kVectors>...};
}
template <bool kDot, int kVectors>
constexpr auto kQuadBytesBlocks =
    quad_bytes_blocks_of<kDot, kVectors>(std::make_integer_sequence<int, kMr>());

// kOne, kTwo: the blocks of one vector of columns, and of two, by the number of rows.
template <const auto& kOne, const auto& kTwo>
void quad_bytes(int rows, int64_t columns, const QuadPlaces& places, const int8_t* a,
                const uint8_t* x, int64_t x_step, const IntegerFinish& f, uint8_t* y,
                int64_t y_row) {
  const auto at = static_cast<size_t>(rows - 1);
  for (; columns > 0; columns -= kNr, x += x_step, y += kNr)
    (columns > kLanes ? kTwo : kOne)[at](places, a, x, f, columns, y, y_row);
}

#if !HWY_ARCH_ARM_A64

// Sums of kColumns columns. A vector holds a sum of each row; the quads of a column are broadcast.
template <bool kDot, int kColumns>
HWY_INLINE void few_columns(int rows, int few, const QuadPlaces& places, const int8_t* a,
                            const uint8_t* x, int32_t* sums, int64_t sums_row) {
  constexpr int kSteps = 4 / kColumns;  // quads whose sums are independent
  const hn::FixedTag<int32_t, 8> d;
  hn::Vec<decltype(d)> sum[kSteps][kColumns];
#pragma GCC unroll 4
  for (int s = 0; s < kSteps; ++s)
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) sum[s][j] = hn::Zero(d);
  const auto add = [&](int64_t place, hn::Vec<decltype(d)>(&to)[kColumns]) HWY_ATTR {
    int32_t quads[kColumns];
    std::memcpy(quads, x + int64_t{places.offset[place]} * 4, sizeof(quads));
    const auto w = hn::LoadU(d, reinterpret_cast<const int32_t*>(a));
    if constexpr (!kSavesCode) __builtin_prefetch(a + kAhead);
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) to[j] = add_quads<kDot>(to[j], hn::Set(d, quads[j]), w);
    a += 4 * rows;
  };
  int64_t q = 0;
  for (; q + kSteps <= places.whole; q += kSteps)
#pragma GCC unroll 4
    for (int s = 0; s < kSteps; ++s) add(q + s, sum[s]);
  for (; q < places.whole; ++q) add(q, sum[0]);
  if constexpr (kPlacesByRow<kDot>) {
    const int32_t* index = places.index;
    for (int64_t k = 0; k < places.more; ++k, a += 4 * rows, index += rows)
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) {
        HWY_ALIGN int32_t quads[8] = {};  // of the rows
        for (int i = 0; i < std::min(rows, 8); ++i)
          std::memcpy(quads + i, x + (int64_t{index[i]} + j) * 4, 4);
        const auto w = hn::LoadU(d, reinterpret_cast<const int32_t*>(a));
        sum[0][j] = add_quads<kDot>(sum[0][j], hn::Load(d, quads), w);
      }
  } else {
    for (int64_t k = 0; k < places.more; ++k) add(places.index[k], sum[0]);
  }
  for (int j = 0; j < few; ++j) {
#pragma GCC unroll 4
    for (int s = 1; s < kSteps; ++s) sum[0][j] = hn::Add(sum[0][j], sum[s][j]);
    HWY_ALIGN int32_t of_row[8];
    hn::Store(sum[0][j], d, of_row);
    for (int i = 0; i < rows; ++i) sums[i * sums_row + j] = of_row[i];
  }
}

template <bool kDot>
void quad_few(int rows, int few, const QuadPlaces& places, const int8_t* a, const uint8_t* x,
              int32_t* sums, int64_t sums_row) {
  for (; few > 1; few -= 4, x += 16, sums += 4)
    few_columns<kDot, 4>(rows, std::min(few, 4), places, a, x, sums, sums_row);
  if (few == 1) few_columns<kDot, 1>(rows, 1, places, a, x, sums, sums_row);
}

#endif

template <const auto& kOne, const auto& kTwo>
void quad_sums(int rows, int64_t columns, const QuadPlaces& places, const int8_t* a,
               const uint8_t* x, int64_t x_step, int32_t* sums, int64_t sums_row) {
  const auto at = static_cast<size_t>(rows - 1);
  for (; columns > 0; columns -= kNr, x += x_step, sums += kNr)
    (columns > kLanes ? kTwo : kOne)[at](places, a, x, sums, sums_row);
}

void pack_quads(int64_t columns, const uint8_t* const* rows, uint8_t flip, uint8_t* to,
                int64_t panel_step) {
  // Of columns at a time. A lane of 128 bits has the quads of 16 of them.
  constexpr int kBytes = kNr < 32 ? std::min(kNr, 16) : 32;
  const hn::Simd<uint8_t, kBytes, 0> d;
  const hn::Simd<uint16_t, kBytes / 2, 0> pairs;
  const auto mask = hn::Set(d, flip);
  uint8_t part[4][kNr] = {};
  for (int64_t first = 0; first < columns; first += kNr, to += panel_step) {
    const uint8_t* from[4];
    for (int r = 0; r < 4; ++r) {
      from[r] = rows[r] + first;
      if (columns - first >= kNr) continue;
      std::memcpy(part[r], from[r], static_cast<size_t>(columns - first));
      from[r] = part[r];
    }
    for (int j = 0; j < kNr; j += kBytes) {
      const auto a = hn::LoadU(d, from[0] + j), b = hn::LoadU(d, from[1] + j),
                 e = hn::LoadU(d, from[2] + j), f = hn::LoadU(d, from[3] + j);
      uint8_t* const at = to + 4 * j;
      const auto store = [&](int64_t offset, auto one, auto other) HWY_ATTR {
        const auto x = hn::BitCast(pairs, one), y = hn::BitCast(pairs, other);
        const auto lower = hn::Xor(hn::BitCast(d, hn::InterleaveLower(pairs, x, y)), mask);
        const auto upper = hn::Xor(hn::BitCast(d, hn::InterleaveUpper(pairs, x, y)), mask);
        if constexpr (kBytes == 32) {
          hn::StoreU(hn::ConcatLowerLower(d, upper, lower), d, at + offset / 2);
          hn::StoreU(hn::ConcatUpperUpper(d, upper, lower), d, at + offset / 2 + 64);
        } else {
          hn::StoreU(lower, d, at + offset);
          hn::StoreU(upper, d, at + offset + kBytes);
        }
      };
      store(0, hn::InterleaveLower(d, a, b), hn::InterleaveLower(d, e, f));
      store(2 * kBytes, hn::InterleaveUpper(d, a, b), hn::InterleaveUpper(d, e, f));
    }
  }
}

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
