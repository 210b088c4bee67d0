// SPDX-License-Identifier: Apache-2.0
// The loops of rounded_simd.h.
#include "kernels/low_bits/rounded_simd.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/low_bits/rounded_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/low_bits/rounded_squares-inl.h"
#include "kernels/low_bits/rounded_tiles-inl.h"
#include "kernels/low_bits/scale_rows-inl.h"
#include "kernels/simd/dot-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

constexpr float kLeast = 0x1p-100f;  // smaller numbers count as 0

#if HWY_TARGET == HWY_SCALAR

float round(const float* x, int64_t count, int8_t* to) {
  float largest = 0, broken = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    broken += x[i] * 0.0f;
  }
  std::fill_n(to, count, int8_t{0});
  if (broken != 0) return std::numeric_limits<float>::quiet_NaN();
  if (largest < kLeast) return 0;
  const float times = 127 / largest;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int8_t>(std::nearbyint(x[i] * times));
  return largest / 127;
}

int level_of(int8_t byte, bool nibbles, int stream) {
  if (!nibbles) return byte;
  return stream == 0 ? static_cast<int8_t>(static_cast<uint8_t>(byte) << 4) >> 4 : byte >> 4;
}

// One row of x and one of bytes.
template <bool kDot, bool kNibbles, int kRows, int kColumns>
void block(const RoundedProduct& p, int64_t row, int64_t column) {
  static_assert(kRows == 1 && kColumns == 1);
  const LevelRows& w = p.w;
  const bool shares = kNibbles && w.half > 0;
  const int8_t* x = p.x + row * p.x_row;
  const RoundedSegment* scales = p.scales + row * w.segment_count;
  const int64_t high_row = shares ? std::min(column + w.half, w.n - 1) : column;
  float total[2] = {};
  for (int64_t s = 0; s < w.segment_count; ++s, ++scales) {
    const Segment segment = w.segments[s];
    const int8_t* from = w.levels + column * w.row_bytes + segment.begin;
    for (int stream = 0; stream < (kNibbles ? 2 : 1); ++stream) {
      const int64_t at = stream == 0 ? column * w.groups + segment.low_group
                                     : high_row * w.groups + segment.high_group;
      int32_t sum = 0;
      for (int i = 0; i < segment.bytes; ++i) sum += x[i] * level_of(from[i], kNibbles, stream);
      total[stream] += w.scale(at) * (stream == 0 ? scales->low_scale : scales->high_scale) *
                       static_cast<float>(sum);
      if (stream == 1 || !kNibbles || !shares) x += kRoundedBytes;
    }
  }
  float* const y = p.y + row * p.y_row + column;
  *y = shares || !kNibbles ? total[0] : total[0] + total[1];
  if (shares && column + w.half < w.n) y[w.half] = total[1];
}

#else

using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;

float round(const float* x, int64_t count, int8_t* to) {
  const D d;
  const hn::Rebind<int8_t, D> bytes;
  HWY_ALIGN float padded[kRoundedBytes];
  if (count < kRoundedBytes) {
    std::memset(padded, 0, sizeof padded);
    std::memcpy(padded, x, static_cast<size_t>(count) * 4);
    x = padded;
  }
  V most = hn::Zero(d), broken = hn::Zero(d);
#pragma GCC unroll 8
  for (int i = 0; i < kRoundedBytes; i += kLanes) {
    const V number = hn::LoadU(d, x + i);
    most = hn::Max(most, hn::Abs(number));
    broken = hn::MulAdd(number, hn::Zero(d), broken);
  }
  const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  const bool is_number = hn::GetLane(hn::SumOfLanes(d, broken)) == 0;
  if (!is_number || largest < kLeast) {
    std::memset(to, 0, static_cast<size_t>(count));
    return is_number ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  const V times = hn::Set(d, 127 / largest);
  HWY_ALIGN int8_t part[kRoundedBytes];
  int8_t* const all = count < kRoundedBytes ? part : to;
#pragma GCC unroll 8
  for (int i = 0; i < kRoundedBytes; i += kLanes) {
    const VI integers = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), times));
    hn::StoreU(hn::DemoteTo(bytes, integers), bytes, all + i);
  }
  if (all != to) std::memcpy(to, part, static_cast<size_t>(count));
  return largest / 127;
}

