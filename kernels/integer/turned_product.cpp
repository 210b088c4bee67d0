// SPDX-License-Identifier: Apache-2.0
#include "kernels/integer/turned_product.h"

#include <algorithm>
#include <cstring>

#include "kernels/blocking.h"
#include "kernels/gemm/tiles.h"
#include "kernels/integer/conv_integer.h"
#include "kernels/simd/transpose_simd.h"

namespace hg::kernels {
namespace {

// Rows of b^T whose results are transposed together. Their blocks follow the number of additional
// quads, so rows of a block need about as many.
constexpr int64_t kGroup = 48;
constexpr int64_t kMaxColumns = 256;  // of a tile
constexpr int64_t kLeastDepth = 16;
// Quads for each additional one, at least. This one takes 4 bytes and 4 for its place.
constexpr int64_t kQuadsPerMore = 14;

// Where a block is in the packed b.
struct Block {
  int64_t at = 0, index_at = 0, more = 0;  // its bytes, its places, and the additional quads
};

// Places in the packed b: the sums of the rows of b^T, their order in each group, the blocks, the
// quads, and the places of additional quads.
struct Layout {
  explicit Layout(const TurnedProduct& g)
      : order_at(slot_step(g.n * 4)),
        blocks_at(order_at + slot_step(g.n * 4)),
        quads_at(blocks_at + slot_step((static_cast<int64_t>(g.first.size()) - 1) *
                                       static_cast<int64_t>(sizeof(Block)))),
        most_more(g.n * g.quads() / kQuadsPerMore),
        index_at(quads_at + slot_step((g.n * g.quads() + most_more) * 4 + kFewSlack)),
        bytes(index_at + slot_step(most_more * 4)) {}

  int64_t order_at, blocks_at, quads_at, most_more, index_at, bytes;
};

// The rows of a that are the columns of a panel.
void pack_panel(const TurnedProduct& g, const Tensor& a, int64_t panel, uint8_t* to) {
  const int64_t nr = g.table->nr, first = panel * nr, count = std::min(nr, g.rows - first);
  const uint8_t* const from = a.as<uint8_t>() + first * g.k;
  const bool in_words = g.k % 4 == 0 && reinterpret_cast<uintptr_t>(from) % 4 == 0;
  if (count < nr || !in_words) std::memset(to, 0, static_cast<size_t>(g.panel_bytes()));
  if (in_words)
    transpose_words()(reinterpret_cast<const uint32_t*>(from), g.k / 4,
                      reinterpret_cast<uint32_t*>(to), nr, g.quads(), count);
  else
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < g.k; i += 4)
        std::memcpy(to + i * nr + r * 4, from + r * g.k + i,
                    static_cast<size_t>(std::min<int64_t>(4, g.k - i)));
  if (a.dtype == DType::i8)
    for (int64_t i = 0; i < g.panel_bytes(); ++i) to[i] ^= 128;
}

}  // namespace

int64_t TurnedProduct::slot_bytes() const {
  return slot_step(kGroup * tile * 4) + slot_step(table->mr * tile * 4);
}
int64_t TurnedProduct::packed_bytes() const { return Layout(*this).bytes; }
int64_t TurnedProduct::workspace() const { return panels_at + panels() * panel_bytes(); }

TurnedProduct turned_product(const PrepareContext& c) {
  TurnedProduct g;
  const Tensor &a = c.in(0), &b = c.in(1);
  const IntegerTable& table = integer_table_of_quads();
  g.k = a.shape.back();
  g.n = b.shape.back();
  if (!table.quad_few || !table.places_by_row || !c.is_constant(1) || c.low_memory() ||
      (c.has(3) && !c.is_constant(3)) || (c.has(2) && c.in(2).count() != 1) || g.k < kLeastDepth ||
      a.count() == 0 || b.count() != g.k * g.n || g.n == 0)
    return {};
  g.rows = a.count() / g.k;
  if (c.out(0).count() != g.rows * g.n) return {};
  g.table = &table;
  g.offset = panel_places(g.quads(), table.nr);
  for (int64_t first = 0, group = 0; first < g.n;) {
    g.first.push_back(first);
    if (first == group + kGroup) group = first;
    first += block_rows(std::min(g.n, group + kGroup) - first, table.mr);
  }
  g.first.push_back(g.n);
  const int64_t groups = ceil_div(g.n, kGroup);
  const int64_t most = std::clamp<int64_t>(kKeptFloats * 4 / g.panel_bytes(), 1,
                                           std::max<int64_t>(1, kMaxColumns / table.nr));
  g.tiles = ceil_div(g.panels(), most);
  if (c.threads() > 1)
    g.tiles = std::max(g.tiles, std::min(g.panels(), ceil_div(int64_t{2} * c.threads(), groups)));
  g.tile = ceil_div(g.panels(), g.tiles) * table.nr;
  g.lanes = tile_lanes(c, g.tiles * groups);
  g.starts_at = slot_step(tile_workspace(g.lanes, g.slot_bytes()));
  g.panels_at = g.starts_at + slot_step(g.n * 4);
  return g;
}

