// SPDX-License-Identifier: Apache-2.0
// matmul and linear in f32. y is divided into tiles; results do not depend on the size of a tile. A
// tile runs over k in pieces whose panels of b fit the first-level cache, and ends with the
// epilogue. Constant b is packed once. With few rows, reading b is the bottleneck, so b is read in
// place.
#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/gemv_simd.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/tiles.h"
#include "kernels/simd/half_simd.h"
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
  int64_t slot_a() const {
    if (packed_b) return 0;
    return (rounded_b ? table->nr : round_up(tile_n, table->nr)) * kDepthPiece;
  }
};

bool is_gemm(const PrepareContext& c) { return c.out(0).dtype == f32; }

// Divides y into tiles of at most about 256 rows and 1024 columns. With several threads, minimizes
// the work of the busiest lane: each tile packs its rows again, unless the lane keeps them, and
// reads or packs its panels of b.
void choose_tiles(Gemm& g, bool packs_b, int64_t threads) {
  const MatmulShape& s = g.s;
  const int64_t mr = g.table->mr, nr = g.table->nr, batches = s.batches();
  const int64_t least_m = s.m <= 384 ? std::min<int64_t>(s.m, 1) : ceil_div(s.m, 256);
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

Status prepare(PrepareContext& c) {
  Gemm g;
  g.s = product_shape(c);
  g.table = &gemm_table();
  g.half = &half_table();
  const MatmulShape& s = g.s;
  g.by_rows = s.m * (s.k + s.n) > s.k * s.n;
  const int nr = g.table->nr;
  if (c.is_constant(1) && s.batches() == 1 && s.n > 0 && s.k > 0) pack_weights(c, g);
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

// Panel by panel, because a wide one stays in the first-level cache.
void sweep_rounded(const Gemm& g, int64_t packed_at, float* wide, Sweep sweep) {
  const int64_t nr = g.table->nr, columns = sweep.columns;
  Epilogue epilogue;
  if (sweep.epilogue) {
    epilogue = *sweep.epilogue;
    sweep.epilogue = &epilogue;
  }
  sweep.panels = wide;
  for (int64_t j = 0; j < columns; j += nr) {
    const int64_t at = packed_at + j * sweep.k;
    g.half->widen(nr * sweep.k, g.rounded_b + at, wide);
    sweep.columns = std::min(nr, columns - j);
    g.table->sweep(sweep);
    sweep.y += nr;
    if (epilogue.column_bias) epilogue.column_bias += nr;
    if (epilogue.residual) epilogue.residual += nr;
  }
}

void run(const RunContext& c) noexcept {
  const Gemm& g = c.state<Gemm>();
  const MatmulShape& s = g.s;
  const float* a = g.a_at >= 0 ? rounded_a(c, g) : c.in(0).as<float>();
  const float* b = c.in(1).as<float>();
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
        const float* tile_b = b + s.b_offset(batch) + j0 * s.b_col;
        const int64_t key = batch * s.m + i0;
        const bool has_rows = g.keeps_a && *key_of(slot) == key;
        for (int64_t k0 = 0; k0 == 0 || k0 < s.k; k0 += most) {
          const int64_t piece = std::min(most, s.k - k0);
          if (!g.packed_b && !g.rounded_b)
            g.table->pack(piece, columns, tile_b + k0 * s.b_row, s.b_row, s.b_col, slot,
                          piece * nr);
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
                         .panels = g.packed_b ? g.packed_b + packed_at : slot,
                         .panel_step = piece * nr,
                         .y = y + offset,
                         .y_row = s.n,
                         .add = k0 > 0,
                         .epilogue = k0 + most >= s.k && !e.empty() ? &e : nullptr};
          if (g.rounded_b)
            sweep_rounded(g, packed_at, slot, sweep);
          else
            g.table->sweep(sweep);
        }
        if (g.keeps_a) *key_of(slot) = key;
      });
}

// Every element of b is used once or a few times, so packing would cost more than it saves. If b is
// contiguous along k, computes dot products; if along n, sums of rows. A matrix times one column is
// computed as the column times the transposed matrix.
bool swaps_sides(const MatmulShape& s) { return s.n == 1 && s.m > kGemvRows; }

MatmulShape gemv_shape(const PrepareContext& c) {
  MatmulShape s = product_shape(c);
  if (!swaps_sides(s)) return s;
  std::swap(s.m, s.n);
  std::swap(s.a_row, s.b_col);
  std::swap(s.a_col, s.b_row);
  std::swap(s.a_batch, s.b_batch);
  return s;
}

bool takes_dots(const MatmulShape& s) {
  return s.b_row == 1 && s.a_col == 1 && (s.b_col != 1 || s.k > 1);
}

