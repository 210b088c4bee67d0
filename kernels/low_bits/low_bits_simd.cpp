// SPDX-License-Identifier: Apache-2.0
// The loops of low_bits_simd.h. Several rows of bytes and several rows of x share loads. Each
// segment ends with one multiplication by the scale, or begins with one by all possible levels.
#include "kernels/low_bits/low_bits_simd.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/low_bits/low_bits_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/low_bits/level_tiles-inl.h"
#include "kernels/low_bits/scale_rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;

// A Decoder unpacks a chunk of levels and adds the products with x to a Sum; scaled() multiplies
// the sum of a segment. If kScalesLevels, numbers() selects from the multiplied levels of
// scaled_levels() instead, and one sum has the products of all segments.

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE int level_of(int8_t byte, bool nibbles, int stream) {
  if (!nibbles) return byte;
  return stream == 0 ? static_cast<int8_t>(static_cast<uint8_t>(byte) << 4) >> 4 : byte >> 4;
}
// The position in x that byte i of a chunk multiplies. Exact loops of 4 bits transpose it.
HWY_INLINE int turned(int i) { return i % 4 * 4 + i / 4; }

template <bool kNibbles>
struct Decoder {
  using Sum = float;
  static constexpr bool kHigh = kNibbles, kScalesLevels = false;
  static Sum none() { return 0; }
  using Bytes = const int8_t*;
  static Bytes load(const int8_t* at) { return at; }
  template <int kStream>
  static void add(const Bytes bytes, const float* x, Sum& sum) {
    for (int i = 0; i < kChunkBytes; ++i)
      sum +=
          x[kNibbles ? turned(i) : i] * static_cast<float>(level_of(bytes[i], kNibbles, kStream));
  }
  static V scaled(const Sum& sum, float scale, V total) {
    return hn::MulAdd(hn::Set(D(), sum), hn::Set(D(), scale), total);
  }
};

#else

// A sum has two parts, which do not wait for each other, unless a vector holds a whole chunk.
struct InParts {
  static constexpr int kParts = kLanes < 16 ? 2 : 1;
  struct Sum {
    HWY_INLINE Sum() {}  // an implicit constructor would not be compiled for the instruction set
    V part[kParts];
  };
  static HWY_INLINE Sum none() {
    Sum sum;
    sum.part[0] = sum.part[kParts - 1] = hn::Zero(D());
    return sum;
  }
  static HWY_INLINE V scaled(const Sum& sum, float scale, V total) {
    const V all = kParts == 1 ? sum.part[0] : hn::Add(sum.part[0], sum.part[kParts - 1]);
    return hn::MulAdd(all, hn::Set(D(), scale), total);
  }
};

template <bool kNibbles>
struct Decoder;

// Vectors of i32 hold the bytes of a chunk, the same 16 in each 128-bit part. A different shift in
// each part leaves 4 bits of each i32: byte b of word w is at 4 b + w.
template <>
struct Decoder<true> : InParts {
  static constexpr bool kHigh = true, kScalesLevels = HWY_TARGET == HWY_AVX3;
  using Bytes = VI;
  static HWY_INLINE Bytes load(const int8_t* at) {
    return hn::LoadDup128(DI(), reinterpret_cast<const int32_t*>(at));
  }
#if HWY_TARGET == HWY_AVX3
  static HWY_INLINE V scaled_levels(float scale) {
    HWY_ALIGN static constexpr float kLevels[16] = {0,  1,  2,  3,  4,  5,  6,  7,
                                                    -8, -7, -6, -5, -4, -3, -2, -1};
    return hn::Mul(hn::Load(D(), kLevels), hn::Set(D(), scale));
  }
  template <int kStream>
  static HWY_INLINE V numbers(const Bytes bytes, V levels) {
    const DI di;
    HWY_ALIGN static constexpr int32_t kPlace[16] = {0,  0,  0,  0,  8,  8,  8,  8,
                                                     16, 16, 16, 16, 24, 24, 24, 24};
    const VI shift = hn::Add(hn::Load(di, kPlace), hn::Set(di, 4 * kStream));
    // The instruction reads only the low 4 bits of each index.
    return V{_mm512_permutexvar_ps(_mm512_srlv_epi32(bytes.raw, shift.raw), levels.raw)};
  }
#else
  template <int kStream>
  static HWY_INLINE void add(const Bytes bytes, const float* HWY_RESTRICT x, Sum& sum) {
    const D d;
    const DI di;
    HWY_ALIGN static constexpr int32_t kShift[2][16] = {
        {28, 28, 28, 28, 20, 20, 20, 20, 12, 12, 12, 12, 4, 4, 4, 4},
        {24, 24, 24, 24, 16, 16, 16, 16, 8, 8, 8, 8, 0, 0, 0, 0}};
#pragma GCC unroll 4
    for (int t = 0; t < 16; t += kLanes) {
      const VI level = hn::ShiftRight<28>(hn::Shl(bytes, hn::Load(di, kShift[kStream] + t)));
      V& part = sum.part[t / kLanes % kParts];
      part = hn::MulAdd(hn::LoadU(d, x + t), hn::ConvertTo(d, level), part);
    }
  }
#endif
};

