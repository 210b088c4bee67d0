// SPDX-License-Identifier: Apache-2.0
#include "kernels/integer/integer_simd.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integer/integer_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/integer/integer_bytes-inl.h"
#include "kernels/integer/integer_quads-inl.h"
#include "kernels/integer/integer_rows-inl.h"
#include "kernels/integer/integer_squares-inl.h"
#include "kernels/integer/integer_tiles-inl.h"
#include "kernels/saves_code.h"
#include "kernels/simd/bytes-inl.h"
#include "kernels/simd/dot-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

int32_t pair_product(const int16_t* a, const int16_t* b) { return a[0] * b[0] + a[1] * b[1]; }

void sums(int rows, int64_t columns, int64_t pairs, const int16_t* a, const int8_t* panels,
          int32_t* sums, int64_t sums_row) {
  for (int64_t j = 0; j < columns; ++j)
    for (int i = 0; i < rows; ++i) {
      int32_t sum = 0;
      for (int64_t p = 0; p < pairs; ++p) {
        const int8_t* const from = panels + (j / kNr * pairs + p) * 2 * kNr + j % kNr * 2;
        const int16_t b[2] = {from[0], from[1]};
        sum += pair_product(a + (p * rows + i) * 2, b);
      }
      sums[i * sums_row + j] = sum;
    }
}

void depthwise(int taps, const int64_t* offset, const int32_t* weights, const int16_t* x,
               int64_t step, int64_t count, int32_t* sums) {
  std::fill_n(sums, count, 0);
  for (int t = 0; t < taps; ++t) {
    int16_t pair[2];
    std::memcpy(pair, weights + t, 4);
    for (int64_t j = 0; j < count; ++j) sums[j] += pair_product(pair, x + offset[t] + step * j);
  }
}

void interleave(int64_t columns, const uint8_t* even, const uint8_t* odd, uint8_t flip,
                uint8_t* to) {
  for (int64_t j = 0; j < columns; ++j) {
    to[2 * j] = even[j] ^ flip;
    to[2 * j + 1] = odd[j] ^ flip;
  }
}

#else

using D16 = hn::Repartition<int16_t, D32>;
using V16 = hn::Vec<D16>;

// Sums in registers. Some instruction sets keep them in an intermediate form until the end.
struct Sum {
  V32 even, odd;
  HWY_INLINE Sum() {}  // an implicit constructor would not be compiled for the instruction set
  HWY_INLINE void clear() { even = odd = hn::Zero(D32()); }
  HWY_INLINE void add(V16 a, V16 b) {
    even = hn::ReorderWidenMulAccumulate(D32(), a, b, even, odd);
  }
  HWY_INLINE V32 whole() const { return hn::RearrangeToOddPlusEven(even, odd); }
};

HWY_INLINE V16 pair_at(const void* at) {
  int32_t pair;
  std::memcpy(&pair, at, 4);
  return hn::BitCast(D16(), hn::Set(D32(), pair));
}

template <int kRows>
void block(int64_t pairs, const int16_t* HWY_RESTRICT a, const int8_t* HWY_RESTRICT panel,
           int32_t* sums, int64_t sums_row) {
  const hn::Rebind<int8_t, D16> bytes;
  Sum sum[kRows][2];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    sum[i][0].clear();
    sum[i][1].clear();
  }
  for (int64_t p = 0; p < pairs; ++p, a += 2 * kRows, panel += 2 * kNr) {
    const V16 b0 = hn::PromoteTo(D16(), hn::LoadU(bytes, panel));
    const V16 b1 = hn::PromoteTo(D16(), hn::LoadU(bytes, panel + 2 * kLanes));
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const V16 factor = pair_at(a + 2 * i);
      sum[i][0].add(factor, b0);
      sum[i][1].add(factor, b1);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    hn::StoreU(sum[i][0].whole(), D32(), sums + i * sums_row);
    hn::StoreU(sum[i][1].whole(), D32(), sums + i * sums_row + kLanes);
  }
}

using Block = void (*)(int64_t pairs, const int16_t* a, const int8_t* panel, int32_t* sums,
                       int64_t sums_row);
template <int... kIndex>
constexpr std::array<Block, kMr> blocks_of(std::integer_sequence<int, kIndex...>) {
  return {block<kIndex + 1>...};
}
constexpr auto kBlocks = blocks_of(std::make_integer_sequence<int, kMr>());

