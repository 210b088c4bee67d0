// SPDX-License-Identifier: Apache-2.0
// Rows of bytes as they lie in memory, times packed columns, for IntegerTable. Included once for
// every instruction set; small builds have none.
#if defined(HG_KERNELS_INTEGER_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_INTEGER_ROWS_INL_H_
#undef HG_KERNELS_INTEGER_ROWS_INL_H_
#else
#define HG_KERNELS_INTEGER_ROWS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/integer/integer_bytes-inl.h"
#include "kernels/integer/integer_quads-inl.h"
#include "kernels/integer/integer_tiles-inl.h"
#include "kernels/simd/dot-inl.h"
#include "kernels/simd/row_tiles-inl.h"

#if !defined(HG_SMALL)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

using Finish = void (*)(int64_t rows, int64_t columns, const int32_t* sums, int64_t sums_row,
                        const IntegerFinish& f, void* y, int64_t y_row);

// The result of `place`, or null between lines.
HWY_INLINE char* result_of(const ByteRows& r, int64_t place) {
  const int64_t line = place / r.pitch, column = place % r.pitch;
  return column < r.width ? r.y + (line * r.width + column) * r.y_row : nullptr;
}

// Bytes of two vectors of columns of a place.
struct RowBytes {
  AsBytes as_bytes;
  V32 start[2];
  hn::Vec<DF> scale[2];
  int columns;

  // For `count` columns from `first` on.
  HWY_INLINE RowBytes(const IntegerFinish& f, int first, int count) : as_bytes(f), columns(count) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const int at = first + v * kLanes, valid = std::clamp(count - v * kLanes, 0, kLanes);
      start[v] = columns_at(f.column_add + at, valid);
      scale[v] = f.scale_by_column ? hn::BitCast(DF(), columns_at(f.scale + at, valid))
                                   : hn::Set(DF(), *f.scale);
    }
  }
  // In the low bytes of the lanes.
  HWY_INLINE V32 of(V32 sum, int v) const {
    return as_bytes.in_lanes(hn::Mul(hn::ConvertTo(DF(), hn::Add(sum, start[v])), scale[v]));
  }
};

template <class T>
void plain_rows(const ByteRows& r, const IntegerFinish& f, Finish finish) {
  for (int64_t place = r.first; place < r.first + r.count; ++place) {
    char* const to = result_of(r, place);
    if (to == nullptr) continue;
    uint32_t sums[ByteRows::kColumns] = {};
    const int8_t* w = r.weights;
    for (int64_t step = 0; step < r.steps; ++step) {
      const T* const x = reinterpret_cast<const T*>(r.x + place * r.x_row + r.offset[step]);
      for (int i = 0; i < ByteRows::kStep; i += 4, w += 4 * ByteRows::kColumns)
        for (int j = 0; j < ByteRows::kColumns; ++j)
          sums[j] += static_cast<uint32_t>(x[i] * w[4 * j] + x[i + 1] * w[4 * j + 1] +
                                           x[i + 2] * w[4 * j + 2] + x[i + 3] * w[4 * j + 3]);
    }
    finish(1, r.columns, reinterpret_cast<const int32_t*>(sums), 0, f, to, 0);
  }
}

#if defined(HG_HAS_DOT)

// Whether a bit of x changes, so that it has the sign that add_quads() reads.
HWY_INLINE bool flips(const ByteRows& r) { return r.is_signed != kSignedDot; }

constexpr int kRowBlock = HWY_TARGET == HWY_AVX3 ? 12 : HWY_ARCH_ARM_A64 ? 8 : 6;

// The sums of rows and two vectors of columns. x: the rows.
template <bool kFlips, int kRows>
HWY_INLINE void add_rows(const ByteRows& r, const uint8_t* const* x, const int8_t* w,
                         V32 (&sum)[kRows][2]) {
  const V32 flip = hn::Set(D32(), static_cast<int32_t>(0x80808080));
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) sum[i][0] = sum[i][1] = hn::Zero(D32());
  for (int64_t step = 0; step < r.steps; ++step) {
    const int64_t end = r.offset[step] + (step + 1 < r.steps ? ByteRows::kStep : r.last);
    for (int64_t at = r.offset[step]; at < end; at += 4, w += ByteRows::kColumns * 4) {
      __builtin_prefetch(w + kAhead);
      __builtin_prefetch(w + kAhead + 64);
      const V32 first = hn::Load(D32(), reinterpret_cast<const int32_t*>(w)),
                second = hn::Load(D32(), reinterpret_cast<const int32_t*>(w) + kLanes);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        int32_t quad;
        std::memcpy(&quad, x[i] + at, 4);
        const V32 each = kFlips ? hn::Xor(hn::Set(D32(), quad), flip) : hn::Set(D32(), quad);
        sum[i][0] = add_quads<true>(sum[i][0], each, first);
        sum[i][1] = add_quads<true>(sum[i][1], each, second);
      }
    }
  }
}

