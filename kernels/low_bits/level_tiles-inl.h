// SPDX-License-Identifier: Apache-2.0
// Panels of levels times rows of x in tiles of AMX, for LowBitsTable. Levels are numbers of bf16,
// and numbers of x sums of such numbers, so that every product is exact. The sums of a group are
// scaled once. Included once for every instruction set.
#if defined(HG_KERNELS_LEVEL_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_LEVEL_TILES_INL_H_
#undef HG_KERNELS_LEVEL_TILES_INL_H_
#else
#define HG_KERNELS_LEVEL_TILES_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/low_bits/low_bits_simd.h"
#include "kernels/simd/amx-inl.h"
#include "kernels/simd/rows-inl.h"

#if defined(HG_HAS_TILES)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kPanelRow = LevelPanel::kColumns * 4;

// A row of tiles; see LevelTiles::split.
void split(int64_t count, const float* x, float factor, int parts, BFloat16* to) {
  const D d;
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<uint16_t, D> halves;
  const V times = hn::Set(d, factor);
  for (int64_t i = 0; i < count; i += kTileDepth, to += parts * kTileSide * kTileDepth)
    for (int64_t j = 0; j < kTileDepth; j += kLanes) {
      const auto n = static_cast<size_t>(std::clamp<int64_t>(count - i - j, 0, kLanes));
      V left = hn::Mul(hn::MaskedLoad(hn::FirstN(d, n), d, x + i + j), times);
      const auto is_finite = hn::Lt(hn::Abs(left), hn::Inf(d));
      for (int part = 0; part < parts; ++part) {
        const auto high = hn::And(hn::BitCast(bits, left), hn::Set(bits, 0xffff0000));
        hn::StoreU(hn::TruncateTo(halves, hn::ShiftRight<16>(high)), halves,
                   reinterpret_cast<uint16_t*>(to + part * kTileSide * kTileDepth + j));
        left = hn::IfThenElseZero(is_finite, hn::Sub(left, hn::BitCast(d, high)));
      }
    }
}

// Pairs of bf16 of the quads of levels in words of 32 bits: those of the first two bytes, and of
// the last two. Levels have at most 8 significant bits.
template <class Words>
HWY_INLINE void store_pairs(Words quads, float* first, float* second) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> bits;
  const auto number = [&](auto level) HWY_ATTR {
    return hn::BitCast(bits, hn::ConvertTo(d, hn::ShiftRight<24>(hn::BitCast(di, level))));
  };
  const auto pair = [&](auto even, auto odd) HWY_ATTR {
    return hn::BitCast(
        d, hn::OrAnd(hn::ShiftRight<16>(number(even)), number(odd), hn::Set(bits, 0xffff0000)));
  };
  hn::Store(pair(hn::ShiftLeft<24>(quads), hn::ShiftLeft<16>(quads)), d, first);
  hn::Store(pair(hn::ShiftLeft<8>(quads), quads), d, second);
}

// A panel of levels; see LevelTiles::pack. Transposes words of four levels.
void pack_levels(int64_t steps, const uint8_t* rows, int64_t row_step, float* to) {
  const hn::RebindToUnsigned<D> words;
  const hn::Half<decltype(words)> half;
  const hn::Repartition<uint64_t, decltype(words)> pairs;
  using Words = hn::Vec<decltype(words)>;
  for (int64_t step = 0; step < steps; ++step, rows += kTileDepth)
    for (int64_t j = 0; j < LevelPanel::kColumns; j += kTileSide) {
      const uint8_t* const first = rows + j * row_step;
      const auto row = [&](int64_t i) HWY_ATTR {
        return hn::LoadU(half, reinterpret_cast<const uint32_t*>(first + i * row_step));
      };
      hn::Vec<decltype(pairs)> turned[2][4];  // words 0 to 3, and 4 to 7 in other lanes
#pragma GCC unroll 2
      for (int q = 0; q < 2; ++q) {
        const Words a = hn::Combine(words, row(4 * q + 8), row(4 * q)),
                    b = hn::Combine(words, row(4 * q + 9), row(4 * q + 1)),
                    c = hn::Combine(words, row(4 * q + 10), row(4 * q + 2)),
                    e = hn::Combine(words, row(4 * q + 11), row(4 * q + 3));
        const auto ab = hn::BitCast(pairs, hn::InterleaveLower(words, a, b)),
                   ab_upper = hn::BitCast(pairs, hn::InterleaveUpper(words, a, b)),
                   ce = hn::BitCast(pairs, hn::InterleaveLower(words, c, e)),
                   ce_upper = hn::BitCast(pairs, hn::InterleaveUpper(words, c, e));
        turned[q][0] = hn::InterleaveLower(pairs, ab, ce);
        turned[q][1] = hn::InterleaveUpper(pairs, ab, ce);
        turned[q][2] = hn::InterleaveLower(pairs, ab_upper, ce_upper);
        turned[q][3] = hn::InterleaveUpper(pairs, ab_upper, ce_upper);
      }
      float* const at = to + step * kTileSide * LevelPanel::kColumns + j;
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const auto first_rows = turned[0][q], later_rows = turned[1][q];
        const auto low = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(later_rows), first_rows),
                   high = hn::OddEvenBlocks(later_rows, hn::SwapAdjacentBlocks(first_rows));
        float* const pair = at + 2 * q * LevelPanel::kColumns;
        store_pairs(hn::BitCast(words, low), pair, pair + LevelPanel::kColumns);
        float* const later = pair + 8 * LevelPanel::kColumns;
        store_pairs(hn::BitCast(words, high), later, later + LevelPanel::kColumns);
      }
    }
}

