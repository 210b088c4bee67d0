// SPDX-License-Identifier: Apache-2.0
// Matrix products over groups of rows. In f32 each group is a product as in gemm.cpp, with b packed
// while it is read, also from 16 bits; other dtypes use plain loops. The order of a group's sums is
// fixed.
#include <algorithm>

#include "hg/kernel.h"
#include "kernels/arithmetic.h"
#include "kernels/blocking.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemv_simd.h"
#include "kernels/gemm/tiles.h"
#include "kernels/gemm/wide_lines.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPanels = 4;  // of b in one tile

// The product of one group, whose size depends on data: y[m, n] = a[m, k] b[k, n].
template <class T>
struct Product {
  int64_t m = 0, k = 0;
  const T* a = nullptr;
  int64_t b_at = 0;  // in input 1
  T* y = nullptr;
};

struct Shapes {
  bool by_rows = false;  // b has one matrix per group
  int64_t groups = 0, rows = 0, m = 0, k = 0, n = 0;
  int64_t a_row = 0, a_col = 0, b_group = 0, b_row = 0, b_col = 0;
  int64_t lanes = 1, slot_bytes = 0;
  const GemmTable* table = nullptr;

  int64_t tile_n() const { return kPanels * table->nr; }
  int64_t tiles_n() const { return (n + tile_n() - 1) / tile_n(); }

  // Ends that decrease, or are beyond the rows, make groups empty or shorter.
  template <class T>
  Product<T> product(const RunContext& c, int64_t group) const {
    const int64_t* ends = c.in(2).as<int64_t>();
    int64_t begin = 0, end = 0;
    for (int64_t e = 0; e <= group; ++e) {
      begin = end;
      end = std::clamp(ends[e], begin, rows);
    }
    const T* a = c.in(0).as<T>();
    T* y = c.out(0).as<T>();
    if (by_rows) return {end - begin, k, a + begin * a_row, group * b_group, y + begin * n};
    return {m, end - begin, a + begin * a_col, begin * b_row, y + group * m * n};
  }
  int64_t covered(const RunContext& c) const {  // rows that are in groups
    int64_t end = 0;
    for (int64_t e = 0; e < groups; ++e) end = std::clamp(c.in(2).as<int64_t>()[e], end, rows);
    return end;
  }
};

Shapes shapes_of(const PrepareContext& c) {
  const Tensor &a = c.in(0), &b = c.in(1);
  Shapes s;
  s.by_rows = b.rank() == 3;
  const int last = b.rank() - 1;
  s.groups = c.in(2).shape[0];
  s.m = a.shape[0];
  s.k = a.shape[1];
  s.n = b.shape[last];
  s.rows = s.by_rows ? s.m : s.k;
  s.a_row = a.strides[0];
  s.a_col = a.strides[1];
  s.b_group = s.by_rows ? b.strides[0] : 0;
  s.b_row = b.strides[last - 1];
  s.b_col = b.strides[last];
  return s;
}

void clear_rest(const RunContext& c, const Shapes& s) {
  if (!s.by_rows) return;
  const int64_t size = size_of(c.out(0).dtype) * s.n, covered = s.covered(c);
  std::fill_n(c.out(0).as<char>() + covered * size, (s.rows - covered) * size, char{0});
}

Status prepare_loops(PrepareContext& c) {
  c.make_state(shapes_of(c));
  return {};
}

template <class T>
void loops(const RunContext& c) {
  const Shapes& s = c.state<Shapes>();
  c.parallel_for(s.groups, 1, [&](int64_t first, int64_t end) {
    for (int64_t group = first; group < end; ++group) {
      const auto p = s.product<T>(c, group);
      const T* const b = c.in(1).as<T>() + p.b_at;
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < s.n; ++j) {
          SumOf<T> sum = 0;
          for (int64_t q = 0; q < p.k; ++q)
            sum += load(p.a[i * s.a_row + q * s.a_col]) * load(b[q * s.b_row + j * s.b_col]);
          p.y[i * s.n + j] = store<T>(sum);
        }
    }
  });
}

void run_loops(const RunContext& c) noexcept {
  clear_rest(c, c.state<Shapes>());
  for_number(c.out(0).dtype, [&]<class T>() { loops<T>(c); });
}

Status prepare_gemm(PrepareContext& c) {
  Shapes s = shapes_of(c);
  s.table = &gemm_table();
  // Widened lines of b follow its panels.
  s.slot_bytes = kDepthPiece * s.tile_n() * (c.in(1).dtype == f32 ? 4 : 8);
  s.lanes = tile_lanes(c, s.groups * s.tiles_n());
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  c.make_state(s);
  return {};
}

void run_gemm(const RunContext& c) noexcept {
  const Shapes& s = c.state<Shapes>();
  clear_rest(c, s);
  const int64_t nr = s.table->nr, tiles = s.tiles_n();
  const StoredMatrix all(c.in(1));
  const GemvTable& few = gemv_table(all.dtype);
  for_tiles(c, s.groups * tiles, s.lanes, s.slot_bytes, [&](int64_t index, float* slot) {
    const Product<float> p = s.product<float>(c, index / tiles);
    const int64_t j = index % tiles * s.tile_n(), columns = std::min(s.tile_n(), s.n - j);
    const StoredMatrix b = all.at(p.b_at + j * s.b_col);
    if (p.m == 0) return;
    if (p.k == 0) {
      for (int64_t i = 0; i < p.m; ++i) std::fill_n(p.y + i * s.n + j, columns, 0.0f);
    } else if (p.m <= kGemvRows && s.b_row == 1 && s.a_col == 1) {
      few.dots(p.m, columns, p.k, p.a, s.a_row, b.data, s.b_col, p.y + j, s.n);
    } else if (p.m <= kGemvRows && s.b_col == 1) {
      few.combine(p.m, columns, p.k, p.a, s.a_row, s.a_col, b.data, s.b_row, p.y + j, s.n);
    } else {
      for (int64_t k = 0; k < p.k; k += kDepthPiece) {
        const int64_t piece = std::min(kDepthPiece, p.k - k);
        b.at(k * s.b_row)
            .pack(*s.table, piece, columns, s.b_row, s.b_col, slot,
                  slot + kDepthPiece * s.tile_n());
        s.table->sweep({.rows = p.m,
                        .columns = columns,
                        .k = piece,
                        .left = p.m,
                        .a = p.a + k * s.a_col,
                        .a_row = s.a_row,
                        .a_col = s.a_col,
                        .panels = slot,
                        .panel_step = piece * nr,
                        .y = p.y + j,
                        .y_row = s.n,
                        .add = k > 0});
      }
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "grouped_mm",
     .name = "gemm",
     .accepts = [](const PrepareContext& c) { return c.out(0).dtype == f32; },
     .prepare = prepare_gemm,
     .run = run_gemm,
     .strided = 0b11},
    {.op = "mixed_grouped_mm",
     .name = "gemm",
     .prepare = prepare_gemm,
     .run = run_gemm,
     .strided = 0b11},
    {.op = "grouped_mm",
     .name = "loops",
     .prepare = prepare_loops,
     .run = run_loops,
     .strided = 0b11,
     .is_fallback = true},
};

}  // namespace

std::span<const KernelDef> grouped_mm() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
