// SPDX-License-Identifier: Apache-2.0
// matmul and linear in f32, and mixed_linear. y is divided into tiles; results do not depend on the
// size of a tile. A tile runs over k in pieces whose panels of b fit the first-level cache, and
// ends with the epilogue. Constant b is packed once, or read in place (low_memory, models with a
// past). Of b in 16 bits, the lines that are packed are widened.
#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/tiles.h"
#include "kernels/gemm/wide_lines.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kSlack = 16;  // floats that pack_rows may write beyond its end

constexpr int64_t kMostColumns = 32;    // of a panel
constexpr int64_t kLeastWork = 200000;  // products of a tile that is worth sharing
// Costs of an element of an operand, in products of it: packing and reading.
constexpr double kPackCost = 10, kReadCost = 4;
constexpr int64_t kKeyBytes = 64;  // of a slot: identifies the rows

// Pairs that tiles (AMX) add at a time: adding to y costs more than reading a panel from the
// second-level cache. 4.7 MB of weights times 128 rows: 0.9 ms, 1.2 in pieces of kDepthPiece.
constexpr int64_t kTilePiece = 1024;
int64_t depth_piece(const PairTable* pairs) {
  return pairs && pairs->in_tiles ? kTilePiece : kDepthPiece;
}

// A turned product: most rows, and columns of a tile.
constexpr int64_t kTurnedRows = 64, kTurnedColumns = 64;

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }
struct Gemm {
  MatmulShape s;
  const GemmTable* table = nullptr;
  const float* packed_b = nullptr;  // [pieces of k][panels][piece][nr]
  // The same rounded for Precision::bf16. Panels are widened per tile.
  const BFloat16* rounded_b = nullptr;
  const HalfTable* half = nullptr;
  // Both operands are rounded for Precision::bf16: `s` and the packed b count pairs. a is rounded
  // at the start of a run, to a_at of the workspace.
  const PairTable* pairs = nullptr;
  int64_t a_at = -1;
  MatmulShape exact = {};
  bool has_weights = false;  // b is constant, and may not be in the cache
  bool is_half = false;      // b is f16 or bf16
  // The transposed product is computed: rows of a are packed, and weights are read in place.
  bool is_turned = false;
  bool pack_a = false, by_rows = false;
  bool keeps_a = false;  // packed rows stay in the slot for further tiles of the same rows
  int64_t tile_m = 0, tile_n = 0;  // of the largest tile
  int64_t tiles_m = 0, tiles_n = 0;
  int64_t lanes = 1, slot_bytes = 0;

  int64_t blocks() const { return ceil_div(s.m, table->mr); }
  int64_t panels() const { return ceil_div(s.n, table->nr); }
  // The first row and column of a tile.
  int64_t row_at(int64_t tile) const {
    return std::min(s.m, part_begin(blocks(), tiles_m, tile) * table->mr);
  }
  int64_t column_at(int64_t tile) const {
    return std::min(s.n, part_begin(panels(), tiles_n, tile) * table->nr);
  }
  int64_t packed_rows() const { return tile_m * (keeps_a ? s.k : kDepthPiece) + kSlack; }  // floats
  // Columns of b that are packed at a time: the panels of a tile, or as many of weights as stay in
  // the first-level cache while all rows pass.
  int64_t packed_columns() const {
    const int64_t all = round_up(tile_n, table->nr);
    if (!has_weights) return all;
    const int64_t depth = std::max<int64_t>(1, std::min(s.k, kDepthPiece));
    const int64_t most = kFirstCacheFloats / (depth * table->nr) * table->nr;
    return std::min(all, std::max<int64_t>(table->nr, most));
  }
  int64_t slot_a() const { return packed_b ? 0 : wide_at() * (is_half ? 2 : 1); }
  // Widened lines follow the panels.
  int64_t wide_at() const { return (rounded_b ? table->nr : packed_columns()) * kDepthPiece; }
};

bool is_gemm(const PrepareContext& c) { return c.out(0).dtype == f32; }

