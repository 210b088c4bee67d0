// SPDX-License-Identifier: Apache-2.0
// RowProduct in tiles of AMX. Included once for every instruction set.
#if defined(HG_KERNELS_ROW_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_ROW_TILES_INL_H_
#undef HG_KERNELS_ROW_TILES_INL_H_
#else
#define HG_KERNELS_ROW_TILES_INL_H_
#endif

#include <algorithm>

#include "kernels/simd/amx-inl.h"
#include "kernels/simd/row_product.h"

#if defined(HG_HAS_TILES)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

static_assert(RowProduct::kColumns == 2 * kTileSide && RowProduct::kStep == kTileRowBytes);

// The sums of 16 rows from x[0] on and of 16 from x[1] on, or of the latter alone.
template <TileNumbers kNumbers, int kRows, int kColumns>
void row_sums(const RowProduct& r, const char* const* x, TilePrefetch next, void* to) {
  using Block = TileBlock<kNumbers, kRows, kColumns>;
  constexpr int64_t kRow = RowProduct::kColumns * 4;
  const char* w = reinterpret_cast<const char*>(r.weights);
  Block::clear();
  for (int64_t step = 0; step < r.steps; ++step, w += kTileSide * kRow) {
    next.bring();
    const int64_t at = r.offset[step];
    Block::add_step(x[0] + at, x[1] + at, r.x_row, w, kRow);
  }
  Block::store(to, kColumns * kTileRowBytes);
}

// Calls store(sums, rows, result of the first) for neighbors in a line, whose sums follow each
// other: 32 in a row, or 16 if there are no more columns.
template <TileNumbers kNumbers, class Sum, class Store>
HWY_INLINE void multiply_rows(const RowProduct& r, const Store& store) {
  using Sums = void (*)(const RowProduct&, const char* const*, TilePrefetch, void*);
  static constexpr Sums kSums[2][2] = {{row_sums<kNumbers, 1, 1>, row_sums<kNumbers, 1, 2>},
                                       {row_sums<kNumbers, 2, 1>, row_sums<kNumbers, 2, 2>}};
  constexpr int64_t kMost = 2 * kTileSide;
  const bool is_wide = r.columns > kTileSide;
  const int64_t sums_row = is_wide ? kMost : kTileSide;
  const int64_t steps = 1 + r.steps * ((r.count + kMost - 1) / kMost);
  TilePrefetch next = {static_cast<const char*>(r.next), (r.next_bytes / 64 + steps - 1) / steps};
  alignas(64) Sum sums[kMost * RowProduct::kColumns];
  for (int64_t done = 0; done < r.count; done += kMost) {
    const int64_t count = std::min(kMost, r.count - done), first = r.first + done;
    // The last 16 places, which may include some before.
    const int64_t last = std::max<int64_t>(0, first + count - kTileSide);
    const bool is_tall = count > kTileSide;
    const char* const from = reinterpret_cast<const char*>(r.x);
    const char* const x[2] = {from + (is_tall ? first : last) * r.x_row, from + last * r.x_row};
    kSums[is_tall][is_wide](r, x, next, sums);
    next.at += r.steps * next.lines * 64;
    int64_t line = first / r.pitch, column = first % r.pitch;
    for (int64_t i = 0, rows; i < count; i += rows) {
      const bool in_first = is_tall && i < kTileSide;
      rows = std::min((in_first ? kTileSide : count) - i, r.pitch - column);
      const int64_t stored = std::min(rows, r.width - column);
      if (stored > 0) {
        const int64_t at = in_first ? i : first + i - last + (is_tall ? kTileSide : 0);
        store(sums + at * sums_row, stored, r.y + (line * r.width + column) * r.y_row);
      }
      column += rows;
      if (column == r.pitch) {
        column = 0;
        ++line;
      }
    }
  }
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
