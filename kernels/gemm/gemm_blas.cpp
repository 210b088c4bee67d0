// SPDX-License-Identifier: Apache-2.0
// matmul and linear with OpenBLAS: in f64, and in f32 if autotune finds it faster. Makes one
// single-threaded call per tile of y. The tiles, and therefore the results, depend only on sizes.
#include <algorithm>

#include "kernels/ceil_div.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/openblas.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// The side of a tile: small tiles can be shared by threads, large ones pack less of their operands.
int64_t side_of(const MatmulShape& s) {
  const int64_t count = s.batches() * s.m * s.n;
  return count <= 256 * 256 ? 64 : count <= 512 * 512 ? 128 : 256;
}

struct GemmBlas {
  MatmulShape s;
  int64_t tiles_m = 1, tiles_n = 1;
};

bool is_by_rows(int64_t columns, int64_t row, int64_t column) {
  return column == 1 && row >= columns;
}
// A matrix with contiguous rows or columns without gaps between them.
bool is_dense(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  return (is_by_rows(columns, row, column) || is_by_rows(rows, column, row)) &&
         fits_openblas(std::max(row, column));
}

// Small products of two row-major matrices allocate with AVX-512 (OpenBLAS 0.3.21).
bool allocates(const MatmulShape& s) {
  constexpr int64_t kSmall = 1000000;
  const int64_t side = side_of(s);
  const int64_t rows = s.m / ceil_div(s.m, side), columns = s.n / ceil_div(s.n, side);
  return is_by_rows(s.k, s.a_row, s.a_col) && is_by_rows(s.n, s.b_row, s.b_col) &&
         rows * columns * s.k <= kSmall;
}

bool accepts(const PrepareContext& c) {
  const DType dtype = c.out(0).dtype;
  if ((dtype != f32 && dtype != f64) || c.out(0).count() == 0) return false;
  const MatmulShape s = product_shape(c);
  return s.k > 0 && fits_openblas(std::max({s.m, s.n, s.k})) &&
         is_dense(s.m, s.k, s.a_row, s.a_col) && is_dense(s.k, s.n, s.b_row, s.b_col) &&
         !allocates(s) && openblas() != nullptr;
}

Status prepare(PrepareContext& c) {
  GemmBlas g{product_shape(c)};
  g.tiles_m = ceil_div(g.s.m, side_of(g.s));
  g.tiles_n = ceil_div(g.s.n, side_of(g.s));
  c.make_state(std::move(g));
  return {};
}

void product(const char* ta, const char* tb, int m, int n, int k, const float* a, int lda,
             const float* b, int ldb, float* y, int ldy) {
  const float one = 1, zero = 0;
  openblas()->sgemm_(ta, tb, &m, &n, &k, &one, a, &lda, b, &ldb, &zero, y, &ldy, 1, 1);
}
void product(const char* ta, const char* tb, int m, int n, int k, const double* a, int lda,
             const double* b, int ldb, double* y, int ldy) {
  const double one = 1, zero = 0;
  openblas()->dgemm_(ta, tb, &m, &n, &k, &one, a, &lda, b, &ldb, &zero, y, &ldy, 1, 1);
}

template <class T>
void run_tiles(const RunContext& c) {
  const GemmBlas& g = c.state<GemmBlas>();
  const MatmulShape& s = g.s;
  const T* const bias = c.has(2) ? c.in(2).as<T>() : nullptr;
  const T* const residual = c.has(3) ? c.in(3).as<T>() : nullptr;
  c.parallel_for(s.batches() * g.tiles_m * g.tiles_n, 1, [&](int64_t index, int64_t) {
    const OneThread one_thread;
    const int64_t tile_m = index % g.tiles_m, tile_n = index / g.tiles_m % g.tiles_n;
    const int64_t batch = index / (g.tiles_m * g.tiles_n);
    const int64_t i0 = part_begin(s.m, g.tiles_m, tile_m), j0 = part_begin(s.n, g.tiles_n, tile_n);
    const int64_t rows = part_begin(s.m, g.tiles_m, tile_m + 1) - i0;
    const int64_t columns = part_begin(s.n, g.tiles_n, tile_n + 1) - j0;
    const T* const a = c.in(0).as<const T>() + s.a_offset(batch) + i0 * s.a_row;
    const T* const b = c.in(1).as<const T>() + s.b_offset(batch) + j0 * s.b_col;
    const int64_t offset = (batch * s.m + i0) * s.n + j0;
    T* const y = c.out(0).as<T>() + offset;
    // Column by column: y^T = b^T a^T.
    const bool a_by_rows = is_by_rows(s.k, s.a_row, s.a_col);
    const bool b_by_rows = is_by_rows(s.n, s.b_row, s.b_col);
    product(b_by_rows ? "N" : "T", a_by_rows ? "N" : "T", static_cast<int>(columns),
            static_cast<int>(rows), static_cast<int>(s.k), b,
            static_cast<int>(b_by_rows ? s.b_row : s.b_col), a,
            static_cast<int>(a_by_rows ? s.a_row : s.a_col), y, static_cast<int>(s.n));
    if (!bias && !residual && s.activation == Activation::none) return;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        T sum = y[i * s.n + j];
        if (bias) sum += bias[j0 + j];
        if (residual) sum += residual[offset + i * s.n + j];
        y[i * s.n + j] = activate(s.activation, sum);
      }
  });
}

void run(const RunContext& c) noexcept {
  if (c.out(0).dtype == f64)
    run_tiles<double>(c);
  else
    run_tiles<float>(c);
}

constexpr KernelDef kKernels[] = {
    {.op = "matmul",
     .name = "openblas",
     .accepts = accepts,
     .prepare = prepare,
     .run = run,
     .strided = kAllStrided},
    {.op = "linear",
     .name = "openblas",
     .accepts = accepts,
     .prepare = prepare,
     .run = run,
     .strided = 1u << 1},
};

}  // namespace

std::span<const KernelDef> gemm_blas() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