template <>
struct Decoder<false> : InParts {
  static constexpr bool kHigh = false, kScalesLevels = false;
  using Bytes = const int8_t*;
  static HWY_INLINE Bytes load(const int8_t* at) { return at; }
  template <int kStream>
  static HWY_INLINE void add(const Bytes bytes, const float* HWY_RESTRICT x, Sum& sum) {
    const D d;
    const hn::Rebind<int8_t, D> narrow;
#pragma GCC unroll 4
    for (int t = 0; t < 16; t += kLanes) {
      const VI level = hn::PromoteTo(DI(), hn::LoadU(narrow, bytes + t));
      V& part = sum.part[t / kLanes % kParts];
      part = hn::MulAdd(hn::LoadU(d, x + t), hn::ConvertTo(d, level), part);
    }
  }
};

#endif

// The products of kRows rows of x and kColumns rows of bytes.
template <class Decode, int kRows, int kColumns>
HWY_NOINLINE void block(const LowBitsProduct& p, const float* x, int64_t column, float* y) {
  using Sum = typename Decode::Sum;
  const LevelRows& w = p.w;
  const bool shares = Decode::kHigh && w.half > 0;
  const int64_t chunk_step = Decode::kHigh && !shares ? 2 * kChunkBytes : kChunkBytes;
  [[maybe_unused]] const int64_t high_at = shares ? 0 : kChunkBytes;
  const D d;
  V total[2][kRows][kColumns];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) total[0][i][j] = total[1][i][j] = hn::Zero(d);
  HWY_ALIGN float room[2 * kColumns * kScaleRoom];
  BlockScales<Decode::kHigh, kColumns> scales(w, column, room);
  const int8_t* ahead = w.levels + column * w.row_bytes + kFetchAhead;
  for (int64_t s = 0; s < w.segment_count; ++s) {
    const Segment segment = w.segments[s];
    [[maybe_unused]] const bool same = scales.has_one_group(segment);
    const int8_t* from = w.levels + column * w.row_bytes + segment.begin;
    scales.reach(segment);
    [[maybe_unused]] V low_levels[kColumns], high_levels[kColumns];
    [[maybe_unused]] Sum low[kRows][kColumns], high[kRows][kColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      if constexpr (Decode::kScalesLevels) {
        low_levels[j] = Decode::scaled_levels(scales.low(j));
        high_levels[j] = same ? low_levels[j] : Decode::scaled_levels(scales.high(j));
      } else {
#pragma GCC unroll 4
        for (int i = 0; i < kRows; ++i) {
          low[i][j] = Decode::none();
          if constexpr (Decode::kHigh) high[i][j] = Decode::none();
        }
      }
    }
    alignas(16) int8_t part[kColumns][kChunkBytes];
    for (int64_t left = segment.bytes, step = w.row_bytes; left > 0;
         left -= kChunkBytes, from += kChunkBytes) {
      if (left < kChunkBytes) [[unlikely]] {
        std::memset(part, 0, sizeof part);
        for (int j = 0; j < kColumns; ++j)
          std::memcpy(part[j], from + j * step, static_cast<size_t>(left));
        from = part[0];
        step = kChunkBytes;
      }
      hwy::Prefetch(ahead);
      ahead += kColumns * kChunkBytes;
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) {
        const auto loaded = Decode::load(from + j * step);
        if constexpr (Decode::kScalesLevels) {
          const V low_numbers = Decode::template numbers<0>(loaded, low_levels[j]);
          const V high_numbers = Decode::template numbers<1>(loaded, high_levels[j]);
#pragma GCC unroll 4
          for (int i = 0; i < kRows; ++i) {
            const float* const row = x + i * p.x_row;
            V &low_total = total[0][i][j], &high_total = total[1][i][j];
            low_total = hn::MulAdd(hn::LoadU(d, row), low_numbers, low_total);
            high_total = hn::MulAdd(hn::LoadU(d, row + high_at), high_numbers, high_total);
          }
        } else {
#pragma GCC unroll 4
          for (int i = 0; i < kRows; ++i) {
            Decode::template add<0>(loaded, x + i * p.x_row, low[i][j]);
            if constexpr (Decode::kHigh)
              Decode::template add<1>(loaded, x + i * p.x_row + high_at, high[i][j]);
          }
        }
      }
      x += chunk_step;
    }
    if constexpr (!Decode::kScalesLevels) {
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kColumns; ++j) {
          total[0][i][j] = Decode::scaled(low[i][j], scales.low(j), total[0][i][j]);
          if constexpr (Decode::kHigh)
            total[1][i][j] = Decode::scaled(high[i][j], scales.high(j), total[1][i][j]);
        }
      }
    }
  }
  V sum[2][kRows][kColumns];  // `total` stays in registers: its indices are constants
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      sum[0][i][j] = total[0][i][j];
      sum[1][i][j] = total[1][i][j];
    }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) {
      float* const to = y + i * p.y_row + column + j;
      if (!shares) {
        *to = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum[0][i][j], sum[1][i][j])));
        continue;
      }
      *to = hn::GetLane(hn::SumOfLanes(d, sum[0][i][j]));
      if (column + j + w.half < w.n) to[w.half] = hn::GetLane(hn::SumOfLanes(d, sum[1][i][j]));
    }
}

