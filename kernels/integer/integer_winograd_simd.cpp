// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "kernels/integer/integer_winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integer/integer_winograd_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/integer/integer_bytes-inl.h"
// clang-format on

#if HWY_TARGET == HWY_AVX2

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

using D16 = hn::Repartition<int16_t, D32>;
using V16 = hn::Vec<D16>;

HWY_INLINE V16 pairs_at(const int32_t* from) { return hn::BitCast(D16(), hn::LoadU(D32(), from)); }
HWY_INLINE void store_pairs(V16 x, int32_t* to) { hn::StoreU(hn::BitCast(D32(), x), D32(), to); }

// The columns of 8 tiles, each with two bytes of every tile.
HWY_INLINE void columns_of(const uint8_t* even, const uint8_t* odd, __m128i (&to)[2]) {
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(even)),
                b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(odd));
  const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const __m128i x = _mm_shuffle_epi8(_mm_unpacklo_epi8(a, b), order),
                y = _mm_shuffle_epi8(_mm_unpackhi_epi8(a, b), order);
  to[0] = _mm_unpacklo_epi64(x, y);
  to[1] = _mm_unpackhi_epi64(x, y);
}
HWY_INLINE void columns_of(const uint8_t* even, const uint8_t* odd, __m128i (&to)[4]) {
  const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
  __m128i two[4];  // tiles, with the same column side by side
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(even + 16 * i)),
                  b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(odd + 16 * i));
    two[2 * i] = _mm_shuffle_epi8(_mm_unpacklo_epi8(a, b), order);
    two[2 * i + 1] = _mm_shuffle_epi8(_mm_unpackhi_epi8(a, b), order);
  }
  const __m128i x = _mm_unpacklo_epi32(two[0], two[1]), y = _mm_unpacklo_epi32(two[2], two[3]),
                z = _mm_unpackhi_epi32(two[0], two[1]), w = _mm_unpackhi_epi32(two[2], two[3]);
  to[0] = _mm_unpacklo_epi64(x, y);
  to[1] = _mm_unpackhi_epi64(x, y);
  to[2] = _mm_unpacklo_epi64(z, w);
  to[3] = _mm_unpackhi_epi64(z, w);
}

template <int kM>
void split(const uint8_t* even, const uint8_t* odd, uint8_t flip, int64_t tiles_x, int32_t* to,
           int64_t plane_step) {
  const __m128i bits = _mm_set1_epi8(static_cast<char>(flip));
  for (int64_t t = 0; t < tiles_x; t += kLanes, even += kM * kLanes, odd += kM * kLanes) {
    __m128i x[kM], next[kM];
    columns_of(even, odd, x);
    columns_of(even + kM, odd + kM, next);
#pragma GCC unroll 6
    for (int j = 0; j < kM + 2; ++j) {
      const __m128i bytes = _mm_xor_si128(j < kM ? x[j] : next[j - kM], bits);
      store_pairs(V16{_mm256_cvtepi8_epi16(bytes)}, to + j * plane_step + t);
    }
  }
}

// B^T x. For m = 2: [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]. For m = 4, with the points 0, +-1,
// +-2 and infinity: [4 0 -5 0 1 0; 0 -4 -4 1 1 0; 0 4 -4 -1 1 0; 0 -2 -1 2 1 0; 0 2 -1 -2 1 0;
// 0 4 0 -5 0 1]. Of bytes, magnitudes are at most 128 * 10 * 10 after both dimensions.
HWY_INLINE void input_line(const V16 (&x)[4], V16 (&y)[4]) {
  y[0] = hn::Sub(x[0], x[2]);
  y[1] = hn::Add(x[1], x[2]);
  y[2] = hn::Sub(x[2], x[1]);
  y[3] = hn::Sub(x[1], x[3]);
}
HWY_INLINE void input_line(const V16 (&x)[6], V16 (&y)[6]) {
  const auto four = [](V16 v) HWY_ATTR { return hn::ShiftLeft<2>(v); };
  y[0] = hn::Add(four(hn::Sub(x[0], x[2])), hn::Sub(x[4], x[2]));
  y[1] = hn::Sub(hn::Add(x[3], x[4]), four(hn::Add(x[1], x[2])));
  y[2] = hn::Add(hn::Sub(x[4], x[3]), four(hn::Sub(x[1], x[2])));
  const V16 even = hn::Sub(x[4], x[2]), odd = hn::Sub(x[3], x[1]), twice = hn::Add(odd, odd);
  y[3] = hn::Add(even, twice);
  y[4] = hn::Sub(even, twice);
  y[5] = hn::Sub(hn::Sub(x[5], x[3]), four(odd));
}

template <int kM>
void input(int64_t tiles, int64_t tiles_x, const int32_t* planes, int64_t plane_step, int32_t* to,
           int64_t e_step, int64_t panel_step) {
  constexpr int kSide = kM + 2;
  for (int64_t t = 0; t < tiles; t += kLanes) {
    V16 lines[kSide][kSide];  // B^T d, transposed
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) {
      V16 x[kSide];
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i)
        x[i] = pairs_at(planes + (i % kM * kSide + j) * plane_step + (i >= kM ? tiles_x : 0) + t);
      input_line(x, lines[j]);
    }
    int32_t* const panel = to + t / kNr * panel_step + t % kNr;
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) {
      V16 x[kSide], y[kSide];
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j) x[j] = lines[j][i];
      input_line(x, y);
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j) store_pairs(y[j], panel + (i * kSide + j) * e_step);
    }
  }
}

template <int kRows, int kVectors>
void block(int64_t pairs, const int32_t* HWY_RESTRICT a, const int32_t* HWY_RESTRICT panel,
           int32_t* sums, int64_t sums_row) {
  V32 sum[kRows][kVectors], unused = hn::Zero(D32());
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(D32());
  constexpr int64_t kAhead = 512;  // weights to prefetch, which often come from memory
  for (int64_t p = 0; p < pairs; ++p, a += kRows, panel += kNr) {
    __builtin_prefetch(a + kAhead);
    V16 x[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) x[v] = pairs_at(panel + v * kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const V16 w = hn::BitCast(D16(), hn::Set(D32(), a[i]));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        sum[i][v] = hn::ReorderWidenMulAccumulate(D32(), x[v], w, sum[i][v], unused);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(sum[i][v], D32(), sums + i * sums_row + v * kLanes);
}

using Block = void (*)(int64_t pairs, const int32_t* a, const int32_t* panel, int32_t* sums,
                       int64_t sums_row);
template <int kVectors, int... kIndex>
constexpr std::array<Block, kMr> blocks_of(std::integer_sequence<int, kIndex...>) {
  return {block<kIndex + 1, kVectors>...};
}
constexpr auto kOneVector = blocks_of<1>(std::make_integer_sequence<int, kMr>());
constexpr auto kTwoVectors = blocks_of<2>(std::make_integer_sequence<int, kMr>());

void products(int rows, int64_t columns, int64_t pairs, const int32_t* a, const int32_t* panels,
              int32_t* sums, int64_t sums_row) {
  const auto at = static_cast<size_t>(rows - 1);
  for (; columns > 0; columns -= kNr, panels += pairs * kNr, sums += kNr)
    (columns > kLanes ? kTwoVectors : kOneVector)[at](pairs, a, panels, sums, sums_row);
}

// Multiples of A^T x. For m = 2, twice: A = [1 1 1 0; 0 1 -1 -1], and the weights scale the rows 0
// and 3 by 2. For m = 4, 24 times: A^T = [1 1 1 1 1 0; 0 1 -1 2 -2 0; 0 1 1 4 4 0; 0 1 -1 8 -8 1]
// times 24 diag(1/4 -1/6 -1/6 1/24 1/24 1), of which the weights have the 3 in rows 0 and 5.
HWY_INLINE void output_line(const V32 (&x)[4], V32 (&y)[2]) {
  y[0] = hn::Add(hn::Add(x[0], x[1]), x[2]);
  y[1] = hn::Sub(hn::Sub(x[1], x[2]), x[3]);
}
HWY_INLINE void output_line(const V32 (&x)[6], V32 (&y)[4]) {
  const V32 sum_a = hn::Add(x[1], x[2]), difference_a = hn::Sub(x[1], x[2]);
  const V32 sum_b = hn::Add(x[3], x[4]), difference_b = hn::Sub(x[3], x[4]);
  const V32 odd = hn::ShiftLeft<2>(difference_a);
  y[0] = hn::Add(hn::Sub(hn::Add(x[0], x[0]), hn::ShiftLeft<2>(sum_a)), sum_b);
  y[1] = hn::Sub(hn::Add(difference_b, difference_b), odd);
  y[2] = hn::ShiftLeft<2>(hn::Sub(sum_b, sum_a));
  y[3] = hn::Sub(hn::ShiftLeft<3>(hn::Add(difference_b, x[5])), odd);
}

// y from 4 y, or from 576 y: the product with the inverse of 9 modulo 2^32 is 64 y.
template <int kM>
HWY_INLINE V32 unscaled(V32 x) {
  if constexpr (kM == 2) return hn::ShiftRight<2>(x);
  return hn::ShiftRight<6>(hn::Mul(x, hn::Set(D32(), 0x38e38e39)));
}

template <int kM>
void output(int64_t tiles, const int32_t* products, int64_t product_step, const IntegerFinish& f,
            uint8_t* lines, int64_t line_step) {
  constexpr int kSide = kM + 2;
  const AsBytes as_bytes(f);
  const V32 add = hn::Set(D32(), f.add), mask = hn::Set(D32(), 255);
  const auto scale = hn::Set(DF(), *f.scale);
  for (int64_t t = 0; t < tiles; t += kLanes) {
    V32 columns[kSide][kM];
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) {
      V32 x[kSide];
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i)
        x[i] = hn::LoadU(D32(), products + (i * kSide + j) * product_step + t);
      output_line(x, columns[j]);
    }
    // A lane has four bytes of a tile: a row, or both.
    V32 bytes = hn::Zero(D32());
#pragma GCC unroll 4
    for (int i = kM; i-- > 0;) {
      V32 x[kSide], y[kM];
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j) x[j] = columns[j][i];
      output_line(x, y);
#pragma GCC unroll 4
      for (int j = kM; j-- > 0;) {
        const V32 sum = hn::Add(unscaled<kM>(y[j]), add);
        const V32 level = as_bytes.in_lanes(hn::Mul(hn::ConvertTo(DF(), sum), scale));
        bytes = hn::Or(hn::ShiftLeft<8>(bytes), hn::And(level, mask));
      }
      if constexpr (kM == 4)
        hn::StoreU(bytes, D32(), reinterpret_cast<int32_t*>(lines + i * line_step + kM * t));
    }
    if constexpr (kM == 2) {
      const hn::Rebind<uint16_t, D32> half;
      const V32 low = hn::And(bytes, hn::Set(D32(), 0xffff));
      const V32 high =
          hn::BitCast(D32(), hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<D32>(), bytes)));
      hn::StoreU(hn::DemoteTo(half, low), half, reinterpret_cast<uint16_t*>(lines + kM * t));
      hn::StoreU(hn::DemoteTo(half, high), half,
                 reinterpret_cast<uint16_t*>(lines + line_step + kM * t));
    }
  }
}

}  // namespace

template <int kM>
constexpr IntegerWinogradTable kTable = {kMr, kNr, split<kM>, input<kM>, products, output<kM>};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

#if HWY_ONCE
namespace hg::kernels {

const IntegerWinogradTable* integer_winograd_table([[maybe_unused]] int m) {
#if HWY_TARGETS & HWY_AVX2
  if (chosen_isa() == Isa::avx2) return m == 2 ? &N_AVX2::kTable<2> : &N_AVX2::kTable<4>;
#endif
  return nullptr;
}

}  // namespace hg::kernels
#endif