// y[kRows tiles of rows, columns] from row `row` on.
template <int kRows, int kColumns>
HWY_INLINE void level_block(const LevelPanel& p, int64_t row) {
  using Block = TileBlock<TileNumbers::bf16, kRows, kColumns>;
  const D d;
  constexpr int64_t kWidth = kColumns * kTileSide, kHeight = kRows * kTileSide;
  alignas(64) float both[2][kHeight * kWidth];  // of this group and the one before
  alignas(64) float totals[kHeight * kWidth];
  const int64_t next_tiles = p.steps * p.parts * kTileBytes;
  const char* x = p.x + row / kTileSide * next_tiles;
  const char* levels = reinterpret_cast<const char*>(p.levels);
  int64_t step = 0;
  for (int64_t group = 0; group < p.groups; ++group) {
    float* const sums = both[group % 2];
    Block::clear();
    for (const int64_t end = std::min(p.steps, step + p.group_steps); step < end; ++step) {
      Block::load_b(levels, kPanelRow);
      for (int part = 0; part < p.parts; ++part, x += kTileBytes)
        Block::add_product(x, x + next_tiles, kTileRowBytes);
      levels += kTileSide * kPanelRow;
    }
    Block::store(sums, kWidth * 4);
    const float* const scales = p.scales + group * LevelPanel::kColumns;
    const auto scale_sums = [&](const auto& scaled) HWY_ATTR {
      for (int64_t j = 0; j < kWidth; j += kTileSide) {
        const V scale = hn::Load(d, scales + j);
#pragma GCC unroll 8
        for (int64_t i = j; i < kHeight * kWidth; i += kWidth)
          hn::Store(scaled(hn::Load(d, sums + i), scale, totals + i), d, totals + i);
      }
    };
    // Filling the totals with zeros first would take as long as all products.
    if (group == 0)
      scale_sums([](V sum, V scale, const float*) HWY_ATTR { return hn::Mul(sum, scale); });
    else
      scale_sums([](V sum, V scale, const float* total)
                     HWY_ATTR { return hn::MulAdd(sum, scale, hn::Load(D(), total)); });
  }
  if (p.groups == 0) std::fill_n(totals, kHeight * kWidth, 0.0f);
  const int64_t rows = std::min(kHeight, p.rows - row), columns = std::min(kWidth, p.columns);
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(p.y + (row + i) * p.y_row, totals + i * kWidth, static_cast<size_t>(columns) * 4);
}

template <int kColumns>
void level_rows(const LevelPanel& p) {
  int64_t row = 0;
  for (; row + kTileSide < p.rows; row += 2 * kTileSide) level_block<2, kColumns>(p, row);
  if (row < p.rows) level_block<1, kColumns>(p, row);
}

void level_panel(const LevelPanel& p) {
  begin_tiles();
  p.columns > kTileSide ? level_rows<2>(p) : level_rows<1>(p);
  end_tiles();
}

constexpr LevelTiles kLevelTiles = {level_panel, split, pack_levels};

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