template <class Decode, int kRows>
void rows_of(const LowBitsProduct& p, const float* x, float* y) {
  int64_t j = p.first;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kColumns = kRows == 1 ? 4 : 2;
  const int64_t both = p.w.half > 0 ? std::min(p.last, p.w.n - p.w.half) : p.last;
  for (; j + kColumns <= both; j += kColumns) block<Decode, kRows, kColumns>(p, x, j, y);
#endif
  for (; j < p.last; ++j)
    for (int i = 0; i < kRows; ++i) block<Decode, 1, 1>(p, x + i * p.x_row, j, y + i * p.y_row);
}

template <bool kNibbles>
void product(const LowBitsProduct& p) {
  const float* x = p.x;
  float* y = p.y;
  int64_t left = p.rows;
  const auto go_on = [&](int64_t rows) {
    left -= rows;
    x += rows * p.x_row;
    y += rows * p.y_row;
  };
  using Decode = Decoder<kNibbles>;
#if HWY_TARGET != HWY_SCALAR
  for (; left >= 4; go_on(4)) rows_of<Decode, 4>(p, x, y);
  for (; left >= 2; go_on(2)) rows_of<Decode, 2>(p, x, y);
#endif
  for (; left > 0; go_on(1)) rows_of<Decode, 1>(p, x, y);
}

// ---- Offsets ----

float dot(const float* a, const float* b, int64_t count) {
  const D d;
  V sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) total += a[i] * b[i];
  return total;
}