// ---- A few rows of x ----

using D8 = hn::CappedTag<int8_t, kRoundedBytes>;
using D16 = hn::Repartition<uint16_t, D8>;
using D32 = hn::Repartition<int32_t, D8>;
using DSum = hn::Repartition<float, D8>;
constexpr int kBytes = static_cast<int>(hn::MaxLanes(D8()));

// Levels are made unsigned by adding kExcess, except those of 8 bits without VNNI.
template <bool kDot, bool kNibbles>
constexpr int kExcess = kNibbles              ? 8
                        : kDot && !kSignedDot ? 128
                                              : 0;

// The products of kRows rows of x and kColumns rows of bytes.
template <bool kDot, bool kNibbles, int kRows, int kColumns>
HWY_NOINLINE void block(const RoundedProduct& p, int64_t row, int64_t column) {
  const D8 d8;
  const D16 d16;
  const D32 d32;
  const DSum d;
  using VSum = hn::Vec<DSum>;
  constexpr int kStreams = kNibbles ? 2 : 1;
  const LevelRows& w = p.w;
  const bool shares = kNibbles && w.half > 0;
  const int64_t high_at = shares || !kNibbles ? 0 : kRoundedBytes;
  const int8_t* x = p.x + row * p.x_row;
  const RoundedSegment* scales = p.scales + row * w.segment_count;
  VSum total[kStreams][kRows][kColumns];
#pragma GCC unroll 2
  for (int t = 0; t < kStreams; ++t)
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) total[t][i][j] = hn::Zero(d);
  HWY_ALIGN float room[2 * kColumns * kScaleRoom];
  BlockScales<kNibbles, kColumns> weight_scales(w, column, room);
  // Loads whole vectors: data beyond a segment is multiplied by zeros, but must be memory of the
  // weight.
  const int8_t* const rows = w.levels + column * w.row_bytes;
  const int64_t readable = (p.byte_rows - column - kColumns) * w.row_bytes + p.width;
  const int8_t* ahead = rows + kFetchAhead;
  for (int64_t s = 0; s < w.segment_count; ++s, ++scales) {
    const Segment segment = w.segments[s];
    weight_scales.reach(segment);
    const int8_t* from = rows + segment.begin;
    int64_t row_bytes = w.row_bytes;
    for (int64_t i = 0; i < kColumns * segment.bytes; i += kCacheLine) hwy::Prefetch(ahead + i);
    ahead += kColumns * segment.bytes;
    alignas(32) int8_t part[kColumns * kRoundedBytes];
    if (segment.bytes < kRoundedBytes && segment.begin + kRoundedBytes > readable) [[unlikely]] {
      for (int j = 0; j < kColumns; ++j)
        std::memcpy(part + j * kRoundedBytes, from + j * row_bytes,
                    static_cast<size_t>(segment.bytes));
      from = part;
      row_bytes = kRoundedBytes;
    }
    // Sums begin with the negated effect of the excess, in one lane.
    hn::Vec<D32> begin[kStreams][kRows];
#pragma GCC unroll 2
    for (int t = 0; t < kStreams; ++t)
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        begin[t][i] = hn::Zero(d32);
        if constexpr (kExcess<kDot, kNibbles> != 0) {
          const RoundedSegment& of = scales[i * w.segment_count];
          begin[t][i] = hn::IfThenElseZero(
              hn::FirstN(d32, 1),
              hn::Set(d32, -kExcess<kDot, kNibbles> * (t == 0 ? of.low_sum : of.high_sum)));
        }
      }
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      hn::Vec<D32> sums[kStreams][kRows];
#pragma GCC unroll 2
      for (int t = 0; t < kStreams; ++t)
#pragma GCC unroll 4
        for (int i = 0; i < kRows; ++i) sums[t][i] = begin[t][i];