void sums(int rows, int64_t columns, int64_t pairs, const int16_t* a, const int8_t* panels,
          int32_t* sums, int64_t sums_row) {
  for (; columns > 0; columns -= kNr, panels += pairs * 2 * kNr, sums += kNr)
    kBlocks[static_cast<size_t>(rows - 1)](pairs, a, panels, sums, sums_row);
}

// With a step of 2, a vector of pairs gives a vector of results. With a step of 1 it gives every
// other result, and the vector that starts one element later gives the ones between.
template <int kVectors>
HWY_INLINE void depthwise_sums(int taps, const int64_t* offset, const int32_t* weights,
                               const int16_t* x, bool dense, Sum (&sum)[kVectors]) {
  const D16 d;
  const int64_t behind = dense ? 1 : 2 * kLanes, next = dense ? 2 * kLanes : 4 * kLanes;
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) sum[v].clear();
  const auto add = [&](int t) HWY_ATTR {
    const V16 w = pair_at(weights + t);
    const int16_t* const from = x + offset[t];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v += 2) {
      sum[v].add(w, hn::LoadU(d, from + v / 2 * next));
      sum[v + 1].add(w, hn::LoadU(d, from + v / 2 * next + behind));
    }
  };
  int t = 0;
  if constexpr (!kSavesCode)
    for (; t + 3 <= taps; t += 3) {
      add(t);
      add(t + 1);
      add(t + 2);
    }
  for (; t < taps; ++t) add(t);
}

template <int kVectors>
HWY_INLINE void depthwise_block(int taps, const int64_t* offset, const int32_t* weights,
                                const int16_t* x, bool dense, int32_t* to) {
  Sum sum[kVectors];
  depthwise_sums(taps, offset, weights, x, dense, sum);
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; v += 2, to += kNr) {
    if (dense) {
      hn::StoreInterleaved2(sum[v].whole(), sum[v + 1].whole(), D32(), to);
    } else {
      hn::StoreU(sum[v].whole(), D32(), to);
      hn::StoreU(sum[v + 1].whole(), D32(), to + kLanes);
    }
  }
}

void depthwise(int taps, const int64_t* offset, const int32_t* weights, const int16_t* x,
               int64_t step, int64_t count, int32_t* sums) {
  const bool dense = step == 1;
  for (; count > kNr; count -= 2 * kNr, x += 2 * kNr * step, sums += 2 * kNr)
    depthwise_block<4>(taps, offset, weights, x, dense, sums);
  if (count > 0) depthwise_block<2>(taps, offset, weights, x, dense, sums);
}

#if HWY_TARGET == HWY_AVX2 && !defined(HG_SMALL)

template <int kVectors>
HWY_INLINE void rounded_block(int taps, const int64_t* offset, const int32_t* weights,
                              const int16_t* x, bool dense, const AsBytes& as_bytes, V32 add,
                              hn::Vec<DF> scale, uint8_t* to) {
  Sum sum[kVectors];
  depthwise_sums(taps, offset, weights, x, dense, sum);
  const auto scaled = [&](const Sum& each) HWY_ATTR {
    return hn::Mul(hn::ConvertTo(DF(), hn::Add(each.whole(), add)), scale);
  };
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; v += 2, to += kNr) {
    const auto even = scaled(sum[v]), odd = scaled(sum[v + 1]);
    dense ? as_bytes.store_interleaved(even, odd, to) : as_bytes.store(even, odd, to);
  }
}

template <bool kDense>
HWY_INLINE void rounded_line(int taps, const int64_t* offset, const int32_t* weights,
                             const int16_t* x, int64_t count, const IntegerFinish& f, uint8_t* y) {
  const AsBytes as_bytes(f);
  const V32 add = hn::Set(D32(), f.add);
  const auto scale = hn::Set(DF(), *f.scale);
  constexpr int64_t kStep = kDense ? 1 : 2;
  for (; count > kNr; count -= 2 * kNr, x += 2 * kNr * kStep, y += 2 * kNr)
    rounded_block<4>(taps, offset, weights, x, kDense, as_bytes, add, scale, y);
  if (count > 0) rounded_block<2>(taps, offset, weights, x, kDense, as_bytes, add, scale, y);
}

