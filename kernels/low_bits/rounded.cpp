// SPDX-License-Identifier: Apache-2.0
#include "kernels/low_bits/rounded.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/low_bits/quantized_linear.h"
#include "kernels/simd/tile_side.h"

namespace hg::kernels {
namespace {

// The rows of x that are multiplied without panels, on processors with loops over panels or
// without.
constexpr int64_t kFewRows = 4, kFewRowsWithoutPanels = 8;
constexpr int64_t kTileM = 960;     // a multiple of kTileSide
constexpr int64_t kUnpacked = 512;  // levels of a row that are unpacked at a time
constexpr int64_t kRowStep = kUnpacked + 64;
static_assert(kRowStep - kUnpacked >= kQuadSlack);

int64_t padded(int64_t k) { return ceil_div(k, int64_t{kRoundedBytes}) * kRoundedBytes; }

int32_t sum_of(const int8_t* integers, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += integers[i];
  return sum;
}

// -- A few rows of x ------------------------------------------------------------------------------

struct RoundedRows : QuantizedLinear {
  explicit RoundedRows(QuantizedLinear shared) : QuantizedLinear(std::move(shared)) {}

  const RoundedTable* rounded = nullptr;
  std::vector<Segment> segments;
  int64_t x_at = 0, rounded_at = 0, scales_at = 0;  // in the workspace

  int64_t streams() const { return levels.has_two() ? 2 : 1; }
  int64_t x_row() const {
    return static_cast<int64_t>(segments.size()) * streams() * kRoundedBytes;
  }
};

// The integers that one stream of a segment multiplies: `step` apart, followed by zeros. Returns
// their sum.
int32_t lay_out_stream(const RoundedRow& row, int64_t k, int64_t begin, int64_t step, int64_t count,
                       int8_t* to) {
  count = std::clamp<int64_t>(ceil_div(k - begin, step), 0, count);
  if (step == 1)
    std::memcpy(to, row.integers + begin, static_cast<size_t>(count));
  else
    for (int64_t i = 0; i < count; ++i) to[i] = row.integers[begin + step * i];
  std::memset(to + count, 0, static_cast<size_t>(kRoundedBytes - count));
  return sum_of(to, kRoundedBytes);
}

void lay_out(const RoundedRows& g, const RoundedRow& row, int8_t* to, RoundedSegment* segments) {
  const Levels& levels = g.levels;
  const int64_t step = levels.packing == Packing::pairs ? 2 : 1, k = levels.k;
  const auto scale_at = [&](int64_t column) {
    return row.scales[std::min(column, k - 1) / kRoundedBytes];
  };
  for (const Segment& s : g.segments) {
    RoundedSegment& of = *segments++;
    const int64_t low = levels.low_column(s.begin), high = levels.high_column(s.begin);
    of.low_scale = of.high_scale = scale_at(low);
    of.low_sum = of.high_sum = lay_out_stream(row, k, low, step, s.bytes, to);
    to += kRoundedBytes;
    if (!levels.has_two()) continue;
    of.high_scale = scale_at(high);
    of.high_sum = lay_out_stream(row, k, high, step, s.bytes, to);
    to += kRoundedBytes;
  }
}

// -- Many rows ------------------------------------------------------------------------------------

// Neighbors along k that share the scales of the weight and of x.
struct Piece {
  int64_t begin = 0, count = 0, group = 0;
};

using PanelLoop = void (*)(const RoundedPanel& p);

struct RoundedTiles : QuantizedLinear {
  explicit RoundedTiles(QuantizedLinear shared) : QuantizedLinear(std::move(shared)) {}

  const RoundedTable* rounded = nullptr;
  PanelLoop loop = nullptr;
  std::vector<Piece> pieces;
  std::vector<int32_t> quads;  // of each piece
  int64_t x_row = 0;           // bytes of all quads
  int64_t tile_m = 1, lanes = 1, slot_bytes = 0;
  int64_t x_at = 0, rounded_at = 0, x_scales_at = 0, x_terms_at = 0;  // in the workspace