// Divides y into tiles of at most about 256 rows, 512 if they pack weights, and 1024 columns. With
// several threads, minimizes the work of the busiest lane: each tile packs its rows again, unless
// the lane keeps them, and reads or packs its panels of b.
void choose_tiles(Gemm& g, bool packs_b, int64_t threads) {
  const MatmulShape& s = g.s;
  const int64_t mr = g.table->mr, nr = g.table->nr, batches = s.batches();
  const int64_t most_m = packs_b && g.has_weights ? 512 : 256;
  const int64_t least_m = s.m <= 384 ? std::min<int64_t>(s.m, 1) : ceil_div(s.m, most_m);
  const int64_t least_n = ceil_div(s.n, 1024);
  g.tiles_m = least_m;
  g.tiles_n = least_n;
  const auto keeps = [&](int64_t tiles_m, int64_t tiles_n) {
    return g.pack_a && tiles_n > 1 && ceil_div(g.blocks(), tiles_m) * mr * s.k <= kKeptFloats;
  };
  const int64_t work = batches * s.m * s.n * s.k;
  double best = 0;
  for (int64_t wanted = threads; threads > 1 && work > wanted * kLeastWork && wanted <= 4 * threads;
       wanted *= 2)
    for (int64_t tiles_m = least_m; tiles_m <= g.blocks(); tiles_m += 1 + tiles_m / 8) {
      int64_t rows = tiles_m;
      int64_t columns = std::max(least_n, std::min(ceil_div(wanted, batches * rows), g.panels()));
      if (g.by_rows)
        rows = shared_equally(rows, g.blocks(), batches * columns, threads);
      else
        columns = shared_equally(columns, g.panels(), batches * rows, threads);
      const int64_t tiles = batches * rows * columns;
      const bool together = keeps(rows, columns) && (g.by_rows || rows == 1);
      const double row_cost =
          !g.pack_a
              ? kReadCost
              : kPackCost /
                    static_cast<double>(together ? std::min(columns, ceil_div(tiles, threads)) : 1);
      const double column_cost = packs_b                          ? kPackCost
                                 : s.n * s.k > kSecondCacheFloats ? kReadCost
                                                                  : kReadCost / 4;
      const double busiest = busiest_lane(tiles, threads, [&](int64_t index) {
        const int64_t tile = index % (rows * columns);
        const int64_t i = g.by_rows ? tile / columns : tile % rows;
        const int64_t j = g.by_rows ? tile % columns : tile / rows;
        const auto height = static_cast<double>(
            (part_begin(g.blocks(), rows, i + 1) - part_begin(g.blocks(), rows, i)) * mr);
        const auto width = static_cast<double>(
            (part_begin(g.panels(), columns, j + 1) - part_begin(g.panels(), columns, j)) * nr);
        return height * (width + row_cost) + width * column_cost;
      });
      // A few more tiles let lanes help each other.
      const double time = tiles < 4 * threads ? 1.03 * busiest : busiest;
      if (best == 0 || time < best) {
        best = time;
        g.tiles_m = rows;
        g.tiles_n = columns;
      }
      if (batches * tiles_m >= wanted) break;
    }
  g.keeps_a = keeps(g.tiles_m, g.tiles_n);
  if (g.tiles_m > 0) g.tile_m = ceil_div(g.blocks(), g.tiles_m) * mr;
  if (g.tiles_n > 0) g.tile_n = ceil_div(g.panels(), g.tiles_n) * nr;
}

// The panels of b[k, n], rounded.
void round_panels(const GemmTable& table, int64_t n, int64_t k, const float* b, int64_t b_row,
                  int64_t b_col, BFloat16* to) {
  const int64_t nr = table.nr;
  alignas(64) float panel[kDepthPiece * kMostColumns];
  for (int64_t k0 = 0; k0 < k; k0 += kDepthPiece) {
    const int64_t piece = std::min(kDepthPiece, k - k0);
    for (int64_t j = 0; j < n; j += nr, to += piece * nr) {
      table.pack(piece, std::min(nr, n - j), b + k0 * b_row + j * b_col, b_row, b_col, panel,
                 piece * nr);
      for (int64_t i = 0; i < piece * nr; ++i) to[i] = BFloat16(panel[i]);
    }
  }
}