// The packed copy of a large weight, such as the head of a language model, would take as much
// memory again. A few more rows read it in place.
constexpr int64_t kLargeGemvRows = 8, kLargeWeight = int64_t{1} << 24;

bool is_gemv(const PrepareContext& c) {
  if (c.out(0).dtype != f32) return false;
  const MatmulShape s = gemv_shape(c);
  if (s.m <= kGemvRows) return s.b_col == 1 || (s.b_row == 1 && s.a_col == 1);
  return s.m <= kLargeGemvRows && s.n * s.k >= kLargeWeight && takes_dots(s) && c.is_constant(1) &&
         s.batches() == 1 && c.precision() != Precision::bf16;
}

struct Gemv {
  MatmulShape s;
  bool swaps = false;  // a is input 1, and the bias is one number
  const GemvTable* loops = nullptr;
  const GemmTable* table = nullptr;     // for the epilogue
  const BFloat16* rounded_b = nullptr;  // [n, k], for Precision::bf16
};

Status prepare_gemv(PrepareContext& c) {
  Gemv g;
  g.s = gemv_shape(c);
  g.swaps = swaps_sides(product_shape(c));
  g.loops = &gemv_table();
  g.table = &gemm_table();
  const MatmulShape& s = g.s;
  if (c.precision() == Precision::bf16 && !g.swaps && c.is_constant(1) && s.batches() == 1 &&
      takes_dots(s))
    g.rounded_b = static_cast<const BFloat16*>(
        c.pack(1, str_cat("gemm.bf16.rows/", s.n, ",", s.k, ",", s.b_col), s.n * s.k * 2,
               [b = c.in(1).as<float>(), n = s.n, k = s.k, step = s.b_col](void* to) {
                 auto* const rounded = static_cast<BFloat16*>(to);
                 for (int64_t j = 0; j < n; ++j)
                   for (int64_t p = 0; p < k; ++p) rounded[j * k + p] = BFloat16(b[j * step + p]);
               }));
  c.make_state(std::move(g));
  return {};
}

void run_gemv(const RunContext& c) noexcept {
  const Gemv& g = c.state<Gemv>();
  const MatmulShape& s = g.s;
  const float* a = c.in(g.swaps ? 1 : 0).as<float>();
  const float* b = c.in(g.swaps ? 0 : 1).as<float>();
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  // Pieces of columns that read at least about 64 KiB of b, in whole strips.
  const int64_t width =
      std::min(round_up(s.n, 128), round_up(ceil_div(16384, std::max<int64_t>(1, s.k)), 128));
  const int64_t pieces = ceil_div(s.n, std::max<int64_t>(1, width));
  const int64_t grain =
      std::max<int64_t>(1, 16384 / std::max<int64_t>(1, std::min(s.n, width) * s.k));
  c.parallel_for(s.batches() * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t batch = index / pieces, j = index % pieces * width;
      const int64_t columns = std::min(width, s.n - j), offset = batch * s.m * s.n + j;
      const float* ai = a + s.a_offset(batch);
      const float* bj = b + s.b_offset(batch) + j * s.b_col;
      if (g.rounded_b)
        g.loops->dots_bf16(s.m, columns, s.k, ai, s.a_row, g.rounded_b + j * s.k, s.k, y + offset,
                           s.n);
      else if (takes_dots(s))
        for (int64_t i = 0; i < s.m; i += kGemvRows)  // the piece of b stays in the cache
          g.loops->dots(std::min(kGemvRows, s.m - i), columns, s.k, ai + i * s.a_row, s.a_row, bj,
                        s.b_col, y + offset + i * s.n, s.n);
      else
        g.loops->combine(s.m, columns, s.k, ai, s.a_row, s.a_col, bj, s.b_row, y + offset, s.n);
      const Epilogue e = {.activation = s.activation,
                          .row_bias = g.swaps ? bias : nullptr,
                          .column_bias = bias && !g.swaps ? bias + j : nullptr,
                          .residual = residual ? residual + offset : nullptr};
      if (!e.empty()) g.table->finish(s.m, columns, e, y + offset, s.n);
    }
  });
}
constexpr KernelDef kKernels[] = {
    {.op = "matmul",
     .name = "gemv",
     .accepts = is_gemv,
     .prepare = prepare_gemv,
     .run = run_gemv,
     .strided = kAllStrided},
    {.op = "matmul",
     .name = "gemm",
     .accepts = is_gemm,
     .prepare = prepare,
     .run = run,
     .strided = kAllStrided},
    {.op = "linear",
     .name = "gemv",
     .accepts = is_gemv,
     .prepare = prepare_gemv,
     .run = run_gemv,
     .strided = 1u << 1},
    {.op = "linear",
     .name = "gemm",
     .accepts = is_gemm,
     .prepare = prepare,
     .run = run,
     .strided = 1u << 1},
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
