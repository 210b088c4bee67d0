// SPDX-License-Identifier: Apache-2.0
// Matrix products of 8-bit integers. A constant b is packed into panels once; the rows of a are
// packed in each run. Quads of bytes are used where no weights could make their sums saturate: a'
// is a as i8 (u8 minus 128), b' is b as u8 (i8 plus 128), and the sums of the columns of b' correct
// for the zero point of a.
#include <algorithm>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/tiles.h"
#include "kernels/integer/integer_operands.h"
#include "kernels/integer/turned_product.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kMaxColumns = 256;     // of a tile
constexpr int64_t kPackGrain = 1 << 15;  // elements that are packed in one task

// Bytes before a b that pack_turned() may have packed. The first says whether it has.
constexpr int64_t kHeader = 64;

struct MatmulInteger {
  MatmulShape s;
  const IntegerTable* table = nullptr;
  TurnedProduct turned;  // if b can be packed for it
  // [matrices of b][panels][steps, nr, 2 or 4], column sums. With `turned`, these or what
  // pack_turned() writes, after a header.
  const char* packed = nullptr;
  bool has_quads = false;
  std::vector<int8_t> ones;     // a row of quads, whose products are the column sums
  std::vector<int32_t> offset;  // of the quads of a panel
  int64_t steps = 0;            // pairs or quads along k
  int64_t a_matrices = 0, b_matrices = 0;
  int64_t tiles = 1, tile = 0;      // of the columns; columns of the largest
  std::vector<int64_t> first_row;   // of each part of the rows, and the end
  std::vector<int64_t> packed_row;  // the same among the packed rows
  bool has_factor = false;          // b's bytes are not the factors themselves
  int64_t lanes = 1, a_at = 0, row_sums_at = 0, factors_at = 0, column_add_at = 0, packed_at = 0;

  int64_t side() const { return has_quads ? table->side : 1; }
  std::string layout() const { return has_quads ? str_cat("quads", side()) : std::string("pairs"); }
  // Of a block of rows, packed.
  int64_t block_bytes(int count) const { return QuadRows(count, side()).rows() * steps * 4; }
  QuadPlaces places() const { return {.whole = steps, .offset = offset.data()}; }
  int64_t parts() const { return static_cast<int64_t>(first_row.size()) - 1; }
  int64_t slot_bytes() const { return table->mr * tile * 4; }  // sums of a block of rows
  int64_t panels() const { return ceil_div(s.n, table->nr); }
  // Whether sums read b as u8 instead of i8.
  bool reads_unsigned() const { return has_quads && !table->signed_quads; }
  int64_t panel_bytes() const { return steps * table->nr * (has_quads ? 4 : 2); }
  int64_t matrix_bytes() const { return panels() * panel_bytes(); }
  // The column sums of each matrix follow all panels.
  int64_t column_sums_at(int64_t matrix) const {
    return b_matrices * matrix_bytes() + matrix * panels() * table->nr * 4;
  }
  int64_t packed_bytes() const {
    return has_quads ? column_sums_at(b_matrices) : b_matrices * matrix_bytes();
  }
};

// The panels [begin, end) of a matrix of b.
void pack_panels(const MatmulInteger& g, const Tensor& b, int64_t matrix, int64_t begin,
                 int64_t end, int8_t* packed) {
  const int64_t nr = g.table->nr, first = begin * nr, columns = std::min(g.s.n, end * nr) - first;
  const int size = g.has_quads ? 4 : 2;
  const uint8_t flip = (b.dtype == DType::i8) == g.reads_unsigned() ? 128 : 0;
  const uint8_t* const from = b.as<uint8_t>() + matrix * g.s.k * g.s.n + first;
  int8_t* const panels = packed + matrix * g.matrix_bytes() + begin * g.panel_bytes();
  for (int64_t step = 0; step < g.steps; ++step) {
    const uint8_t* rows[4];  // beyond the last one, a is 0
    for (int i = 0; i < size; ++i) rows[i] = from + std::min(step * size + i, g.s.k - 1) * g.s.n;
    int8_t* const to = panels + step * nr * size;
    if (g.has_quads)
      g.table->pack_quads(columns, rows, flip, reinterpret_cast<uint8_t*>(to), g.panel_bytes());
    else
      g.table->pack(columns, rows[0], rows[1], flip, to, g.panel_bytes());
  }
  if (g.has_quads) {
    const QuadScope scope(*g.table);
    g.table->quad_sums(1, columns, g.places(), g.ones.data(),
                       reinterpret_cast<const uint8_t*>(panels), g.panel_bytes(),
                       reinterpret_cast<int32_t*>(packed + g.column_sums_at(matrix)) + first, 0);
  }
}