#pragma GCC unroll 2
      for (int at = 0; at < kRoundedBytes; at += kBytes) {
        const auto bytes = hn::LoadU(d8, from + j * row_bytes + at);
        hn::Vec<D32> levels[2];
        if constexpr (kNibbles) {
          const auto raised = hn::Xor(bytes, hn::Set(d8, static_cast<int8_t>(0x88)));
          const auto mask = hn::BitCast(d16, hn::Set(d8, 15));
          const auto pairs = hn::BitCast(d16, raised);
          levels[0] = hn::BitCast(d32, hn::And(pairs, mask));
          levels[1] = hn::BitCast(d32, hn::And(hn::ShiftRight<4>(pairs), mask));
        } else if constexpr (kExcess<kDot, kNibbles> != 0) {
          levels[0] = hn::BitCast(d32, hn::Xor(bytes, hn::Set(d8, static_cast<int8_t>(0x80))));
        } else {
          levels[0] = hn::BitCast(d32, bytes);
        }
#pragma GCC unroll 4
        for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
          for (int t = 0; t < kStreams; ++t) {
            const auto meets =
                hn::BitCast(d32, hn::LoadU(d8, x + i * p.x_row + at + (t == 0 ? 0 : high_at)));
            if constexpr (kExcess<kDot, kNibbles> != 0)
              sums[t][i] = add_quads<kDot>(sums[t][i], levels[t], meets);
            else
              sums[t][i] = add_signed_quads<kDot>(sums[t][i], levels[t], meets);
          }
      }
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        const RoundedSegment& scale = scales[i * w.segment_count];
#pragma GCC unroll 2
        for (int t = 0; t < kStreams; ++t) {
          const float both = t == 0 ? weight_scales.low(j) * scale.low_scale
                                    : weight_scales.high(j) * scale.high_scale;
          total[t][i][j] =
              hn::MulAdd(hn::ConvertTo(d, sums[t][i]), hn::Set(d, both), total[t][i][j]);
        }
      }
    }
    x += kRoundedBytes + high_at;
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) {
      float* const to = p.y + (row + i) * p.y_row + column + j;
      float sum[2] = {};
      for (int t = 0; t < kStreams; ++t) sum[t] = hn::GetLane(hn::SumOfLanes(d, total[t][i][j]));
      *to = shares ? sum[0] : sum[0] + sum[1];
      if (shares && column + j + w.half < w.n) to[w.half] = sum[1];
    }
}

#endif

template <bool kDot, bool kNibbles, int kRows>
void rows_of(const RoundedProduct& p, int64_t row) {
  int64_t j = p.first;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kColumns = kRows == 1 ? 4 : 2;
  const int64_t both = p.w.half > 0 ? std::min(p.last, p.w.n - p.w.half) : p.last;
  for (; j + kColumns <= both; j += kColumns) block<kDot, kNibbles, kRows, kColumns>(p, row, j);
#endif
  for (; j < p.last; ++j)
    for (int i = 0; i < kRows; ++i) block<kDot, kNibbles, 1, 1>(p, row + i, j);
}

template <bool kDot, bool kNibbles>
void product(const RoundedProduct& p) {
  int64_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; row + 4 <= p.rows; row += 4) rows_of<kDot, kNibbles, 4>(p, row);
  for (; row + 2 <= p.rows; row += 2) rows_of<kDot, kNibbles, 2>(p, row);
#endif
  for (; row < p.rows; ++row) rows_of<kDot, kNibbles, 1>(p, row);
}

// ---- Panels ----

HWY_INLINE uint8_t low_level(uint8_t byte) { return static_cast<uint8_t>((byte & 15) ^ 8); }
HWY_INLINE uint8_t high_level(uint8_t byte) { return static_cast<uint8_t>((byte >> 4) ^ 8); }

constexpr uint8_t kBytesExcess = kSignedDot ? 0 : 128;

// The levels of tiles have no excess.
template <bool kForTiles>
void unpack(Stream stream, int64_t count, const uint8_t* from, uint8_t* to) {
  constexpr uint8_t kExcessOfBytes = kForTiles ? 0 : kBytesExcess, kLess = kForTiles ? 8 : 0;
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  const auto excess = hn::Set(d, stream == Stream::bytes ? kExcessOfBytes : 0x88),
             mask = hn::Set(d, 15);
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  for (; i + step <= count; i += step) {
    const auto bytes = hn::Xor(hn::LoadU(d, from + i), excess);
    const auto less = hn::Set(d, kLess);
    const auto low = hn::Sub(hn::And(bytes, mask), less),
               high = hn::Sub(
                   hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, bytes))), mask), less);
    if (stream == Stream::pairs)
      hn::StoreInterleaved2(low, high, d, to + 2 * i);
    else
      hn::StoreU(stream == Stream::bytes ? bytes : stream == Stream::low ? low : high, d, to + i);
  }