void depthwise_rounded(int taps, const int64_t* offset, const int32_t* weights, const int16_t* x,
                       int64_t step, int64_t count, const IntegerFinish& f, uint8_t* y) {
  step == 1 ? rounded_line<true>(taps, offset, weights, x, count, f, y)
            : rounded_line<false>(taps, offset, weights, x, count, f, y);
}

#endif

// For a whole number of vectors of kNr bytes, or of 16 bytes.
HWY_INLINE void interleave_whole(const uint8_t* even, const uint8_t* odd, uint8_t flip,
                                 uint8_t* to) {
  constexpr int kBytes = kNr < 16 ? kNr : 16;
  const hn::Simd<uint8_t, kBytes, 0> d;
  const auto mask = hn::Set(d, flip);
  for (int j = 0; j < kNr; j += kBytes) {
    const auto a = hn::Xor(hn::LoadU(d, even + j), mask), b = hn::Xor(hn::LoadU(d, odd + j), mask);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, to + 2 * j);
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + 2 * j + kBytes);
  }
}

void interleave(int64_t columns, const uint8_t* even, const uint8_t* odd, uint8_t flip,
                uint8_t* to) {
  if (columns == kNr) return interleave_whole(even, odd, flip, to);
  uint8_t parts[2][kNr] = {};
  std::memcpy(parts[0], even, static_cast<size_t>(columns));
  std::memcpy(parts[1], odd, static_cast<size_t>(columns));
  interleave_whole(parts[0], parts[1], flip, to);
}

#endif

void pack(int64_t columns, const uint8_t* even, const uint8_t* odd, uint8_t flip, int8_t* to,
          int64_t panel_step) {
  for (int64_t j = 0; j < columns; j += kNr, to += panel_step)
    interleave(std::min<int64_t>(kNr, columns - j), even + j, odd + j, flip,
               reinterpret_cast<uint8_t*>(to));
}

#if HWY_TARGET == HWY_SCALAR

void widen(int64_t rows, int64_t count, int64_t, const uint8_t* from, bool is_signed, int16_t zero,
           int16_t* to, int64_t step) {
  for (int64_t i = 0; i < rows; ++i, from += count, to += step)
    for (int64_t j = 0; j < count; ++j)
      to[j] = static_cast<int16_t>((is_signed ? static_cast<int8_t>(from[j]) : from[j]) - zero);
}

#else

void widen(int64_t rows, int64_t count, int64_t readable, const uint8_t* from, bool is_signed,
           int16_t zero, int16_t* to, int64_t step) {
  constexpr int kWide = 2 * kLanes;
  const D16 d;
  const hn::Rebind<uint8_t, D16> bytes;
  // i8 are turned into u8.
  const auto flip = hn::Set(bytes, is_signed ? 128 : 0);
  const V16 less = hn::Set(d, static_cast<int16_t>(zero + (is_signed ? 128 : 0)));
  const auto number = [&](const uint8_t* at) HWY_ATTR {
    return hn::Sub(hn::PromoteTo(d, hn::Xor(hn::LoadU(bytes, at), flip)), less);
  };
  if (count >= kWide) {  // the last vector overlaps the preceding one
    for (int64_t i = 0; i < rows; ++i, from += count, to += step)
      for (int64_t j = 0; j < count; j += kWide) {
        const int64_t at = std::min(j, count - kWide);
        hn::StoreU(number(from + at), d, to + at);
      }
    return;
  }
  // The next row overwrites the excess.
  const auto valid = hn::FirstN(d, static_cast<size_t>(count));
  for (int64_t i = 0; i < rows; ++i, from += count, to += step, readable -= count) {
    uint8_t part[kWide];
    if (readable < kWide) {
      std::memcpy(part, from, static_cast<size_t>(count));
      hn::StoreU(hn::IfThenElseZero(valid, number(part)), d, to);
    } else {
      hn::StoreU(hn::IfThenElseZero(valid, number(from)), d, to);
    }
  }
}

#endif

