// SPDX-License-Identifier: Apache-2.0
// matmul and linear in f64, with panels of b of two vectors. The sums of 4 rows of a at a time stay
// in registers. The order of an element's sum does not depend on the tiles of y.
#include "kernels/gemm/gemm_double.h"

#include <algorithm>
#include <cstdint>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm_double.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/doubles-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

template <int kRows>
void double_rows(const DoubleBlock& b) {
  Doubles sums[kRows][2];
  HWY_ALIGN double out[2 * kDoubles];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = no_doubles();
  const double *a = b.a, *panel = b.panel;
  for (int64_t p = 0; p < b.k; ++p, a += b.a_col, panel += 2 * kDoubles) {
    const Doubles left = load_doubles(panel), right = load_doubles(panel + kDoubles);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const Doubles factor = set_doubles(a[i * b.a_row]);
      sums[i][0] = mul_add(factor, left, sums[i][0]);
      sums[i][1] = mul_add(factor, right, sums[i][1]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    store_doubles(sums[i][0], out);
    store_doubles(sums[i][1], out + kDoubles);
    double* const y = b.y + i * b.y_row;
    for (int64_t j = 0; j < b.columns; ++j) y[j] = b.add ? y[j] + out[j] : out[j];
  }
}

void double_block(const DoubleBlock& b) {
  switch (b.rows) {
    case 4:
      return double_rows<4>(b);
    case 3:
      return double_rows<3>(b);
    case 2:
      return double_rows<2>(b);
    default:
      return double_rows<1>(b);
  }
}

constexpr DoubleTable kDoubleTable = {2 * kDoubles, double_block};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const DoubleTable& double_table() { return *(HG_SIMD_CHOOSE(kDoubleTable)); }

namespace {

constexpr int64_t kRows = 128;  // of a tile

struct GemmDouble {
  MatmulShape s;
  const DoubleTable* table = nullptr;
  int64_t lanes = 1, slot_bytes = 0;

  int64_t tiles_m() const { return ceil_div(s.m, kRows); }
  int64_t tiles_n() const { return ceil_div(s.n, table->columns); }
};

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f64 && c.out(0).count() > 0; }

Status prepare(PrepareContext& c) {
  GemmDouble g{product_shape(c), &double_table()};
  g.lanes = tile_lanes(c, g.s.batches() * g.tiles_m() * g.tiles_n());
  g.slot_bytes = kDepthPiece * g.table->columns * 8;
  c.set_workspace(tile_workspace(g.lanes, g.slot_bytes));
  c.make_state(std::move(g));
  return {};
}

void run(const RunContext& c) noexcept {
  const GemmDouble& g = c.state<GemmDouble>();
  const double* bias = c.has(2) ? c.in(2).as<double>() : nullptr;
  const double* residual = c.has(3) ? c.in(3).as<double>() : nullptr;
  const MatmulShape& s = g.s;
  const int64_t tiles_m = g.tiles_m(), tiles_n = g.tiles_n(), width = g.table->columns;
  for_tiles(c, s.batches() * tiles_m * tiles_n, g.lanes, g.slot_bytes,
            [&](int64_t index, float* slot) {
              auto* const panel = reinterpret_cast<double*>(slot);
              const int64_t batch = index / (tiles_m * tiles_n);
              const int64_t i0 = index % tiles_m * kRows, j0 = index / tiles_m % tiles_n * width;
              const int64_t rows = std::min(kRows, s.m - i0), columns = std::min(width, s.n - j0);
              const double* a = c.in(0).as<double>() + s.a_offset(batch) + i0 * s.a_row;
              const double* b = c.in(1).as<double>() + s.b_offset(batch) + j0 * s.b_col;
              const int64_t offset = (batch * s.m + i0) * s.n + j0;
              double* const y = c.out(0).as<double>() + offset;
              for (int64_t k0 = 0; k0 == 0 || k0 < s.k; k0 += kDepthPiece) {
                const int64_t piece = std::min(kDepthPiece, s.k - k0);
                for (int64_t p = 0; p < piece; ++p)
                  for (int64_t j = 0; j < width; ++j)
                    panel[p * width + j] = j < columns ? b[(k0 + p) * s.b_row + j * s.b_col] : 0;
                for (int64_t i = 0; i < rows; i += 4)
                  g.table->block({.rows = std::min<int64_t>(4, rows - i),
                                  .columns = columns,
                                  .k = piece,
                                  .a = a + i * s.a_row + k0 * s.a_col,
                                  .a_row = s.a_row,
                                  .a_col = s.a_col,
                                  .panel = panel,
                                  .y = y + i * s.n,
                                  .y_row = s.n,
                                  .add = k0 > 0});
              }
              for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < columns; ++j) {
                  double sum = y[i * s.n + j];
                  if (bias) sum += bias[j0 + j];
                  if (residual) sum += residual[offset + i * s.n + j];
                  y[i * s.n + j] = activate(s.activation, sum);
                }
            });
}

constexpr KernelDef kKernels[] = {
    {.op = "matmul",
     .name = "gemm_double",
     .accepts = accepts,
     .prepare = prepare,
     .run = run,
     .strided = kAllStrided},
    {.op = "linear",
     .name = "gemm_double",
     .accepts = accepts,
     .prepare = prepare,
     .run = run,
     .strided = 1u << 1},
};

}  // namespace

std::span<const KernelDef> gemm_double() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif
