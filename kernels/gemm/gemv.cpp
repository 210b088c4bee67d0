// SPDX-License-Identifier: Apache-2.0
// matmul and linear in f32, and mixed_linear, with few rows or one column: reading b is the
// bottleneck, so b is read in place.
#include <algorithm>
#include <utility>

#include "hg/kernel.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemv_simd.h"
#include "kernels/gemm/matmul_shape.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// Every element of b is used once or a few times, so packing would cost more than it saves. If b is
// contiguous along k, computes dot products; if along n, sums of rows. A matrix times one column is
// computed as the column times the transposed matrix.
bool swaps_sides(const PrepareContext& c, const MatmulShape& s) {
  return s.n == 1 && s.m > kGemvRows && c.in(1).dtype == f32;
}

MatmulShape gemv_shape(const PrepareContext& c) {
  MatmulShape s = product_shape(c);
  if (!swaps_sides(c, s)) return s;
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
// memory again. A few more rows read it in place, and any weight of 16 bits.
constexpr int64_t kMostGemvRows = 8, kLargeWeight = int64_t{1} << 24;

bool is_gemv(const PrepareContext& c) {
  if (c.out(0).dtype != f32) return false;
  const MatmulShape s = gemv_shape(c);
  if (s.m <= kGemvRows) return s.b_col == 1 || (s.b_row == 1 && s.a_col == 1);
  if (s.m > kMostGemvRows || !takes_dots(s)) return false;
  return c.in(1).dtype != f32 || (s.n * s.k >= kLargeWeight && c.is_constant(1) &&
                                  s.batches() == 1 && c.precision() != Precision::bf16);
}

struct Gemv {
  MatmulShape s;
  bool swaps = false;  // a is input 1, and the bias is one number
  int64_t b_size = 4;  // bytes of a number
  const GemvTable* loops = nullptr;
  const GemmTable* table = nullptr;     // for the epilogue
  const BFloat16* rounded_b = nullptr;  // [n, k], for Precision::bf16
};

Status prepare_gemv(PrepareContext& c) {
  Gemv g;
  g.s = gemv_shape(c);
  g.swaps = swaps_sides(c, product_shape(c));
  g.table = &gemm_table();
  const MatmulShape& s = g.s;
  DType b = c.in(1).dtype;
  if (b == f32 && c.precision() == Precision::bf16 && !g.swaps && c.is_constant(1) &&
      s.batches() == 1 && takes_dots(s))
    g.rounded_b = static_cast<const BFloat16*>(
        c.pack(1, str_cat("gemm.bf16.rows/", s.n, ",", s.k, ",", s.b_col), s.n * s.k * 2,
               [b = c.in(1).as<float>(), n = s.n, k = s.k, step = s.b_col](void* to) {
                 auto* const rounded = static_cast<BFloat16*>(to);
                 for (int64_t j = 0; j < n; ++j)
                   for (int64_t p = 0; p < k; ++p) rounded[j * k + p] = BFloat16(b[j * step + p]);
               }));
  if (g.rounded_b) {
    b = bf16;
    g.s.b_col = s.k;
  }
  g.b_size = size_of(b);
  g.loops = &gemv_table(b);
  c.make_state(std::move(g));
  return {};
}

void run_gemv(const RunContext& c) noexcept {
  const Gemv& g = c.state<Gemv>();
  const MatmulShape& s = g.s;
  const float* a = c.in(g.swaps ? 1 : 0).as<float>();
  const char* b =
      g.rounded_b ? reinterpret_cast<const char*>(g.rounded_b) : c.in(g.swaps ? 0 : 1).as<char>();
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  // Pieces of columns that read at least about 64 KiB of b, in whole strips.
  const int64_t enough = std::min(s.n, ceil_div(16384, std::max<int64_t>(1, s.k)));
  const int64_t width = ceil_div(enough, 128) * 128;
  const int64_t pieces = ceil_div(s.n, std::max<int64_t>(1, width));
  const int64_t grain =
      std::max<int64_t>(1, 16384 / std::max<int64_t>(1, std::min(s.n, width) * s.k));
  c.parallel_for(s.batches() * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t batch = index / pieces, j = index % pieces * width;
      const int64_t columns = std::min(width, s.n - j), offset = batch * s.m * s.n + j;
      const float* ai = a + s.a_offset(batch);
      const char* bj = b + (s.b_offset(batch) + j * s.b_col) * g.b_size;
      if (takes_dots(s))
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
    {.op = "linear",
     .name = "gemv",
     .accepts = is_gemv,
     .prepare = prepare_gemv,
     .run = run_gemv,
     .strided = 1u << 1},
    {.op = "mixed_linear",
     .name = "gemv",
     .accepts = is_gemv,
     .prepare = prepare_gemv,
     .run = run_gemv,
     .strided = 1u << 1},
};

}  // namespace

std::span<const KernelDef> gemv() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