// 8-bit results without inputs per column.
void finish_bytes(int64_t rows, int64_t columns, const int32_t* sums, int64_t sums_row,
                  const IntegerFinish& f, uint8_t* y, int64_t y_row) {
  const AsBytes as_bytes(f);
  uint8_t* const end = y + (rows - 1) * y_row + columns;
  for (int64_t i = 0; i < rows; ++i, sums += sums_row) {
    const int64_t row = f.row_at(i);
    const V32 start = hn::Set(D32(), f.row_add ? f.row_add[row] : f.add);
    const auto scale = hn::Set(DF(), f.scale[f.scale_by_row ? row : 0]);
    uint8_t* to = y + row * y_row;
    int64_t j = 0;
#if HWY_TARGET == HWY_AVX2
    const auto scaled = [&](int64_t at) HWY_ATTR {
      return hn::Mul(hn::ConvertTo(DF(), hn::Add(hn::LoadU(D32(), sums + at), start)), scale);
    };
    if constexpr (!kSavesCode)
      for (; j + kNr <= columns; j += kNr, to += kNr)
        as_bytes.store(scaled(j), scaled(j + kLanes), to);
#endif
    for (; j < columns; j += kLanes, to += kLanes) {
      const V32 sum = hn::Add(hn::LoadU(D32(), sums + j), start);
      // The next row overwrites the excess.
      const bool is_whole = !f.row && y_row == columns && end - to >= kLanes;
      store_low_bytes(as_bytes.in_lanes(hn::Mul(hn::ConvertTo(DF(), sum), scale)),
                      is_whole ? kLanes : columns - j, to);
    }
  }
}

void finish(int64_t rows, int64_t columns, const int32_t* sums, int64_t sums_row,
            const IntegerFinish& f, void* y, int64_t y_row) {
  const bool is_bytes = f.to == DType::u8 || f.to == DType::i8;
  if (is_bytes && !f.column_add && !f.row_factor && !f.scale_by_column)
    return finish_bytes(rows, columns, sums, sums_row, f, static_cast<uint8_t*>(y), y_row);
  const D32 d;
  const AsBytes as_bytes(f);
  const int size = is_bytes ? 1 : 4;
#pragma GCC unroll 1
  for (int64_t i = 0; i < rows; ++i, sums += sums_row) {
    const int64_t row = f.row_at(i);
    const V32 start = hn::Set(d, f.row_add ? f.row_add[row] : f.add);
    const V32 factor = hn::Set(d, f.row_factor ? f.row_factor[i] : 0);
    auto scale = hn::Set(DF(), f.scale ? f.scale[f.scale_by_row ? row : 0] : 1.0f);
    char* to = static_cast<char*>(y) + row * y_row * size;
    int64_t j = 0;
#if HWY_TARGET == HWY_AVX2
    const auto scaled = [&](int64_t at) HWY_ATTR {
      V32 sum = hn::Add(hn::LoadU(d, sums + at), start);
      if (f.column_add) sum = hn::Add(sum, hn::LoadU(d, f.column_add + at));
      if (f.row_factor) sum = hn::Add(sum, hn::Mul(factor, hn::LoadU(d, f.column_factor + at)));
      const auto by = f.scale_by_column ? hn::LoadU(DF(), f.scale + at) : scale;
      return hn::Mul(hn::ConvertTo(DF(), sum), by);
    };
    if constexpr (!kSavesCode)
      for (; is_bytes && j + kNr <= columns; j += kNr, to += kNr)
        as_bytes.store(scaled(j), scaled(j + kLanes), reinterpret_cast<uint8_t*>(to));
#endif
#pragma GCC unroll 1
    for (; j < columns; j += kLanes, to += kLanes * size) {
      const int valid = columns - j < kLanes ? static_cast<int>(columns - j) : kLanes;
      V32 bits = hn::Add(hn::LoadU(d, sums + j), start);
      if (f.column_add) bits = hn::Add(bits, columns_at(f.column_add + j, valid));
      if (f.row_factor)
        bits = hn::Add(bits, hn::Mul(factor, columns_at(f.column_factor + j, valid)));
      if (f.scale) {
        if (f.scale_by_column) scale = hn::BitCast(DF(), columns_at(f.scale + j, valid));
        const auto x = hn::Mul(hn::ConvertTo(DF(), bits), scale);
        if (is_bytes) {
          store_low_bytes(as_bytes.in_lanes(x), valid, reinterpret_cast<uint8_t*>(to));
          continue;
        }
        bits = hn::BitCast(d, x);
      }
      if (valid == kLanes) {
        hn::StoreU(bits, d, reinterpret_cast<int32_t*>(to));
        continue;
      }
      HWY_ALIGN int32_t part[kLanes];
      hn::Store(bits, d, part);
      std::memcpy(to, part, static_cast<size_t>(valid) * 4);
    }
  }
}