// The panels of b[k, n] as pairs.
void pack_pairs(const PairTable& how, int64_t n, int64_t k, const float* b, int64_t b_row,
                int64_t b_col, float* to) {
  const GemmTable& table = how.gemm;
  const int64_t nr = table.nr, pairs = how.pairs_of(k), panels = ceil_div(n, nr);
  std::vector<float> columns(static_cast<size_t>(nr * pairs));  // [nr][pairs]
  for (int64_t j = 0; j < n; j += nr) {
    const int64_t width = std::min(nr, n - j);
    for (int64_t t = 0; t < width; ++t)
      round_to_pairs(k, b + (j + t) * b_col, b_row, pairs, columns.data() + t * pairs);
    for (int64_t k0 = 0; k0 < pairs; k0 += depth_piece(&how)) {
      const int64_t piece = std::min(depth_piece(&how), pairs - k0);
      table.pack(piece, width, columns.data() + k0, 1, pairs, to + (k0 * panels * nr + j * piece),
                 piece * nr);
    }
  }
}

void pack_weights(const PrepareContext& c, Gemm& g) {
  const MatmulShape& s = g.s;
  const float* b = c.in(1).as<float>();
  const GemmTable* table = g.table;
  const int64_t panels = ceil_div(s.n, table->nr), elements = panels * table->nr * s.k;
  // A matrix may be an operand of one product, and its transpose of another.
  const std::string look = str_cat(table->nr, "/", s.n, ",", s.k, ",", s.b_row, ",", s.b_col);
  const PairTable* const tiles = tile_pair_table();
  if (const PairTable* pairs = tiles ? tiles : pair_table();
      pairs && c.precision() == Precision::bf16) {
    const int64_t count = pairs->pairs_of(s.k);
    g.packed_b = static_cast<const float*>(
        c.pack(1, (tiles ? "gemm.tiles." : "gemm.pairs.") + look, panels * table->nr * count * 4,
               [pairs, b, n = s.n, k = s.k, row = s.b_row, col = s.b_col](void* to) {
                 pack_pairs(*pairs, n, k, b, row, col, static_cast<float*>(to));
               }));
    if (!g.packed_b) return;
    g.table = &pairs->gemm;
    g.pairs = pairs;
    g.exact = s;
    g.s.k = g.s.a_row = count;
    g.s.a_col = 1;
    g.a_at = 0;
    return;
  }
  if (c.precision() == Precision::bf16) {
    g.rounded_b = static_cast<const BFloat16*>(
        c.pack(1, "gemm.bf16." + look, elements * 2,
               [table, b, n = s.n, k = s.k, row = s.b_row, col = s.b_col](void* to) {
                 round_panels(*table, n, k, b, row, col, static_cast<BFloat16*>(to));
               }));
    return;
  }
  g.packed_b = static_cast<const float*>(
      c.pack(1, "gemm.b" + look, elements * 4,
             [table, panels, b, n = s.n, k = s.k, row = s.b_row, col = s.b_col](void* to) {
               for (int64_t k0 = 0; k0 < k; k0 += kDepthPiece) {
                 const int64_t piece = std::min(kDepthPiece, k - k0);
                 table->pack(piece, n, b + k0 * row, row, col,
                             static_cast<float*>(to) + k0 * panels * table->nr, piece * table->nr);
               }
             }));
}

// With fewer rows, packing weights for one run takes longer than transposing y. The bits are those
// of the other loops, except that narrow blocks of packed rows (kNarrow) have two sums.
bool can_turn(const Gemm& g) {
  const MatmulShape& s = g.s;
  const int64_t rest = s.n % g.table->nr;
  return g.has_weights && !g.packed_b && !g.rounded_b && s.b_row == 1 && s.a_col == 1 && s.m > 1 &&
         s.m <= kTurnedRows && (s.m <= 2 * g.table->mr || rest == 0 || rest > 4);
}

// The slot of a turned product has columns of y, followed by rows of nr columns, and by widened
// lines. The panels of a are in the workspace at a_at.
int64_t turned_height(const Gemm& g) { return round_up(g.s.m, g.table->nr); }