// What is added to the sums of each column: the bias, and the effect of a' instead of a.
const int32_t* column_terms(const RunContext& c, const MatmulInteger& g, const int8_t* packed) {
  const int32_t* const bias = c.has(4) ? c.in(4).as<int32_t>() : nullptr;
  if (!g.has_quads) return bias;
  const int zero = c.has(2) ? zero_points(c.in(2)).at(0) : 0;
  const auto less = static_cast<uint32_t>((c.in(0).dtype == DType::u8 ? 128 : 0) - zero);
  auto* const all = reinterpret_cast<int32_t*>(c.workspace<char>() + g.column_add_at);
  for (int64_t matrix = 0; matrix < g.b_matrices; ++matrix) {
    const auto* const sums = reinterpret_cast<const int32_t*>(packed + g.column_sums_at(matrix));
    int32_t* const to = all + matrix * g.s.n;
    for (int64_t j = 0; j < g.s.n; ++j)
      to[j] = static_cast<int32_t>(less * static_cast<uint32_t>(sums[j]) +
                                   (bias ? static_cast<uint32_t>(bias[j]) : 0));
  }
  return all;
}

// Packs b with pack_turned() if its shape allows it, or with `fill` if its weights need too many
// additional quads.
template <class Fill>
[[gnu::cold]] void pack_for_turned(PrepareContext& c, MatmulInteger& g, const std::string& key,
                                   const Fill& fill) {
  g.turned = turned_product(c);
  if (!g.turned) return;
  const ZeroPoints zeros = c.has(3) ? zero_points(c.in(3)) : ZeroPoints();
  const int64_t bytes = kHeader + std::max(g.packed_bytes(), g.turned.packed_bytes());
  g.packed = static_cast<const char*>(c.pack(
      1, str_cat(key, ".turned", g.turned.table->mr, ",", g.turned.table->nr, ":", key_of(zeros)),
      bytes, [turned = g.turned, b = c.in(1), zeros, fill, bytes](void* to) {
        auto* const header = static_cast<char*>(to);
        std::memset(header, 0, static_cast<size_t>(bytes));
        *header = pack_turned(turned, b, zeros, header + kHeader);
        if (*header == 0) fill(header + kHeader);
      }));
  if (g.packed == nullptr) g.turned = {};
}