#endif
  for (; i < count; ++i) {
    if (stream == Stream::pairs) {
      to[2 * i] = static_cast<uint8_t>(low_level(from[i]) - kLess);
      to[2 * i + 1] = static_cast<uint8_t>(high_level(from[i]) - kLess);
    } else {
      to[i] = stream == Stream::bytes ? static_cast<uint8_t>(from[i] ^ kExcessOfBytes)
              : stream == Stream::low ? static_cast<uint8_t>(low_level(from[i]) - kLess)
                                      : static_cast<uint8_t>(high_level(from[i]) - kLess);
    }
  }
}

#if defined(HG_HAS_QUADS)

void pack(int64_t quads, const uint8_t* rows, int64_t row_step, uint8_t* to) {
  const hn::FixedTag<uint32_t, 4> d;
  const hn::Repartition<uint64_t, decltype(d)> pairs;
  const auto quads_at = [&](const uint8_t* at) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const uint32_t*>(at));
  };
  for (int64_t q = 0; q < quads; q += 4)
    for (int j = 0; j < 2 * kLanes; j += 4) {
      const uint8_t* const from = rows + j * row_step + 4 * q;
      const auto a = quads_at(from), b = quads_at(from + row_step),
                 c = quads_at(from + 2 * row_step), e = quads_at(from + 3 * row_step);
      const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
                 ab_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
                 ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
                 ce_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
      const auto store = [&](int64_t i, auto all) HWY_ATTR {
        if (q + i < quads)
          hn::StoreU(hn::BitCast(d, all), d,
                     reinterpret_cast<uint32_t*>(to) + (q + i) * 2 * kLanes + j);
      };
      store(0, hn::InterleaveLower(pairs, ab, ce));
      store(1, hn::InterleaveUpper(pairs, ab, ce));
      store(2, hn::InterleaveLower(pairs, ab_upper, ce_upper));
      store(3, hn::InterleaveUpper(pairs, ab_upper, ce_upper));
    }
}

constexpr int kPanelRows = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64 ? 6 : 2;

// The sums of a piece. Without VNNI, those of 4-bit levels fit 16 bits: 16 products of at most 15
// times 127.
template <bool kDot>
struct PieceSum {
  VI sum;
  HWY_INLINE PieceSum() {}  // an implicit constructor would not be compiled for the instruction set
  HWY_INLINE void begin(VI terms) { sum = kDot ? terms : hn::Zero(DI()); }
  HWY_INLINE void add(VI levels, VI x) {
    if constexpr (kDot) {
      sum = add_quads<true>(sum, levels, x);
    }
#if !HWY_ARCH_ARM_A64
    else {
      const hn::Repartition<int16_t, DI> d16;
#if HWY_TARGET == HWY_AVX3
      const VI products{_mm512_maddubs_epi16(levels.raw, x.raw)};
#else
      const VI products{_mm256_maddubs_epi16(levels.raw, x.raw)};
#endif
      sum = hn::BitCast(DI(), hn::Add(hn::BitCast(d16, sum), hn::BitCast(d16, products)));
    }
#endif
  }
  HWY_INLINE VI whole(VI terms) const {
    if constexpr (kDot) return sum;
#if HWY_ARCH_ARM_A64
    return terms;
#elif HWY_TARGET == HWY_AVX3
    return hn::Add(terms, VI{_mm512_madd_epi16(sum.raw, _mm512_set1_epi16(1))});
#else
    return hn::Add(terms, VI{_mm256_madd_epi16(sum.raw, _mm256_set1_epi16(1))});
#endif
  }
};