void add_offsets(const OffsetProduct& p) {
  for (int64_t row = p.first; row < p.last; ++row)
    for (int64_t i = 0; i < p.rows; ++i)
      p.y[i * p.y_row + row] += dot(p.offsets + row * p.groups, p.sums + i * p.groups, p.groups);
}

// ---- Widened levels ----

float widened(int level, float scale, const float* offset) {
  const float product = static_cast<float>(level) * scale;
  return offset == nullptr ? product : product + *offset;
}

// The levels of `count` bytes with the same scale; for pairs, two results per byte.
void widen_bytes(Stream stream, int64_t count, const int8_t* from, float scale, const float* offset,
                 float* to) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const DI di;
  const hn::Rebind<int8_t, D> narrow;
  const V times = hn::Set(d, scale), more = hn::Set(d, offset == nullptr ? 0 : *offset);
  const auto number = [&](VI level) HWY_ATTR {
    const V product = hn::Mul(hn::ConvertTo(d, level), times);
    return offset == nullptr ? product : hn::Add(product, more);
  };
  for (; i + kLanes <= count; i += kLanes) {
    const VI bytes = hn::PromoteTo(di, hn::LoadU(narrow, from + i));
    const VI low = hn::ShiftRight<28>(hn::ShiftLeft<28>(bytes)), high = hn::ShiftRight<4>(bytes);
    if (stream == Stream::pairs)
      hn::StoreInterleaved2(number(low), number(high), d, to + 2 * i);
    else
      hn::StoreU(number(stream == Stream::bytes ? bytes
                        : stream == Stream::low ? low
                                                : high),
                 d, to + i);
  }
#endif
  for (; i < count; ++i) {
    const int low = static_cast<int8_t>(static_cast<uint8_t>(from[i]) << 4) >> 4,
              high = from[i] >> 4;
    if (stream == Stream::pairs) {
      to[2 * i] = widened(low, scale, offset);
      to[2 * i + 1] = widened(high, scale, offset);
    } else {
      to[i] = widened(stream == Stream::bytes ? from[i]
                      : stream == Stream::low ? low
                                              : high,
                      scale, offset);
    }
  }
}

void widen(const LevelRows& w, const LevelRun& run, float* to) {
  HWY_ALIGN float room[kScaleRoom];
  const bool in_pairs = run.stream == Stream::pairs;
  const int8_t* from = run.from;
  auto group = static_cast<int32_t>(run.begin / run.group);
  ScaleRows<1> scales(w, run.row, (run.end - 1) / run.group + 1, 0, room);
  const float* offset = w.offsets == nullptr ? nullptr : w.offsets + run.row * w.groups + group;
  for (int64_t at = run.begin, next; at < run.end; at = next, ++group) {
    next = std::min(run.end, (group + int64_t{1}) * run.group);
    const float scale = kSavesCode ? w.scale(run.row * w.groups + group) : *scales.of(group);
    if (in_pairs && at % 2 != 0) {
      widen_bytes(Stream::high, 1, from++, scale, offset, to++);
      ++at;
    }
    const int64_t count = in_pairs ? (next - at) / 2 : next - at;
    widen_bytes(run.stream, count, from, scale, offset, to);
    from += count;
    to += in_pairs ? 2 * count : count;
    if (in_pairs && at < next && next % 2 != 0)
      widen_bytes(Stream::low, 1, from, scale, offset, to++);
    if (offset != nullptr) ++offset;
  }
}

}  // namespace

constexpr int64_t kFewRows = HWY_TARGET == HWY_AVX3 ? 16 : 8;
constexpr LowBitsTable kTable = {kFewRows, product<false>, product<true>, add_offsets, widen};
#if defined(HG_HAS_TILES)
constexpr LowBitsTable kTileTable = {kFewRows,    product<false>, product<true>,
                                     add_offsets, widen,          &kLevelTiles};
#endif

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const LowBitsTable& low_bits_table() { return *(HG_SIMD_AMX(kTileTable) HG_SIMD_CHOOSE(kTable)); }

}  // namespace hg::kernels
#endif