[[gnu::cold]] Status prepare(PrepareContext& c) {
  MatmulInteger g;
  const Tensor &a = c.in(0), &b = c.in(1);
  g.s = matmul_shape(a, b);
  g.table = &integer_table();
  const bool one_zero = !c.has(2) || c.in(2).count() == 1;
  g.has_quads = one_zero && g.table->most_pair >= 2 * kMostWeight && g.s.k > 0;
  if (!g.has_quads || quads_of(g.s.k) < kLeastTileQuads) g.table = &integer_table_of_quads();
  g.steps = g.has_quads ? quads_of(g.s.k) : pairs_of(g.s.k);
  g.steps = ceil_div(g.steps, g.side()) * g.side();
  if (g.has_quads) {
    g.ones.assign(static_cast<size_t>(g.block_bytes(1)), 0);
    const QuadRows layout(1, g.side());
    for (int64_t p = 0; p < g.s.k; ++p)
      g.ones[static_cast<size_t>(layout.at(p / 4, 0) + p % 4)] = 1;
    g.offset = panel_places(g.steps, g.table->nr);
  }
  g.a_matrices = g.s.m * g.s.k == 0 ? 0 : a.count() / (g.s.m * g.s.k);
  g.b_matrices = g.s.n * g.s.k == 0 ? 0 : b.count() / (g.s.n * g.s.k);
  const bool is_signed = b.dtype == DType::i8;
  g.has_factor = g.has_quads || !is_signed || c.has(3);
  if (!g.has_quads && is_signed && c.is_constant(3)) {
    const ZeroPoints zeros = zero_points(c.in(3));
    g.has_factor = zeros.at(0) != 0 || key_of(zeros) != "0";
  }
  const std::string key = str_cat("matmul_integer.", g.layout(), "/", g.table->nr);
  const auto fill = [g, b](char* to) {
    for (int64_t i = 0; i < g.b_matrices; ++i)
      pack_panels(g, b, i, 0, g.panels(), reinterpret_cast<int8_t*>(to));
  };
  if constexpr (!kSavesCode) pack_for_turned(c, g, key, fill);
  if (!g.turned && b.count() > 0)
    g.packed = static_cast<const char*>(
        c.pack(1, key, g.packed_bytes(), [fill](void* to) { fill(static_cast<char*>(to)); }));
  const int64_t panels = std::max<int64_t>(1, g.panels());
  const int64_t most =
      std::clamp<int64_t>(kPackedRowsFloats * 4 / std::max<int64_t>(1, g.panel_bytes()), 1,
                          std::max<int64_t>(1, kMaxColumns / g.table->nr));
  g.tiles = ceil_div(panels, most);
  int64_t parts = 1;
  if (c.threads() > 1 && g.s.batches() > 0) {
    const int64_t wanted = 2 * c.threads();
    g.tiles = std::max(g.tiles, std::min(panels, ceil_div(wanted, g.s.batches())));
    parts = ceil_div(wanted, g.s.batches() * g.tiles);
  }
  g.tile = ceil_div(panels, g.tiles) * g.table->nr;
  g.first_row = row_parts(g.s.m, g.table->mr, parts);
  int64_t packed = 0;
  for (int64_t part = 0; part < g.parts(); ++part) {
    g.packed_row.push_back(packed);
    int count;
    for (int64_t i = g.first_row[part]; i < g.first_row[part + 1]; i += count) {
      count = block_rows(g.first_row[part + 1] - i, g.table->mr);
      packed += QuadRows(count, g.side()).rows();
    }
  }
  g.packed_row.push_back(packed);
  g.lanes = tile_lanes(c, g.s.batches() * g.tiles * g.parts());
  const int64_t rows = g.a_matrices * g.s.m;
  g.a_at = slot_step(tile_workspace(g.lanes, g.slot_bytes()));
  g.row_sums_at = g.a_at + slot_step(g.a_matrices * packed * g.steps * 4);
  g.factors_at = g.row_sums_at + slot_step(rows * 4);
  const int64_t factors = g.has_factor ? std::max(g.s.n, c.has(3) ? c.in(3).count() : 0) : 0;
  g.column_add_at = g.factors_at + slot_step(factors * 4);
  g.packed_at = g.column_add_at + (g.has_quads ? slot_step(g.b_matrices * g.s.n * 4) : 0);
  c.set_workspace(g.packed_at + (g.packed == nullptr ? g.packed_bytes() : 0));
  if constexpr (!kSavesCode)
    if (g.turned) c.set_workspace(std::max(c.workspace(), g.turned.workspace()));
  c.make_state(std::move(g));
  return {};
}