void prepare_turned(PrepareContext& c, Gemm g) {
  g.is_turned = true;
  g.lanes = tile_lanes(c, ceil_div(g.s.n, kTurnedColumns));
  g.slot_bytes = (turned_height(g) * kTurnedColumns + g.s.m * g.table->nr +
                  (g.is_half ? kTurnedColumns * kDepthPiece : 0)) *
                 4;
  g.a_at = slot_step(tile_workspace(g.lanes, g.slot_bytes));
  c.set_workspace(g.a_at + turned_height(g) * g.s.k * 4);
  c.make_state(std::move(g));
}

Status prepare(PrepareContext& c) {
  Gemm g;
  g.s = product_shape(c);
  g.table = &gemm_table();
  g.half = &half_table();
  g.is_half = c.in(1).dtype != f32;
  const MatmulShape& s = g.s;
  g.by_rows = s.m * (s.k + s.n) > s.k * s.n;
  const int nr = g.table->nr;
  if (c.is_constant(1) && s.batches() == 1 && s.n > 0 && s.k > 0) {
    if (!g.is_half) pack_weights(c, g);
    g.has_weights = true;
  }
  if (can_turn(g)) {
    prepare_turned(c, std::move(g));
    return {};
  }
  // Packed rows are stored in the order in which the panels of b use them.
  g.pack_a = s.m > 1 && s.n > nr && (s.a_col != 1 || (s.m > 2 * g.table->mr && s.n >= 8 * nr)) &&
             !(g.pairs && g.pairs->in_tiles);
  choose_tiles(g, g.packed_b == nullptr, c.threads());
  g.lanes = tile_lanes(c, s.batches() * g.tiles_m * g.tiles_n);
  g.slot_bytes = (g.slot_a() + (g.pack_a ? g.packed_rows() : 0)) * 4 + (g.keeps_a ? kKeyBytes : 0);
  int64_t workspace = tile_workspace(g.lanes, g.slot_bytes);
  if (g.a_at >= 0) {
    g.a_at = slot_step(workspace);
    workspace = g.a_at + (g.pairs->in_tiles ? s.m + kTileSide : s.m) * s.k * 4;
  }
  c.set_workspace(workspace);
  c.make_state(std::move(g));
  return {};
}

const float* rounded_a(const RunContext& c, const Gemm& g) {
  const MatmulShape& s = g.exact;
  const float* const a = c.in(0).as<float>();
  auto* const pairs = reinterpret_cast<float*>(c.workspace<char>() + g.a_at);
  c.parallel_for(s.m, std::max<int64_t>(1, 16384 / s.k), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      round_to_pairs(s.k, a + i * s.a_row, s.a_col, g.s.k, pairs + i * g.s.a_row);
  });
  return pairs;
}

// Sweeps `columns` columns at a time, after fill(j, sweep) has written the panels of those from j
// on to `panels`: they stay in the first-level cache.
template <class Fill>
void sweep_filled(const GemmTable& table, int64_t columns, float* panels, Sweep sweep,
                  const Fill& fill) {
  const int64_t all = sweep.columns;
  Epilogue epilogue;
  if (sweep.epilogue) {
    epilogue = *sweep.epilogue;
    sweep.epilogue = &epilogue;
  }
  sweep.panels = panels;
  for (int64_t j = 0; j < all; j += columns) {
    sweep.columns = std::min(columns, all - j);
    fill(j, sweep);
    table.sweep(sweep);
    sweep.y += columns;
    if (epilogue.column_bias) epilogue.column_bias += columns;
    if (epilogue.residual) epilogue.residual += columns;
  }
}

// Prefetches b[k, n] alongside a sweep.
void expect(const StoredMatrix& b, int64_t k, int64_t n, const MatmulShape& s, Sweep& sweep) {
  const bool along_k = s.b_row == 1;
  if (!along_k && s.b_col != 1) return;
  sweep.next = b.data;
  sweep.next_rows = along_k ? n : k;
  sweep.next_bytes = (along_k ? k : n) * size_of(b.dtype);
  sweep.next_step = (along_k ? s.b_col : s.b_row) * size_of(b.dtype);
}

