// SPDX-License-Identifier: Apache-2.0
// matmul and linear in f16 and bf16. Operands are widened to f32 per tile, or multiplied as pairs
// of bf16 if the processor can; a constant b is then packed once. Sums are f32 and are rounded
// once, after the epilogue.
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/element.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/tiles.h"
#include "kernels/gemm/wide_lines.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kRowsM = 48;  // a multiple of 6, 12 and 16
constexpr int64_t kTileM = 5 * kRowsM;
constexpr int64_t kTileN = 64;

struct GemmHalf {
  MatmulShape s;
  const GemmTable* table = nullptr;
  const HalfTable* half = nullptr;
  const PairTable* pairs = nullptr;  // operands are pairs
  const float* packed_b = nullptr;   // of pairs: [pieces of k][panels][piece][nr]
  int64_t tile_m = 1, lanes = 1, slot_bytes = 0;

  int64_t tiles_m() const { return ceil_div(s.m, tile_m); }
  int64_t tiles_n() const { return ceil_div(s.n, kTileN); }
};

// Parts of a slot. The rows of a are followed by room, because tiles read beyond the last row.
struct Slot {
  float *panels, *rows, *a, *y, *bias;
  Slot(float* at, int64_t tile_m) {
    panels = at;
    rows = panels + kTileN * kDepthPiece;
    a = rows + kTileN * kDepthPiece;
    y = a + (tile_m + kTileSide) * kDepthPiece;
    bias = y + tile_m * kTileN;
  }
  static int64_t floats(int64_t tile_m) {
    return 2 * kTileN * kDepthPiece + (tile_m + kTileSide) * kDepthPiece + tile_m * kTileN + kTileN;
  }
};

bool accepts(const PrepareContext& c) {
  return (c.out(0).dtype == f16 || c.out(0).dtype == bf16) && c.out(0).count() > 0;
}

// Copies lines along k as pairs, in whichever direction they are contiguous; along k if tiles read
// them. Returns the distances of lines and pairs in the result.
std::pair<int64_t, int64_t> pair_lines(const PairTable& table, int64_t lines, int64_t k,
                                       const BFloat16* from, int64_t line_step, int64_t k_step,
                                       float* to) {
  const int64_t pairs = table.pairs_of(k);
  auto* const halves = reinterpret_cast<BFloat16*>(to);
  if (line_step == 1 && k_step != 1 && !table.in_tiles) {
    for (int64_t p = 0; p < pairs; ++p) {
      const BFloat16 *const even = from + 2 * p * k_step, *const odd = even + k_step;
      BFloat16* const row = halves + 2 * p * lines;
      const bool is_whole = 2 * p + 1 < k;
      for (int64_t i = 0; i < lines; ++i) {
        row[2 * i] = even[i];
        row[2 * i + 1] = is_whole ? odd[i] : BFloat16();
      }
    }
    return {1, lines};
  }
  for (int64_t i = 0; i < lines; ++i, from += line_step) {
    BFloat16* const line = halves + 2 * pairs * i;
    if (k_step == 1)
      std::copy_n(from, k, line);
    else
      for (int64_t p = 0; p < k; ++p) line[p] = from[p * k_step];
    std::fill(line + k, line + 2 * pairs, BFloat16());
  }
  return {pairs, 1};
}

void pack_b(const PairTable& how, const MatmulShape& s, const BFloat16* b, float* to) {
  const GemmTable& table = how.gemm;
  const int64_t nr = table.nr, width = ceil_div(s.n, nr) * nr;
  std::vector<float> lines(static_cast<size_t>(nr * kDepthPiece));
  for (int64_t k0 = 0; k0 < s.k; k0 += 2 * kDepthPiece) {
    const int64_t piece = std::min(2 * kDepthPiece, s.k - k0), pairs = how.pairs_of(piece);
    for (int64_t j = 0; j < s.n; j += nr) {
      const int64_t columns = std::min(nr, s.n - j);
      const auto [column_step, pair_step] = pair_lines(
          how, columns, piece, b + k0 * s.b_row + j * s.b_col, s.b_col, s.b_row, lines.data());
      table.pack(pairs, columns, lines.data(), pair_step, column_step,
                 to + k0 / 2 * width + j * pairs, pairs * nr);
    }
  }
}

Status prepare(PrepareContext& c) {
  GemmHalf g;
  g.s = product_shape(c);
  g.table = &gemm_table();
  g.half = &half_table();
  const PairTable* const tiles = tile_pair_table();
  if (c.out(0).dtype == bf16) g.pairs = tiles ? tiles : pair_table();
  if (g.pairs) g.table = &g.pairs->gemm;
  if (g.pairs && c.is_constant(1) && g.s.batches() == 1 && g.s.k > 0)
    g.packed_b = static_cast<const float*>(
        c.pack(1,
               str_cat("gemm_half.", g.pairs->in_tiles ? "tiles/" : "pairs/", g.s.n, ",", g.s.k,
                       ",", g.s.b_row, ",", g.s.b_col),
               ceil_div(g.s.n, int64_t{g.table->nr}) * g.table->nr * g.pairs->pairs_of(g.s.k) * 4,
               [pairs = g.pairs, s = g.s, b = c.in(1).as<BFloat16>()](void* to) {
                 pack_b(*pairs, s, b, static_cast<float*>(to));
               }));
  const int64_t m = std::max<int64_t>(g.s.m, 1);
  const int64_t rows = ceil_div(m, ceil_div(m, kTileM));  // tiles are about equal
  g.tile_m = std::min(m, ceil_div(rows, kRowsM) * kRowsM);
  g.lanes = tile_lanes(c, g.s.batches() * g.tiles_m() * g.tiles_n());
  g.slot_bytes = Slot::floats(g.tile_m) * 4;
  c.set_workspace(tile_workspace(g.lanes, g.slot_bytes));
  c.make_state(std::move(g));
  return {};
}

