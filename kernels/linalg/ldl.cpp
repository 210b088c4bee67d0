// SPDX-License-Identifier: Apache-2.0
// Factors symmetric matrices as l d l^T, where d has blocks of one or two rows, with the pivoting
// of Bunch and Kaufman (Golub, Van Loan, Matrix Computations, 4.4), and solves systems with the
// factors. Factors and pivots equal those of LAPACK for the lower triangle.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "kernels/linalg/loops.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// A pivot: the row that is exchanged with the last row of its block, and the block's rows.
struct Pivot {
  int64_t row = 0;
  int rows = 1;
};

// The pivot for the columns from k on of a[n, n], given by its lower triangle. No rows: the column
// is 0.
Pivot choose(const double* a, int64_t n, int64_t k) {
  static const double kAlpha = (1 + std::sqrt(17.0)) / 8;  // limits the growth of elements
  const auto size = [&](int64_t i, int64_t j) {
    return std::fabs(i < j ? a[j * n + i] : a[i * n + j]);
  };
  int64_t row = k;
  double largest = 0;
  for (int64_t i = k + 1; i < n; ++i)
    if (size(i, k) > largest) {
      largest = size(i, k);
      row = i;
    }
  const double own = size(k, k);
  if (std::max(own, largest) == 0) return {k, 0};
  if (own >= kAlpha * largest || std::isnan(own)) return {k, 1};
  double across = 0;  // the largest off-diagonal element of that row
  for (int64_t j = k; j < n; ++j)
    if (j != row) across = std::max(across, size(row, j));
  if (own >= kAlpha * largest * (largest / across)) return {k, 1};
  return {row, size(row, row) >= kAlpha * across ? 1 : 2};
}

// Exchanges rows and columns p < q of the rest of the symmetric matrix.
void exchange(double* a, int64_t n, int64_t p, int64_t q) {
  for (int64_t i = q + 1; i < n; ++i) std::swap(a[i * n + p], a[i * n + q]);
  for (int64_t i = p + 1; i < q; ++i) std::swap(a[i * n + p], a[q * n + i]);
  std::swap(a[p * n + p], a[q * n + q]);
}

void eliminate_row(double* a, int64_t n, int64_t k) {
  const double d = a[k * n + k];
  for (int64_t j = k + 1; j < n; ++j) {
    const double f = a[j * n + k] / d;
    for (int64_t i = j; i < n; ++i) a[i * n + j] -= a[i * n + k] * f;
    a[j * n + k] = f;
  }
}
void eliminate_two(double* a, int64_t n, int64_t k) {
  const double below = a[(k + 1) * n + k];
  const double p = a[(k + 1) * n + k + 1] / below, q = a[k * n + k] / below;
  const double scale = 1 / (p * q - 1) / below;
  for (int64_t j = k + 2; j < n; ++j) {
    const double x = a[j * n + k], y = a[j * n + k + 1];
    const double f = scale * (p * x - y), g = scale * (q * y - x);
    for (int64_t i = j; i < n; ++i) a[i * n + j] -= a[i * n + k] * f + a[i * n + k + 1] * g;
    a[j * n + k] = f;
    a[j * n + k + 1] = g;
  }
}

int64_t factor_doubles(const Matrices& s) { return s.n * s.n; }
void run_factor(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const int64_t n = s.n;
  load(c.in(0), index, n * n, a);
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + (i + 1) * n, 0);
  int32_t* const pivots = c.out(1).as<int32_t>() + index * n;
  for (int64_t k = 0; k < n;) {
    const Pivot pivot = choose(a, n, k);
    if (pivot.rows == 0) return c.fail("a matrix is singular");
    const int64_t last = k + pivot.rows - 1;
    if (pivot.row != last) {
      exchange(a, n, last, pivot.row);
      if (pivot.rows == 2) std::swap(a[last * n + k], a[pivot.row * n + k]);
    }
    const auto number = static_cast<int32_t>(pivot.row + 1);
    std::fill_n(pivots + k, pivot.rows, pivot.rows == 1 ? number : -number);
    if (pivot.rows == 1)
      eliminate_row(a, n, k);
    else
      eliminate_two(a, n, k);
    k += pivot.rows;
  }
  save(c.out(0), index, n * n, a);
}

int64_t solve_doubles(const Matrices& s) { return s.n * s.n + s.n * s.k; }
// Applies the exchanges to b, divides by l, d and l^T, and reverts the exchanges.
void run_solve(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const int64_t n = s.n, columns = s.k;
  double* const b = a + n * n;
  const int32_t* const pivots = c.in(2).as<int32_t>() + index * n;
  if (!are_ldl_pivots(pivots, n)) return c.fail("the pivots are not those of a factorization");
  load(c.in(0), index, n * n, a);
  load(c.in(1), index, n * columns, b);
  const auto exchange_rows = [&](int64_t i) {
    const int64_t row = std::abs(int64_t{pivots[i]}) - 1;
    if (row != i) std::swap_ranges(b + i * columns, (b + i * columns) + columns, b + row * columns);
  };
  const auto subtract = [&](int64_t to, double f, int64_t from) {
    for (int64_t j = 0; j < columns; ++j) b[to * columns + j] -= f * b[from * columns + j];
  };
  int64_t k = 0;
  for (; k < n; ++k) {
    const int64_t rows = pivots[k] < 0 ? 2 : 1, last = k + rows - 1;
    exchange_rows(last);
    for (int64_t i = last + 1; i < n; ++i)
      for (int64_t p = k; p <= last; ++p) subtract(i, a[i * n + p], p);
    if (rows == 1) {
      for (int64_t j = 0; j < columns; ++j) b[k * columns + j] /= a[k * n + k];
    } else {
      const double below = a[last * n + k];
      const double p = a[k * n + k] / below, q = a[last * n + last] / below, r = p * q - 1;
      for (int64_t j = 0; j < columns; ++j) {
        double &x = b[k * columns + j], &y = b[last * columns + j];
        const double f = x / below, g = y / below;
        x = (q * f - g) / r;
        y = (p * g - f) / r;
      }
    }
    k = last;
  }
  for (k = n - 1; k >= 0; --k) {
    const int64_t rows = pivots[k] < 0 ? 2 : 1, first = k - rows + 1;
    for (int64_t i = k + 1; i < n; ++i)
      for (int64_t p = first; p <= k; ++p) subtract(p, a[i * n + p], i);
    exchange_rows(k);
    k = first;
  }
  save(c.out(0), index, n * columns, b);
}

constexpr KernelDef kKernels[] = {
    {.op = "ldl_factor",
     .name = "loop",
     .prepare = prepare_task<kLdlFactorLoops>,
     .run = run_task<kLdlFactorLoops>},
    {.op = "ldl_solve",
     .name = "loop",
     .prepare = prepare_task<kLdlSolveLoops>,
     .run = run_task<kLdlSolveLoops>},
};

}  // namespace

bool are_ldl_pivots(const int32_t* pivots, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const bool is_pair = pivots[k] < 0;
    const int64_t row = is_pair ? -int64_t{pivots[k]} - 1 : int64_t{pivots[k]} - 1;
    if (row < k + is_pair || row >= n || (is_pair && pivots[k + 1] != pivots[k])) return false;
    k += is_pair;
  }
  return true;
}

constinit const MatrixTask kLdlFactorLoops = {factor_doubles, run_factor};
constinit const MatrixTask kLdlSolveLoops = {solve_doubles, run_solve};

std::span<const KernelDef> ldl() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