// Packs panels of b before each sweep, which reads the next ones of weights from memory meanwhile.
void sweep_packing(const Gemm& g, const StoredMatrix& b, int64_t k_left, float* panels,
                   const Sweep& whole) {
  const MatmulShape& s = g.s;
  const int64_t all = whole.columns, width = g.packed_columns();
  sweep_filled(*g.table, width, panels, whole, [&](int64_t j, Sweep& sweep) {
    const int64_t k = sweep.k, next = j + width;
    b.at(j * s.b_col)
        .pack(*g.table, k, sweep.columns, s.b_row, s.b_col, panels, panels + g.wide_at());
    sweep.next_rows = 0;
    if (!g.has_weights) return;
    if (next < all)
      expect(b.at(next * s.b_col), k, std::min(width, all - next), s, sweep);
    else if (k_left > k)
      expect(b.at(k * s.b_row), std::min(k, k_left - k), std::min(width, all), s, sweep);
  });
}

// y^T = b^T a^T, tile by tile.
void run_turned(const RunContext& c, const Gemm& g) {
  const MatmulShape& s = g.s;
  const float* const a = c.in(0).as<float>();
  const StoredMatrix b(c.in(1));
  const float* const bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* const residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* const y = c.out(0).as<float>();
  const int64_t nr = g.table->nr, height = turned_height(g);
  auto* const panels = reinterpret_cast<float*>(c.workspace<char>() + g.a_at);
  c.parallel_for(ceil_div(s.k, kDepthPiece), 1, [&](int64_t begin, int64_t end) {
    for (int64_t k0 = begin * kDepthPiece; k0 < std::min(s.k, end * kDepthPiece);
         k0 += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, s.k - k0);
      g.table->pack(piece, s.m, a + k0, 1, s.a_row, panels + k0 * height, piece * nr);
    }
  });
  const auto tile = [&](int64_t index, float* slot) {
    const int64_t j0 = index * kTurnedColumns, columns = std::min(kTurnedColumns, s.n - j0);
    float *const rows = slot + height * kTurnedColumns, *const wide = rows + s.m * nr;
    for (int64_t k0 = 0; k0 < s.k; k0 += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, s.k - k0);
      const StoredMatrix lines = b.at(j0 * s.b_col + k0);
      if (g.is_half) lines.widen_to(wide, columns, piece, s.b_col, 1);
      g.table->sweep({.rows = columns,
                      .columns = s.m,
                      .k = piece,
                      .left = columns,
                      .a = g.is_half ? wide : lines.floats(),
                      .a_row = g.is_half ? piece : s.b_col,
                      .a_col = 1,
                      .panels = panels + k0 * height,
                      .panel_step = piece * nr,
                      .y = slot,
                      .y_row = height,
                      .add = k0 > 0});
    }
    for (int64_t j = 0; j < columns; j += nr) {
      const int64_t count = std::min(nr, columns - j);
      g.table->pack(s.m, count, slot + j * height, 1, height, rows, s.m * nr);
      for (int64_t i = 0; i < s.m; ++i) std::copy_n(rows + i * nr, count, y + i * s.n + j0 + j);
    }
    const Epilogue e = {.activation = s.activation,
                        .column_bias = bias ? bias + j0 : nullptr,
                        .residual = residual ? residual + j0 : nullptr};
    if (!e.empty()) g.table->finish(s.m, columns, e, y + j0, s.n);
  };
  for_tiles(c, ceil_div(s.n, kTurnedColumns), g.lanes, g.slot_bytes, tile);
}