// Lines of a or b along k, in f32 or as pairs. Returns the distances of lines and of their
// elements.
template <class T>
std::pair<int64_t, int64_t> operand(const GemmHalf& g, int64_t lines, int64_t k, const T* from,
                                    int64_t line_step, int64_t k_step, float* to) {
  if constexpr (std::is_same_v<T, BFloat16>)
    if (g.pairs) return pair_lines(*g.pairs, lines, k, from, line_step, k_step, to);
  return widen(*g.half, lines, k, from, line_step, k_step, to);
}

template <class T>
void run_tile(const GemmHalf& g, int64_t index, float* memory, const T* a, const T* b,
              const T* bias, const T* residual, T* y) {
  const MatmulShape& s = g.s;
  const int nr = g.table->nr;
  const Slot slot(memory, g.tile_m);
  const int64_t batch = index / (g.tiles_m() * g.tiles_n());
  const int64_t i0 = index % g.tiles_m() * g.tile_m;
  const int64_t j0 = index / g.tiles_m() % g.tiles_n() * kTileN;
  const int64_t rows = std::min(g.tile_m, s.m - i0), columns = std::min(kTileN, s.n - j0);
  a += s.a_offset(batch) + i0 * s.a_row;
  b += s.b_offset(batch) + j0 * s.b_col;
  const int64_t most = g.pairs ? 2 * kDepthPiece : kDepthPiece;
  for (int64_t k0 = 0; k0 == 0 || k0 < s.k; k0 += most) {
    const int64_t numbers = std::min(most, s.k - k0),
                  piece = g.pairs ? g.pairs->pairs_of(numbers) : numbers;
    const float* panels = slot.panels;
    if (g.packed_b) {
      panels = g.packed_b + k0 / 2 * ceil_div(s.n, int64_t{nr}) * nr + j0 * piece;
    } else {
      const auto [b_col, b_row] =
          operand(g, columns, numbers, b + k0 * s.b_row, s.b_col, s.b_row, slot.rows);
      g.table->pack(piece, columns, slot.rows, b_row, b_col, slot.panels, piece * nr);
    }
    const auto [a_row, a_col] =
        operand(g, rows, numbers, a + k0 * s.a_col, s.a_row, s.a_col, slot.a);
    g.table->sweep({.rows = rows,
                    .columns = columns,
                    .k = piece,
                    .left = rows,
                    .a = slot.a,
                    .a_row = a_row,
                    .a_col = a_col,
                    .panels = panels,
                    .panel_step = piece * nr,
                    .y = slot.y,
                    .y_row = kTileN,
                    .add = k0 > 0});
  }
  const int64_t offset = (batch * s.m + i0) * s.n + j0;
  if (bias) g.half->widen(columns, bias + j0, slot.bias);
  for (int64_t i = 0; i < rows; ++i) {
    float* sums = slot.y + i * kTileN;
    if (residual) g.half->widen(columns, residual + offset + i * s.n, slot.rows);
    const Epilogue e = {.activation = s.activation,
                        .column_bias = bias ? slot.bias : nullptr,
                        .residual = residual ? slot.rows : nullptr};
    if (!e.empty()) g.table->finish(1, columns, e, sums, kTileN);
    g.half->narrow(columns, sums, y + offset + i * s.n);
  }
}

template <class T>
void run_all(const RunContext& c) {
  const GemmHalf& g = c.state<GemmHalf>();
  const T* bias = c.has(2) ? c.in(2).as<T>() : nullptr;
  const T* residual = c.has(3) ? c.in(3).as<T>() : nullptr;
  for_tiles(c, g.s.batches() * g.tiles_m() * g.tiles_n(), g.lanes, g.slot_bytes,
            [&](int64_t index, float* slot) {
              run_tile<T>(g, index, slot, c.in(0).as<T>(), c.in(1).as<T>(), bias, residual,
                          c.out(0).as<T>());
            });
}
void run(const RunContext& c) noexcept {
  c.out(0).dtype == f16 ? run_all<Half>(c) : run_all<BFloat16>(c);
}

constexpr KernelDef kKernels[] = {
    {.op = "matmul",
     .name = "gemm_half",
     .accepts = accepts,
     .prepare = prepare,
     .run = run,
     .strided = kAllStrided},
    {.op = "linear",
     .name = "gemm_half",
     .accepts = accepts,
     .prepare = prepare,
     .run = run,
     .strided = 1u << 1},
};

}  // namespace

std::span<const KernelDef> gemm_half() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