  int64_t count() const { return static_cast<int64_t>(pieces.size()); }
  // Where the scales of row i of x are.
  int64_t scale_step() const { return rounded->in_tiles ? kTileSide : 1; }
  int64_t scale_at(int64_t i) const {
    return i / scale_step() * scale_step() * count() + i % scale_step();
  }
  // Rows of x and of scales that can be read.
  int64_t rows() const { return ceil_div(m, scale_step()) * scale_step(); }
  int64_t tiles_m() const { return ceil_div(m, tile_m); }
  int64_t panels() const { return ceil_div(levels.n, int64_t{rounded->panel_columns}); }
  int64_t panel_bytes() const { return x_row * rounded->panel_columns; }
  // Of the scales of a panel, and of unpacked levels, in a slot.
  int64_t scales_at() const { return slot_step(panel_bytes()); }
  int64_t rows_at() const { return scales_at() + slot_step(rounded->panel_columns * count() * 4); }
};

PanelLoop panel_loop(const PrepareContext& c, const RoundedTable& table = rounded_table()) {
  const bool bytes = c.attrs().string("packing") == to_string(Packing::bytes);
  return bytes ? table.bytes_panel : table.nibbles_panel;
}

void find_pieces(RoundedTiles& g) {
  const int64_t k = g.levels.k;
  for (int64_t begin = 0, end; begin < k; begin = end) {
    end = std::min({k, (begin / kRoundedBytes + 1) * kRoundedBytes,
                    (begin / g.levels.group + 1) * g.levels.group});
    g.pieces.push_back({begin, end - begin, begin / g.levels.group});
    const int64_t count = g.rounded->whole_pieces ? kRoundedBytes : end - begin;
    g.quads.push_back(static_cast<int32_t>(ceil_div(count, int64_t{4})));
    g.x_row += g.quads.back() * 4;
  }
}

// The levels and scales of the columns from `first` on, at most a panel. `rows` is for unpacked
// levels.
void pack_panel(const RoundedTiles& g, const LevelRows& w, int64_t first, uint8_t* levels,
                float* scales, uint8_t* rows) {
  const int64_t nr = g.rounded->panel_columns, columns = std::min(nr, g.levels.n - first);
  if (columns < nr) {
    std::memset(levels, 0, static_cast<size_t>(g.panel_bytes()));
    std::fill_n(scales, g.count() * nr, 0.0f);
  }
  float wide[kUnpacked];
  for (int64_t piece = 0, end; piece < g.count(); piece = end) {
    const int64_t begin = g.pieces[piece].begin;
    int64_t last = begin;
    for (end = piece; end < g.count() && last - begin <= kUnpacked - kRoundedBytes; ++end)
      last += g.pieces[end].count;
    const int64_t g0 = g.pieces[piece].group, g1 = g.pieces[end - 1].group + 1;
    for (int64_t j = 0; j < columns; ++j) {
      g.levels.unpack(*g.rounded, w, first + j, begin, last, rows + j * kRowStep);
      const int64_t row = (first + j) * g.levels.groups;
      const float* const from = wide_scales(w, row + g0, row + g1, wide);
      for (int64_t p = piece; p < end; ++p) scales[p * nr + j] = from[g.pieces[p].group - g0];
    }
    for (int64_t p = piece; p < end; levels += g.quads[p++] * 4 * nr)
      g.rounded->pack(g.quads[p], rows + (g.pieces[p].begin - begin), kRowStep, levels);
  }
}

// Rounds row i of x, and divides it into pieces.
RoundedRow lay_out(const RunContext& c, const RoundedTiles& g, int64_t i, int32_t excess) {
  char* const memory = c.workspace<char>();
  const RoundedRow row = rounded_row(c, g.levels.k, i, memory + g.rounded_at);
  auto* to = reinterpret_cast<int8_t*>(memory + g.x_at) + i * g.x_row;
  auto* scale = reinterpret_cast<float*>(memory + g.x_scales_at) + g.scale_at(i);
  auto* term = reinterpret_cast<int32_t*>(memory + g.x_terms_at) + i * g.count();
  for (size_t p = 0; p < g.pieces.size(); to += 4 * g.quads[p++]) {
    const Piece& piece = g.pieces[p];
    std::memset(to + piece.count / 4 * 4, 0,
                static_cast<size_t>(4 * g.quads[p] - piece.count / 4 * 4));
    std::memcpy(to, row.integers + piece.begin, static_cast<size_t>(piece.count));
    *scale = row.scales[piece.begin / kRoundedBytes];
    scale += g.scale_step();
    *term++ = -excess * sum_of(row.integers + piece.begin, piece.count);
  }
  return row;
}

}  // namespace

int64_t rounded_bytes(int64_t k) { return slot_step(padded(k) + padded(k) / kRoundedBytes * 4); }

RoundedRow rounded_row(const RunContext& c, int64_t k, int64_t i, char* memory) {
  const float* const x = c.in(kX).as<float>() + i * k;
  auto* const integers = reinterpret_cast<int8_t*>(memory + i * rounded_bytes(k));
  const RoundedRow row = {integers, reinterpret_cast<float*>(integers + padded(k))};
  const auto round = rounded_table().round;
  for (int64_t begin = 0; begin < k; begin += kRoundedBytes)
    row.scales[begin / kRoundedBytes] =
        round(x + begin, std::min<int64_t>(kRoundedBytes, k - begin), integers + begin);
  std::fill_n(integers + k, padded(k) - k, int8_t{0});  // null if k is 0
  return row;
}

bool takes_rounded_rows(const PrepareContext& c) {
  const int64_t few = panel_loop(c) != nullptr ? kFewRows : kFewRowsWithoutPanels;
  return c.precision() == Precision::i8 && x_rows(c) <= few && has_sizes(c);
}

Status prepare_rounded_rows(PrepareContext& c) {
  RoundedRows g(quantized_linear(c));
  g.rounded = &rounded_table();
  g.segments = g.levels.segments(kRoundedBytes);
  g.x_at = g.take(g.m * g.x_row());
  if (c.has(kOffsets)) g.sums_at = g.take(g.m * g.levels.groups * 4);
  g.rounded_at = g.take(g.m * rounded_bytes(g.levels.k));
  g.scales_at = g.take(g.m * static_cast<int64_t>(g.segments.size() * sizeof(RoundedSegment)));
  c.set_workspace(g.workspace);
  c.make_state(std::move(g));
  return {};
}

void run_rounded_rows(const RunContext& c) noexcept {
  const auto& g = c.state<RoundedRows>();
  if (c.out(0).count() == 0) return;
  const Levels& levels = g.levels;
  char* const memory = c.workspace<char>();
  auto* const x = reinterpret_cast<int8_t*>(memory + g.x_at);
  auto* const scales = reinterpret_cast<RoundedSegment*>(memory + g.scales_at);
  const auto segments = static_cast<int64_t>(g.segments.size());
  for_rows_of_x(c, g, [&](int64_t i) {
    const RoundedRow row = rounded_row(c, levels.k, i, memory + g.rounded_at);
    lay_out(g, row, x + i * g.x_row(), scales + i * segments);
    sum_groups(c, g, i, [&](int64_t k) { return row.number(k); });
  });
  RoundedProduct product;
  product.w = level_rows(c, g);
  product.w.segments = g.segments.data();
  product.w.segment_count = segments;
  product.byte_rows = levels.byte_rows;
  product.width = levels.low();
  product.rows = g.m;
  product.x = x;
  product.x_row = g.x_row();
  product.scales = scales;
  product.y = c.out(0).as<float>();
  product.y_row = levels.n;
  const auto loop = levels.packing == Packing::bytes ? g.rounded->bytes : g.rounded->nibbles;
  const auto multiply = [&](int64_t first, int64_t last) {
    RoundedProduct part = product;
    part.first = first;
    part.last = last;
    loop(part);
  };
  for_byte_rows(c, levels, multiply, [&](int64_t first, int64_t last) {
    finish_block(c, g, product.w, 0, g.m, first, last);
  });
}

bool takes_rounded_tiles(const PrepareContext& c) {
  return c.precision() == Precision::i8 && panel_loop(c) != nullptr && has_sizes(c);
}

Status prepare_rounded_tiles(PrepareContext& c) {
  RoundedTiles g(quantized_linear(c));
  // Whole pieces would be nearly empty if scales change within 32 levels.
  const bool is_whole = g.levels.group % kRoundedBytes == 0 || g.levels.groups <= 1;
  g.rounded = is_whole ? &rounded_table() : &rounded_table_of_quads();
  g.loop = panel_loop(c, *g.rounded);
  find_pieces(g);
  g.tile_m = std::clamp<int64_t>(g.m, 1, kTileM);
  g.lanes = tile_lanes(c, g.tiles_m() * g.panels());
  g.slot_bytes = g.rows_at() + g.rounded->panel_columns * kRowStep;
  g.take_slots(g.lanes, g.slot_bytes);
  g.x_at = g.take(g.rows() * g.x_row);
  if (c.has(kOffsets)) g.sums_at = g.take(g.m * g.levels.groups * 4);
  g.rounded_at = g.take(g.m * rounded_bytes(g.levels.k));
  g.x_scales_at = g.take(g.rows() * g.count() * 4);
  g.x_terms_at = g.take(g.m * g.count() * 4);
  c.set_workspace(g.workspace);
  c.make_state(std::move(g));
  return {};
}

void run_rounded_tiles(const RunContext& c) noexcept {
  const auto& g = c.state<RoundedTiles>();
  if (c.out(0).count() == 0) return;
  char* const memory = c.workspace<char>();
  const int32_t excess =
      g.levels.packing == Packing::bytes ? g.rounded->bytes_excess : g.rounded->nibbles_excess;
  // The last tile multiplies rows beyond x too. What earlier nodes left there may be subnormal
  // numbers, which are slow.
  if (const int64_t whole = g.m / g.scale_step() * g.scale_step(); whole < g.m)
    std::fill_n(reinterpret_cast<float*>(memory + g.x_scales_at) + g.scale_at(whole),
                g.scale_step() * g.count(), 0.0f);
  for_rows_of_x(c, g, [&](int64_t i) {
    const RoundedRow row = lay_out(c, g, i, excess);
    sum_groups(c, g, i, [&](int64_t k) { return row.number(k); });
  });
  const LevelRows w = level_rows(c, g);
  const int64_t nr = g.rounded->panel_columns, tiles_m = g.tiles_m();
  float* const y = c.out(0).as<float>();
  for_tiles(c, tiles_m * g.panels(), g.lanes, g.slot_bytes, [&](int64_t index, float* slot) {
    const int64_t i0 = index % tiles_m * g.tile_m, j0 = index / tiles_m * nr;
    const int64_t rows = std::min(g.tile_m, g.m - i0), columns = std::min(nr, g.levels.n - j0);
    auto* const levels = reinterpret_cast<uint8_t*>(slot);
    auto* const scales = reinterpret_cast<float*>(levels + g.scales_at());
    pack_panel(g, w, j0, levels, scales, levels + g.rows_at());
    g.loop({.rows = rows,
            .columns = columns,
            .quads = g.quads.data(),
            .pieces = g.count(),
            .x = reinterpret_cast<const int8_t*>(memory + g.x_at) + i0 * g.x_row,
            .x_row = g.x_row,
            .x_scales = reinterpret_cast<const float*>(memory + g.x_scales_at) + i0 * g.count(),
            .x_terms = reinterpret_cast<const int32_t*>(memory + g.x_terms_at) + i0 * g.count(),
            .levels = levels,
            .scales = scales,
            .y = y + i0 * g.levels.n + j0,
            .y_row = g.levels.n});
    finish_block(c, g, w, i0, rows, j0, j0 + columns);
  });
}

}  // namespace hg::kernels