void run(const RunContext& c) noexcept {
  const MatmulInteger& g = c.state<MatmulInteger>();
  const MatmulShape& s = g.s;
  if (c.out(0).count() == 0) return;
  char* const workspace = c.workspace<char>();
  const Tensor &a = c.in(0), &b = c.in(1);
  const auto* packed = reinterpret_cast<const int8_t*>(g.packed);
  if constexpr (!kSavesCode)
    if (g.turned) {
      packed += kHeader;
      if (g.packed[0] != 0) return run_turned(c, g.turned, g.packed + kHeader);
    }
  if (packed == nullptr) {
    auto* const to = reinterpret_cast<int8_t*>(workspace + g.packed_at);
    const int64_t all = g.b_matrices * g.panels();
    c.parallel_for(all, std::max<int64_t>(1, kPackGrain / std::max<int64_t>(1, g.panel_bytes())),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin, next; i < end; i = next) {
                       const int64_t matrix = i / g.panels(), first = matrix * g.panels();
                       next = std::min(end, first + g.panels());
                       pack_panels(g, b, matrix, i - first, next - first, to);
                     }
                   });
    packed = to;
  }
  const auto packed_rows = [&](int64_t a_matrix, int64_t part) {
    return workspace + g.a_at + (a_matrix * g.packed_row.back() + g.packed_row[part]) * g.steps * 4;
  };
  auto* const row_sums = reinterpret_cast<int32_t*>(workspace + g.row_sums_at);
  const ZeroPoints a_zeros = c.has(2) ? zero_points(c.in(2)) : ZeroPoints();
  const int64_t parts = g.parts();
  c.parallel_for(g.a_matrices * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i % parts, first = i / parts * s.m + g.first_row[part];
      const int64_t count = g.first_row[part + 1] - g.first_row[part];
      char* const to = packed_rows(i / parts, part);
      if (g.has_quads)
        pack_byte_quads(count, s.k, a, first, a_zeros.at(0), *g.table,
                        reinterpret_cast<int8_t*>(to), row_sums + first);
      else
        pack_byte_rows(count, s.k, a, first, a_zeros, g.table->mr, reinterpret_cast<int16_t*>(to),
                       row_sums + first);
    }
  });
  const ZeroPoints b_zeros = c.has(3) ? zero_points(c.in(3)) : ZeroPoints();
  auto* const factors = reinterpret_cast<int32_t*>(workspace + g.factors_at);
  if (g.has_factor)
    for (int64_t j = 0; j < std::max(s.n, b_zeros.count); ++j)
      factors[j] =
          (b.dtype != DType::i8 ? 0 : -128) + (g.reads_unsigned() ? 0 : 128) - b_zeros.at(j);
  IntegerFinish finish = integer_finish(c);
  finish.scale_by_column = c.has(5) && c.in(5).rank() == 1;
  const int32_t* const column_add = column_terms(c, g, packed);
  char* const y = c.out(0).as<char>();
  const int64_t y_size = size_of(c.out(0).dtype), nr = g.table->nr;
  for_tiles(
      c, s.batches() * g.tiles * parts, g.lanes, g.slot_bytes(), [&](int64_t task, float* slot) {
        auto* const sums = reinterpret_cast<int32_t*>(slot);
        const int64_t batch = task / (g.tiles * parts), tile = task / parts % g.tiles;
        const int64_t part = task % parts;
        const int64_t a_matrix = s.k == 0 ? 0 : s.a_offset(batch) / (s.m * s.k);
        const int64_t b_matrix = s.k == 0 ? 0 : s.b_offset(batch) / (s.n * s.k);
        const int64_t panel = part_begin(g.panels(), g.tiles, tile), first = panel * nr;
        const int64_t columns =
            std::min(s.n, part_begin(g.panels(), g.tiles, tile + 1) * nr) - first;
        const int8_t* const panels = packed + b_matrix * g.matrix_bytes() + panel * g.panel_bytes();
        IntegerFinish f = finish;
        if (column_add) f.column_add = column_add + (g.has_quads ? b_matrix * s.n : 0) + first;
        if (f.scale_by_column) f.scale += first;
        if (g.has_factor && s.k > 0) {
          f.row_factor = row_sums;
          f.column_factor = factors + (b_zeros.count > s.n ? b_matrix * s.n : 0) + first;
        }
        const QuadScope scope(*g.table);
        const char* from = packed_rows(a_matrix, part);
        int count;
        for (int64_t i = g.first_row[part]; i < g.first_row[part + 1];
             i += count, from += g.block_bytes(count)) {
          count = block_rows(g.first_row[part + 1] - i, g.table->mr);
          const int64_t row = a_matrix * s.m + i;
          if (g.has_quads)
            g.table->quad_sums(count, columns, g.places(), reinterpret_cast<const int8_t*>(from),
                               reinterpret_cast<const uint8_t*>(panels), g.panel_bytes(), sums,
                               g.tile);
          else
            g.table->sums(count, columns, g.steps, reinterpret_cast<const int16_t*>(from), panels,
                          sums, g.tile);
          if (f.row_factor) f.row_factor = row_sums + row;
          g.table->finish(count, columns, sums, g.tile, f,
                          y + ((batch * s.m + i) * s.n + first) * y_size, s.n);
        }
      });
}

constexpr KernelDef kKernels[] = {
    {.op = "matmul_integer", .name = "gemm", .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> matmul_integer() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