template <bool kDot, int kRows>
HWY_NOINLINE void panel_block(const RoundedPanel& p, int64_t row) {
  const D d;
  const DI di;
  V total[kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) total[i][0] = total[i][1] = hn::Zero(d);
  const uint8_t* HWY_RESTRICT levels = p.levels;
  const int8_t* HWY_RESTRICT x = p.x + row * p.x_row;
  const float* x_scale = p.x_scales + row * p.pieces;
  const int32_t* x_term = p.x_terms + row * p.pieces;
  const float* scales = p.scales;
  for (int64_t piece = 0; piece < p.pieces; ++piece, ++x_scale, ++x_term, scales += 2 * kLanes) {
    PieceSum<kDot> sum[kRows][2];
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const VI terms = hn::Set(di, x_term[i * p.pieces]);
      sum[i][0].begin(terms);
      sum[i][1].begin(terms);
    }
    for (int32_t q = 0; q < p.quads[piece]; ++q, levels += 8 * kLanes, x += 4) {
      const auto* const at = reinterpret_cast<const int32_t*>(levels);
      const VI first = hn::LoadU(di, at), second = hn::LoadU(di, at + kLanes);
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        int32_t quad;
        std::memcpy(&quad, x + i * p.x_row, 4);
        const VI number = hn::Set(di, quad);
        sum[i][0].add(first, number);
        sum[i][1].add(second, number);
      }
    }
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const VI terms = hn::Set(di, x_term[i * p.pieces]);
      const V scale = hn::Set(d, x_scale[i * p.pieces]);
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v)
        total[i][v] = hn::MulAdd(hn::ConvertTo(d, sum[i][v].whole(terms)),
                                 hn::Mul(scale, hn::LoadU(d, scales + v * kLanes)), total[i][v]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    float* const y = p.y + (row + i) * p.y_row;
    if (p.columns == 2 * kLanes) {
      hn::StoreU(total[i][0], d, y);
      hn::StoreU(total[i][1], d, y + kLanes);
      continue;
    }
    HWY_ALIGN float part[2 * kLanes];
    hn::Store(total[i][0], d, part);
    hn::Store(total[i][1], d, part + kLanes);
    std::memcpy(y, part, static_cast<size_t>(p.columns) * 4);
  }
}

template <bool kDot, int kRows>
int64_t panel_rows(const RoundedPanel& p, int64_t row) {
  for (; row + kRows <= p.rows; row += kRows) panel_block<kDot, kRows>(p, row);
  if constexpr (kRows > 1) row = panel_rows<kDot, kRows - 1>(p, row);
  return row;
}

template <bool kDot>
void panel(const RoundedPanel& p) {
  panel_rows<kDot, kPanelRows>(p, 0);
}

#endif

}  // namespace

// With VNNI or without.
template <bool kDot>
constexpr RoundedTable table() {
  RoundedTable t;
  t.round = round;
  t.bytes = product<kDot, false>;
  t.nibbles = product<kDot, true>;
  t.unpack = unpack<false>;
#if defined(HG_HAS_QUADS)
  if constexpr (kDot || !kSignedDot) {
    t.panel_columns = 2 * kLanes;
    t.pack = pack;
    t.bytes_excess = kBytesExcess;
    t.bytes_panel = kDot ? panel<kDot> : nullptr;
    t.nibbles_panel = panel<kDot>;
  }
#endif
  return t;
}
#if !HG_SIMD_VNNI_ONLY
constexpr RoundedTable kTable = table<false>();
#endif
#if defined(HG_HAS_DOT)
constexpr RoundedTable kDotTable = table<true>();
#endif
#if defined(HG_HAS_TILES)
constexpr RoundedTable tile_table() {
  RoundedTable t = table<true>();
  t.unpack = unpack<true>;
  t.bytes_excess = t.nibbles_excess = 0;
  t.in_tiles = t.whole_pieces = true;
  t.bytes_panel = t.nibbles_panel = tile_panel;
  return t;
}
constexpr RoundedTable kTileTable = tile_table();
#endif
#if defined(HG_HAS_SQUARES)
constexpr RoundedTable square_table() {
  RoundedTable t = table<true>();
  static_assert(kSquareColumns == 2 * kLanes);
  t.whole_pieces = true;
  t.pack = pack_for_squares;
  t.bytes_panel = t.nibbles_panel = square_panel;
  return t;
}
constexpr RoundedTable kSquareTable = square_table();
#endif

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const RoundedTable& rounded_table() {
  return *(HG_SIMD_AMX(kTileTable) HG_SIMD_NEON_I8MM(kSquareTable) & rounded_table_of_quads());
}
const RoundedTable& rounded_table_of_quads() { return *HG_SIMD_CHOOSE_BYTES(kDotTable, kTable); }

}  // namespace hg::kernels
#endif