#if !defined(HG_SMALL)
void plain_byte_rows(const ByteRows& r, const IntegerFinish& f) {
  r.is_signed ? plain_rows<int8_t>(r, f, finish) : plain_rows<uint8_t>(r, f, finish);
}
#if defined(HG_HAS_DOT)
void dot_byte_rows(const ByteRows& r, const IntegerFinish& f) { dot_rows(r, f, finish); }
#endif
#if defined(HG_HAS_TILES)
void tile_byte_rows(const ByteRows& r, const IntegerFinish& f) {
  begin_tiles();
  tile_rows(r, f, finish);
  end_tiles();
}
#endif
#endif

#if HWY_TARGET == HWY_AVX3

// Lane i of sum r has the result of element kSums i + r, as its four bytes of x begin there. The
// bytes of kSums results then fill a lane. A step of 2 has the half of these results.
template <int kStep>
HWY_INLINE void depthwise_line(const DepthwiseBytes& p, const uint8_t* line, uint8_t* y, V32 add,
                               hn::Vec<DF> scale, const AsBytes& as_bytes) {
  constexpr int kSums = 4 / kStep, kResults = kSums * kLanes;
  const V32 mask = hn::Set(D32(), 255);
  for (int64_t j = 0; j < p.count; j += kResults) {
    const uint8_t* const x = line + kStep * j;
    V32 sum[kSums];
#pragma GCC unroll 4
    for (int r = 0; r < kSums; ++r) sum[r] = add;
    for (int t = 0; t < p.taps; ++t) {
      const V32 w = hn::Set(D32(), p.weights[t]);
#pragma GCC unroll 4
      for (int r = 0; r < kSums; ++r) {
        const auto* const at = reinterpret_cast<const int32_t*>(x + p.offset[t] + kStep * r);
        sum[r] = add_quads<true>(sum[r], hn::LoadU(D32(), at), w);
      }
    }
    V32 bytes = hn::Zero(D32());
#pragma GCC unroll 4
    for (int r = kSums; r-- > 0;) {
      const V32 lanes = as_bytes.in_lanes(hn::Mul(hn::ConvertTo(DF(), sum[r]), scale));
      bytes = hn::Or(hn::ShiftLeft<8>(bytes), hn::And(lanes, mask));
    }
    const int64_t left = p.count - j;
    if constexpr (kStep == 1) {
      const hn::Repartition<uint8_t, D32> d;
      const auto all = hn::BitCast(d, bytes);
      if (left >= kResults)
        hn::StoreU(all, d, y + j);
      else
        hn::BlendedStore(all, hn::FirstN(d, static_cast<size_t>(left)), d, y + j);
    } else {
      const hn::FixedTag<uint8_t, 2 * kLanes> d;
      const hn::Vec<decltype(d)> all{_mm512_cvtepi32_epi16(bytes.raw)};
      if (left >= kResults)
        hn::StoreU(all, d, y + j);
      else
        hn::BlendedStore(all, hn::FirstN(d, static_cast<size_t>(left)), d, y + j);
    }
  }
}

template <int kStep>
void depthwise_bytes_of(const DepthwiseBytes& p, const IntegerFinish& f) {
  const AsBytes as_bytes(f);
  const V32 add = hn::Set(D32(), f.add);
  const auto scale = hn::Set(DF(), *f.scale);
  for (int64_t i = 0; i < p.lines; ++i)
    depthwise_line<kStep>(p, p.x + i * p.x_line, p.y + i * p.y_line, add, scale, as_bytes);
}

template <int64_t kBytes>
void copy_lines_in(const ByteLines& all) {
  const ByteLines l = all;  // stores of bytes could change `all`
  const hn::FixedTag<uint8_t, kBytes> d;
  const auto flip = hn::Set(d, l.flip), fill = hn::Set(d, l.fill);
  const int64_t whole = (l.bytes - 1) / kBytes * kBytes;  // bytes before the last vector
  const auto mask = hn::FirstN(d, static_cast<size_t>(l.bytes - whole));
  const uint8_t* from = l.from + whole;
  uint8_t* to = l.to + whole;
  for (int64_t i = 0; i < l.count; ++i, from += l.from_step, to += l.to_step) {
    for (int64_t j = -whole; j < 0; j += kBytes)
      hn::StoreU(hn::Xor(hn::LoadU(d, from + j), flip), d, to + j);
    const auto x = HWY_LIKELY(l.from_end - from >= kBytes) ? hn::LoadU(d, from)
                                                           : hn::MaskedLoad(mask, d, from);
    const auto y = hn::IfThenElse(mask, hn::Xor(x, flip), fill);
    if (HWY_LIKELY(l.to_end - to >= kBytes))
      hn::StoreU(y, d, to);
    else
      hn::BlendedStore(y, mask, d, to);
  }
}
void copy_lines(const ByteLines& lines) {
  lines.bytes <= ByteLines::kShort ? copy_lines_in<ByteLines::kShort>(lines)
                                   : copy_lines_in<ByteLines::kLong>(lines);
}