void run(const RunContext& c) noexcept {
  const Gemm& g = c.state<Gemm>();
  if (g.is_turned) return run_turned(c, g);
  const MatmulShape& s = g.s;
  const float* a = g.a_at >= 0 ? rounded_a(c, g) : c.in(0).as<float>();
  const StoredMatrix b(c.in(1));
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  const int nr = g.table->nr;
  const int64_t panels = g.panels(), tiles_m = g.tiles_m, tiles_n = g.tiles_n;
  const int64_t most = depth_piece(g.pairs);
  // A number that identifies the rows in a slot, at the end of the slot.
  const int64_t key_at = round_up(g.slot_a() + g.packed_rows(), 2);
  const auto key_of = [&](float* slot) { return reinterpret_cast<int64_t*>(slot + key_at); };
  for (int64_t lane = 0; g.keeps_a && lane < g.lanes; ++lane)
    *key_of(tile_slot(c, g.lanes, g.slot_bytes, lane)) = -1;
  for_tiles(
      c, s.batches() * tiles_m * tiles_n, g.lanes, g.slot_bytes, [&](int64_t index, float* slot) {
        // Neighboring tiles share columns or, if rows are most of the bytes, rows: those that a
        // thread's own part of the preceding layer has written.
        const int64_t batch = index / (tiles_m * tiles_n), tile = index % (tiles_m * tiles_n);
        const int64_t tile_i = g.by_rows ? tile / tiles_n : tile % tiles_m;
        const int64_t tile_j = g.by_rows ? tile % tiles_n : tile / tiles_m;
        const int64_t i0 = g.row_at(tile_i), j0 = g.column_at(tile_j);
        const int64_t offset = (batch * s.m + i0) * s.n + j0;
        const int64_t rows = g.row_at(tile_i + 1) - i0, columns = g.column_at(tile_j + 1) - j0;
        const Epilogue e = {.activation = s.activation,
                            .column_bias = bias ? bias + j0 : nullptr,
                            .residual = residual ? residual + offset : nullptr};
        const float* tile_a = a + s.a_offset(batch) + i0 * s.a_row;
        const StoredMatrix tile_b = b.at(s.b_offset(batch) + j0 * s.b_col);
        const int64_t key = batch * s.m + i0;
        const bool has_rows = g.keeps_a && *key_of(slot) == key;
        for (int64_t k0 = 0; k0 == 0 || k0 < s.k; k0 += most) {
          const int64_t piece = std::min(most, s.k - k0);
          const float* piece_a = tile_a + k0 * s.a_col;
          if (g.pack_a) {
            float* to = slot + g.slot_a() + (g.keeps_a ? rows * k0 : 0);
            if (!has_rows && s.a_col == 1)
              g.table->pack_rows(rows, piece, piece_a, s.a_row, to);
            else if (!has_rows)
              pack_rows(rows, piece, piece_a, s.a_row, s.a_col, g.table->mr, to);
            piece_a = to;
          }
          const int64_t packed_at = (k0 * panels + j0 / nr * piece) * nr;
          Sweep sweep = {.rows = rows,
                         .columns = columns,
                         .k = piece,
                         .left = rows,
                         .a = piece_a,
                         .is_packed = g.pack_a,
                         .a_row = s.a_row,
                         .a_col = s.a_col,
                         .panels = g.packed_b ? g.packed_b + packed_at : nullptr,
                         .panel_step = piece * nr,
                         .y = y + offset,
                         .y_row = s.n,
                         .add = k0 > 0,
                         .epilogue = k0 + most >= s.k && !e.empty() ? &e : nullptr};
          if (g.packed_b)
            g.table->sweep(sweep);
          else if (g.rounded_b)
            sweep_filled(*g.table, nr, slot, sweep, [&](int64_t j, Sweep&) {
              g.half->widen(nr * piece, g.rounded_b + packed_at + j * piece, slot);
            });
          else
            sweep_packing(g, tile_b.at(k0 * s.b_row), s.k - k0, slot, sweep);
        }
        if (g.keeps_a) *key_of(slot) = key;
      });
}

constexpr KernelDef kKernels[] = {
    {.op = "matmul",
     .name = "gemm",
     .accepts = is_gemm,
     .prepare = prepare,
     .run = run,
     .strided = kAllStrided},
    {.op = "linear",
     .name = "gemm",
     .accepts = is_gemm,
     .prepare = prepare,
     .run = run,
     .strided = 1u << 1},
    {.op = "mixed_linear", .name = "gemm", .prepare = prepare, .run = run, .strided = 1u << 1},
};

}  // namespace

void round_to_pairs(int64_t k, const float* row, int64_t step, int64_t count, float* pairs) {
  auto* const to = reinterpret_cast<BFloat16*>(pairs);
  if (step == 1)
    half_table().narrow(k, row, to);
  else
    for (int64_t p = 0; p < k; ++p) to[p] = BFloat16(row[p * step]);
  std::fill(to + k, to + 2 * count, BFloat16());
}

std::span<const KernelDef> gemm() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