template <bool kFlips, int kRows>
void dot_block(const ByteRows& r, const IntegerFinish& f, Finish finish, const uint8_t* const* x,
               char* const* to) {
  const bool to_bytes = f.to == DType::u8 || f.to == DType::i8;
  for (int first = 0; first < r.columns; first += 2 * kLanes) {
    V32 sum[kRows][2];
    add_rows<kFlips>(r, x, r.weights + first * 4, sum);
    const int count = std::min(2 * kLanes, r.columns - first);
    if (to_bytes) {
      const RowBytes bytes(f, first, count);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        auto* const y = reinterpret_cast<uint8_t*>(to[i]) + first;
        store_low_bytes(bytes.of(sum[i][0], 0), count, y);
        if (count > kLanes) store_low_bytes(bytes.of(sum[i][1], 1), count - kLanes, y + kLanes);
      }
      continue;
    }
    IntegerFinish part = f;
    part.column_add += first;
    if (f.scale_by_column) part.scale += first;
    HWY_ALIGN int32_t sums[kRows][2 * kLanes];
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      hn::Store(sum[i][0], D32(), sums[i]);
      hn::Store(sum[i][1], D32(), sums[i] + kLanes);
    }
    for (int i = 0; i < kRows; ++i) finish(1, count, sums[i], 0, part, to[i] + first * 4, 0);
  }
}

using DotBlock = void (*)(const ByteRows& r, const IntegerFinish& f, Finish finish,
                          const uint8_t* const* x, char* const* to);
template <bool kFlips, int... kIndex>
constexpr std::array<DotBlock, kRowBlock> dot_blocks_of(std::integer_sequence<int, kIndex...>) {
  return {dot_block<kFlips, kIndex + 1>...};
}
template <bool kFlips>
constexpr auto kDotBlocks = dot_blocks_of<kFlips>(std::make_integer_sequence<int, kRowBlock>());

void dot_rows(const ByteRows& r, const IntegerFinish& f, Finish finish) {
  const auto& blocks = flips(r) ? kDotBlocks<true> : kDotBlocks<false>;
  const int64_t most = (r.count + kRowBlock - 1) / kRowBlock;
  const int64_t block = most == 0 ? 1 : (r.count + most - 1) / most;  // as equal as possible
  const uint8_t* x[kRowBlock];
  char* to[kRowBlock];
  int64_t found = 0, line = r.first / r.pitch, column = r.first % r.pitch;
  for (int64_t i = 0; i < r.count; ++i) {
    if (column < r.width) {
      x[found] = r.x + (r.first + i) * r.x_row;
      to[found++] = r.y + (line * r.width + column) * r.y_row;
    }
    if (found == block) {
      blocks[static_cast<size_t>(found - 1)](r, f, finish, x, to);
      found = 0;
    }
    if (++column == r.pitch) {
      column = 0;
      ++line;
    }
  }
  if (found > 0) blocks[static_cast<size_t>(found - 1)](r, f, finish, x, to);
}

#endif

#if defined(HG_HAS_TILES)

template <TileNumbers kNumbers>
void tile_rows_of(const ByteRows& r, const IntegerFinish& f, Finish finish) {
  const int64_t sums_row = r.columns > kLanes ? 2 * kLanes : kLanes;
  if (f.to != DType::u8 && f.to != DType::i8) {
    multiply_rows<kNumbers, int32_t>(r, [&](const int32_t* from, int64_t rows, char* to) HWY_ATTR {
      for (int64_t i = 0; i < rows; ++i, from += sums_row, to += r.y_row)
        finish(1, r.columns, from, 0, f, to, 0);
    });
    return;
  }
  const RowBytes bytes(f, 0, r.columns);
  multiply_rows<kNumbers, int32_t>(r, [&](const int32_t* from, int64_t rows, char* to) HWY_ATTR {
    for (int64_t i = 0; i < rows; ++i, from += sums_row, to += r.y_row) {
      auto* const y = reinterpret_cast<uint8_t*>(to);
      const V32 low = bytes.of(hn::Load(D32(), from), 0);
      if (r.columns <= kLanes)
        store_low_bytes(low, r.columns, y);
      else
        store_both_low_bytes(low, bytes.of(hn::Load(D32(), from + kLanes), 1), r.columns, y);
    }
  });
}
void tile_rows(const ByteRows& r, const IntegerFinish& f, Finish finish) {
  r.is_signed ? tile_rows_of<TileNumbers::signed_bytes>(r, f, finish)
              : tile_rows_of<TileNumbers::unsigned_bytes>(r, f, finish);
}

#endif

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