void depthwise_bytes(const DepthwiseBytes& p, const IntegerFinish& f) {
  p.step == 1 ? depthwise_bytes_of<1>(p, f) : depthwise_bytes_of<2>(p, f);
}

#endif

}  // namespace

// With VNNI or without.
template <bool kDot>
constexpr IntegerTable table() {
  IntegerTable t;
  t.mr = kMr;
  t.nr = kNr;
  t.sums = sums;
  t.finish = finish;
  t.pack = pack;
#if defined(HG_HAS_QUADS)
  if constexpr (kDot || !kSignedDot) {
    t.signed_quads = kSignedDot;
    t.places_by_row = kPlacesByRow<kDot>;
    t.most_pair = kDot ? 2 * kMostWeight : kMostWeight;
    t.quad_sums = quad_sums<kQuadBlocks<kDot, 1>, kQuadBlocks<kDot, 2>>;
    t.quad_bytes = quad_bytes<kQuadBytesBlocks<kDot, 1>, kQuadBytesBlocks<kDot, 2>>;
    t.pack_quads = pack_quads;
#if !HWY_ARCH_ARM_A64
    t.quad_few = quad_few<kDot>;
    t.most_few = kLanes / 2;
#endif
  }
#endif
#if !defined(HG_SMALL)
  t.byte_rows = plain_byte_rows;
#if defined(HG_HAS_DOT)
  if constexpr (kDot) {
    t.byte_rows = dot_byte_rows;
    (kSignedDot ? t.more_u8 : t.more_i8) = kSignedDot ? -128 : 128;
  }
#endif
#endif
  t.widen = widen;
  t.depthwise = depthwise;
#if HWY_TARGET == HWY_AVX2 && !defined(HG_SMALL)
  t.depthwise_rounded = depthwise_rounded;
#endif
#if HWY_TARGET == HWY_AVX3
  if (kDot) t.depthwise_bytes = depthwise_bytes;
  if (kDot) t.copy_lines = copy_lines;
#endif
  return t;
}
#if !HG_SIMD_VNNI_ONLY
constexpr IntegerTable kTable = table<false>();
#endif
#if defined(HG_HAS_DOT)
constexpr IntegerTable kDotTable = table<true>();
#endif
#if defined(HG_HAS_TILES)
constexpr IntegerTable tile_table() {
  IntegerTable t = table<true>();
  t.mr = kTileMr;
  t.in_tiles = true;
  t.side = kTileSide;
  t.begin_tiles = begin_tiles;
  t.end_tiles = end_tiles;
  t.quad_sums = tile_quad_sums;
  t.quad_bytes = tile_quad_bytes;
  t.byte_rows = tile_byte_rows;
  t.more_i8 = 0;
  t.quad_few = nullptr;
  t.most_few = 0;
  return t;
}
constexpr IntegerTable kTileTable = tile_table();
#endif
#if defined(HG_HAS_SQUARES)
constexpr IntegerTable square_table() {
  IntegerTable t = table<true>();
  t.mr = kSquareMr;
  t.side = 2;
  t.quad_sums = quad_sums<kSquareBlocks<1>, kSquareBlocks<2>>;
  t.quad_bytes = quad_bytes<kSquareBytesBlocks<1>, kSquareBytesBlocks<2>>;
  return t;
}
constexpr IntegerTable kSquareTable = square_table();
#endif

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {
const IntegerTable& integer_table() {
  return *(HG_SIMD_AMX(kTileTable) HG_SIMD_NEON_I8MM(kSquareTable) & integer_table_of_quads());
}
const IntegerTable& integer_table_of_quads() { return *HG_SIMD_CHOOSE_BYTES(kDotTable, kTable); }
}  // namespace hg::kernels
#endif