bool pack_turned(const TurnedProduct& g, const Tensor& b, const ZeroPoints& zeros, char* to) {
  std::vector<uint8_t> bytes(static_cast<size_t>(g.n * g.k));
  transpose_bytes()(b.as<uint8_t>(), g.n, bytes.data(), g.k, g.n, g.k);
  const Tensor weight = view(static_cast<void*>(bytes.data()), b.dtype, {g.n, g.k});
  const Layout layout(g);
  const Quads quads = find_quads(g.n, kGroup, g.k, weight, zeros, *g.table, layout.most_more);
  if (quads.count - g.n * g.quads() > layout.most_more) return false;
  pack_quad_rows(quads, g.n, kGroup, g.k, weight, zeros, *g.table,
                 reinterpret_cast<int8_t*>(to + layout.quads_at), reinterpret_cast<int32_t*>(to));
  auto* const order = reinterpret_cast<int32_t*>(to + layout.order_at);
  for (int64_t i = 0; i < g.n; ++i)
    order[i] = static_cast<int32_t>(quads.row_at(i) - i / kGroup * kGroup);
  auto* const blocks = reinterpret_cast<Block*>(to + layout.blocks_at);
  for (size_t i = 0; i + 1 < g.first.size(); ++i) {
    const auto first = static_cast<size_t>(g.first[i]);
    blocks[i] = {quads.at[first], quads.more_at[first], quads.more[first]};
  }
  auto* index = reinterpret_cast<int32_t*>(to + layout.index_at);
  for (const int32_t place : quads.again) *index++ = g.offset[static_cast<size_t>(place)];
  return true;
}

void run_turned(const RunContext& c, const TurnedProduct& g, const char* packed) {
  const Layout layout(g);
  const IntegerTable& table = *g.table;
  char* const workspace = c.workspace<char>();
  auto* const starts = reinterpret_cast<int32_t*>(workspace + g.starts_at);
  conv_integer_starts(c, g.n, reinterpret_cast<const int32_t*>(packed),
                      c.in(0).dtype == DType::i8 ? 128 : 0, starts);
  auto* const panels = reinterpret_cast<uint8_t*>(workspace + g.panels_at);
  c.parallel_for(g.panels(), std::max<int64_t>(1, (1 << 14) / g.panel_bytes()),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     pack_panel(g, c.in(0), i, panels + i * g.panel_bytes());
                 });
  const auto* const order = reinterpret_cast<const int32_t*>(packed + layout.order_at);
  const auto* const blocks = reinterpret_cast<const Block*>(packed + layout.blocks_at);
  const IntegerFinish finish = integer_finish(c);
  const bool to_bytes = finish.to == DType::u8 || finish.to == DType::i8;
  const bool by_column = c.has(5) && c.in(5).rank() == 1;
  const int64_t groups = ceil_div(g.n, kGroup);
  char* const y = c.out(0).as<char>();
  for_tiles(c, g.tiles * groups, g.lanes, g.slot_bytes(), [&](int64_t task, float* slot) {
    const int64_t group = task % groups * kGroup, rows = std::min(kGroup, g.n - group);
    const int64_t panel = part_begin(g.panels(), g.tiles, task / groups), at = panel * table.nr;
    const int64_t next = part_begin(g.panels(), g.tiles, task / groups + 1) * table.nr;
    const int64_t columns = std::min(g.rows, next) - at;
    const int64_t few = few_of(table, columns, g.quads()), most = columns - few;
    const uint8_t* const x = panels + panel * g.panel_bytes();
    const uint8_t* const few_at = x + most / table.nr * g.panel_bytes() + most % table.nr * 4;
    auto* const turned = reinterpret_cast<uint8_t*>(slot);  // [rows, tile]
    auto* const sums = reinterpret_cast<int32_t*>(turned + slot_step(kGroup * g.tile * 4));
    const auto first = std::lower_bound(g.first.begin(), g.first.end(), group);
    for (auto block = first; *block < group + rows; ++block) {
      const auto count = static_cast<int>(block[1] - block[0]);
      const Block& b = blocks[block - g.first.begin()];
      const auto* const quads = reinterpret_cast<const int8_t*>(packed + layout.quads_at) + b.at;
      const QuadPlaces places = {
          .whole = g.quads(),
          .more = b.more,
          .offset = g.offset.data(),
          .index = reinterpret_cast<const int32_t*>(packed + layout.index_at) + b.index_at};
      IntegerFinish f = finish;
      f.row = order + *block;
      f.row_add = starts + group;
      f.scale_by_row = by_column;
      if (by_column) f.scale += group;
      if (to_bytes)
        table.quad_bytes(count, most, places, quads, x, g.panel_bytes(), f, turned, g.tile);
      else
        table.quad_sums(count, most, places, quads, x, g.panel_bytes(), sums, g.tile);
      if (few > 0)
        table.quad_few(count, static_cast<int>(few), places, quads, few_at, sums + most, g.tile);
      if (!to_bytes)
        table.finish(count, columns, sums, g.tile, f, turned, g.tile);
      else if (few > 0)
        table.finish(count, few, sums + most, g.tile, f, turned + most, g.tile);
    }
    if (to_bytes)
      transpose_bytes()(turned, g.tile, reinterpret_cast<uint8_t*>(y) + at * g.n + group, g.n,
                        columns, rows);
    else
      transpose_words()(reinterpret_cast<const uint32_t*>(turned), g.tile,
                        reinterpret_cast<uint32_t*>(y) + at * g.n + group, g.n, columns, rows);
  });
}

}  // namespace hg::kernels
