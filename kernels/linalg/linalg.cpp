// SPDX-License-Identifier: Apache-2.0
// Decompositions, linear systems and the matrix exponential, for small matrices: LU with partial
// pivoting, Cholesky, Householder QR (Golub, Van Loan, Matrix Computations, 3.4, 4.2, 5.2).
// Algorithms based on rotations are in jacobi.cpp.
#include <algorithm>
#include <cmath>

#include "kernels/linalg/loops.h"
#include "lib/table/rows.h"

namespace hg::kernels {

void load(const Tensor& x, int64_t index, int64_t count, double* to) {
  if (x.dtype == f64)
    std::copy_n(x.as<const double>() + index * count, count, to);
  else
    std::copy_n(x.as<const float>() + index * count, count, to);
}
void save(const Tensor& y, int64_t index, int64_t count, const double* from) {
  if (y.dtype == f64) {
    std::copy_n(from, count, y.as<double>() + index * count);
    return;
  }
  float* const to = y.as<float>() + index * count;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

namespace {

// to[columns, rows] = from[rows, columns]^T
template <class From, class To>
void transpose_as(const From* from, int64_t rows, int64_t columns, To* to) {
  constexpr int64_t kSide = 16;  // side of squares whose lines stay in the first-level cache
  for (int64_t i0 = 0; i0 < rows; i0 += kSide)
    for (int64_t j0 = 0; j0 < columns; j0 += kSide)
      for (int64_t i = i0; i < std::min(rows, i0 + kSide); ++i)
        for (int64_t j = j0; j < std::min(columns, j0 + kSide); ++j)
          to[j * rows + i] = static_cast<To>(from[i * columns + j]);
}

}  // namespace

void transpose(const double* from, int64_t rows, int64_t columns, double* to) {
  transpose_as(from, rows, columns, to);
}
void load_transposed(const Tensor& x, int64_t index, int64_t rows, int64_t columns, double* to) {
  if (x.dtype == f64)
    transpose_as(x.as<const double>() + index * rows * columns, rows, columns, to);
  else
    transpose_as(x.as<const float>() + index * rows * columns, rows, columns, to);
}
void save_transposed(const Tensor& y, int64_t index, int64_t rows, int64_t columns,
                     const double* from) {
  if (y.dtype == f64)
    transpose_as(from, columns, rows, y.as<double>() + index * rows * columns);
  else
    transpose_as(from, columns, rows, y.as<float>() + index * rows * columns);
}

namespace {

// -- LU with partial pivoting ---------------------------------------------------------------------

// Factors a[n, n] in place, and applies the row exchanges to b[n, k]. Returns the sign of the
// permutation, 0 if a pivot is 0.
int factor(double* a, int64_t n, double* b, int64_t k) {
  int sign = 1;
  for (int64_t j = 0; j < n; ++j) {
    int64_t pivot = j;
    for (int64_t i = j + 1; i < n; ++i)
      if (std::fabs(a[i * n + j]) > std::fabs(a[pivot * n + j])) pivot = i;
    if (a[pivot * n + j] == 0) return 0;
    if (pivot != j) {
      std::swap_ranges(a + j * n, a + (j + 1) * n, a + pivot * n);
      std::swap_ranges(b + j * k, b + (j + 1) * k, b + pivot * k);
      sign = -sign;
    }
    for (int64_t i = j + 1; i < n; ++i) {
      const double f = a[i * n + j] /= a[j * n + j];
      if (f == 0) continue;
      for (int64_t p = j + 1; p < n; ++p) a[i * n + p] -= f * a[j * n + p];
    }
  }
  return sign;
}

// b[n, k] becomes a^-1 b, where a is triangular.
void substitute(const double* a, int64_t n, bool upper, bool unit, double* b, int64_t k) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    double* row = b + i * k;
    const int64_t begin = upper ? i + 1 : 0, end = upper ? n : i;
    for (int64_t p = begin; p < end; ++p) {
      const double f = a[i * n + p];
      for (int64_t j = 0; j < k; ++j) row[j] -= f * b[p * k + j];
    }
    if (unit) continue;
    for (int64_t j = 0; j < k; ++j) row[j] /= a[i * n + i];
  }
}

int64_t solve_doubles(const Matrices& s) { return s.n * s.n + s.n * s.k; }
void run_solve(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  double* b = a + s.n * s.n;
  load(c.in(0), index, s.n * s.n, a);
  load(c.in(1), index, s.n * s.k, b);
  if (s.n > 0 && factor(a, s.n, b, s.k) == 0) return c.fail("a matrix is singular");
  substitute(a, s.n, false, true, b, s.k);
  substitute(a, s.n, true, false, b, s.k);
  save(c.out(0), index, s.n * s.k, b);
}
void run_solve_triangular(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  double* b = a + s.n * s.n;
  load(c.in(0), index, s.n * s.n, a);
  load(c.in(1), index, s.n * s.k, b);
  substitute(a, s.n, s.upper, s.unit, b, s.k);
  save(c.out(0), index, s.n * s.k, b);
}

int64_t matrix_doubles(const Matrices& s) { return s.m * s.n; }
void run_det(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  load(c.in(0), index, s.n * s.n, a);
  double det = factor(a, s.n, a, 0);
  for (int64_t i = 0; i < s.n && det != 0; ++i) det *= a[i * s.n + i];
  save(c.out(0), index, 1, &det);
}
void run_slogdet(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  load(c.in(0), index, s.n * s.n, a);
  double sign = factor(a, s.n, a, 0), logarithm = sign == 0 ? -HUGE_VAL : 0;
  for (int64_t i = 0; i < s.n && sign != 0; ++i) {
    if (a[i * s.n + i] < 0) sign = -sign;
    logarithm += std::log(std::fabs(a[i * s.n + i]));
  }
  save(c.out(0), index, 1, &sign);
  save(c.out(1), index, 1, &logarithm);
}

// -- Cholesky -------------------------------------------------------------------------------------

int64_t cholesky_doubles(const Matrices& s) { return 2 * s.n * s.n; }
void run_cholesky(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const int64_t n = s.n;
  load(c.in(0), index, n * n, a);
  double* l = a + n * n;
  std::fill_n(l, n * n, 0.0);
  const auto at = [&](int64_t i, int64_t j) -> double& {  // an element of the factor
    return s.upper ? l[j * n + i] : l[i * n + j];
  };
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = j; i < n; ++i) {
      double sum = s.upper ? a[j * n + i] : a[i * n + j];
      for (int64_t p = 0; p < j; ++p) sum -= at(i, p) * at(j, p);
      if (i > j) {
        at(i, j) = sum / at(j, j);
        continue;
      }
      if (!(sum > 0)) return c.fail("a matrix is not positive definite");
      at(j, j) = std::sqrt(sum);
    }
  save(c.out(0), index, n * n, l);
}

// -- QR -------------------------------------------------------------------------------------------

// x <- (1 - t v v^T) x for the rows from `first` on; v[first] is 1
void reflect(const double* v, double t, int64_t first, int64_t m, double* x, int64_t width) {
  for (int64_t j = 0; j < width; ++j) {
    double dot = 0;
    for (int64_t i = first; i < m; ++i) dot += v[i] * x[i * width + j];
    for (int64_t i = first; i < m; ++i) x[i * width + j] -= t * dot * v[i];
  }
}
// x[m, n] becomes r, column by column. Passes each reflection other than 1 to keep(j, v, t).
template <class Keep>
void reflect_columns(double* x, int64_t m, int64_t n, double* v, const Keep& keep) {
  for (int64_t j = 0; j < std::min(m - 1, n); ++j) {
    double below = 0;
    for (int64_t i = j + 1; i < m; ++i) below += x[i * n + j] * x[i * n + j];
    if (below == 0) continue;
    const double alpha = x[j * n + j], length = std::sqrt(alpha * alpha + below);
    const double head = alpha + std::copysign(length, alpha);
    v[j] = 1;
    for (int64_t i = j + 1; i < m; ++i) v[i] = x[i * n + j] / head;
    const double t = 2 / (1 + below / (head * head));
    reflect(v, t, j, m, x, n);
    for (int64_t i = j + 1; i < m; ++i) x[i * n + j] = 0;
    keep(j, v, t);
  }
}

int64_t qr_doubles(const Matrices& s) { return s.m * s.n + s.m * s.m + s.m; }
void run_qr(const RunContext& c, const Matrices& s, int64_t index, double* r) {
  const int64_t m = s.m, n = s.n, k = std::min(m, n);
  double *q = r + m * n, *v = q + m * m;  // q is stored transposed
  load(c.in(0), index, m * n, r);
  std::fill_n(q, m * m, 0.0);
  for (int64_t i = 0; i < m; ++i) q[i * m + i] = 1;
  reflect_columns(r, m, n, v,
                  [&](int64_t j, const double* of, double t) { reflect(of, t, j, m, q, m); });
  save_transposed(c.out(0), index, m, k, q);
  save(c.out(1), index, k * n, r);
}

int64_t geqrf_doubles(const Matrices& s) { return 2 * s.m * s.n + std::min(s.m, s.n) + s.m; }
void run_geqrf(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const int64_t m = s.m, n = s.n, k = std::min(m, n);
  double *const vectors = a + m * n, *const tau = vectors + m * n, *const v = tau + k;
  load(c.in(0), index, m * n, a);
  std::fill_n(vectors, m * n, 0.0);
  std::fill_n(tau, k, 0.0);
  reflect_columns(a, m, n, v, [&](int64_t j, const double* of, double t) {
    for (int64_t i = j + 1; i < m; ++i) vectors[i * n + j] = of[i];
    tau[j] = t;
  });
  for (int64_t i = 0; i < m * n; ++i) a[i] += vectors[i];  // one of the terms is 0
  save(c.out(0), index, m * n, a);
  save(c.out(1), index, k, tau);
}

// -- LU factors as results ------------------------------------------------------------------------

struct Orders {
  int64_t count = 1, k = 0, n = 0;
};
void run_lu(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const int64_t m = s.m, n = s.n, k = std::min(m, n);
  load(c.in(0), index, m * n, a);
  int32_t* pivots = c.out(1).as<int32_t>() + index * k;
  int64_t* rows = c.out(2).as<int64_t>() + index * m;
  for (int64_t i = 0; i < m; ++i) rows[i] = i;
  for (int64_t j = 0; j < k; ++j) {
    int64_t pivot = j;
    for (int64_t i = j + 1; i < m; ++i)
      if (std::fabs(a[i * n + j]) > std::fabs(a[pivot * n + j])) pivot = i;
    pivots[j] = static_cast<int32_t>(pivot + 1);
    if (pivot != j) {
      std::swap_ranges(a + j * n, a + (j + 1) * n, a + pivot * n);
      std::swap(rows[j], rows[pivot]);
    }
    if (a[j * n + j] == 0) continue;  // only zeros below
    for (int64_t i = j + 1; i < m; ++i) {
      const double f = a[i * n + j] /= a[j * n + j];
      for (int64_t p = j + 1; p < n; ++p) a[i * n + p] -= f * a[j * n + p];
    }
  }
  save(c.out(0), index, m * n, a);
}
Status prepare_rows(PrepareContext& c) {
  Orders s;
  const Tensor& x = c.in(0);
  for (int d = 0; d + 1 < x.rank(); ++d) s.count *= x.shape[d];
  s.k = x.shape[x.rank() - 1];
  s.n = c.attrs().integer("n");
  c.make_state(s);
  return {};
}
void run_rows(const RunContext& c) noexcept {
  const Orders& s = c.state<Orders>();
  for (int64_t index = 0; index < s.count; ++index) {
    const int32_t* pivots = c.in(0).as<const int32_t>() + index * s.k;
    int64_t* rows = c.out(0).as<int64_t>() + index * s.n;
    for (int64_t i = 0; i < s.n; ++i) rows[i] = i;
    for (int64_t j = 0; j < s.k; ++j) {
      if (j >= s.n || pivots[j] < 1 || pivots[j] > s.n) return c.fail("a pivot is out of range");
      std::swap(rows[j], rows[pivots[j] - 1]);
    }
  }
}

// -- Matrix exponential ---------------------------------------------------------------------------

void multiply(const double* a, const double* b, int64_t n, int64_t, double* y, double*) {
  std::fill_n(y, n * n, 0.0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t p = 0; p < n; ++p)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] += a[i * n + p] * b[p * n + j];
}

int64_t exp_doubles(const Matrices& s) { return matrix_exp_doubles(s.n, s.n); }
void run_exp(const RunContext& c, const Matrices& s, int64_t index, double* x) {
  matrix_exp(c, s, index, s.n, x, multiply);
}

constexpr KernelDef kKernels[] = {
    {.op = "lu", .name = "loop", .prepare = prepare_task<kLuLoops>, .run = run_task<kLuLoops>},
    {.op = "lu_rows", .name = "loop", .prepare = prepare_rows, .run = run_rows},
    {.op = "matrix_exp",
     .name = "taylor",
     .prepare = prepare_task<kExpLoops>,
     .run = run_task<kExpLoops>},
    {.op = "solve",
     .name = "lu",
     .prepare = prepare_task<kSolveLoops>,
     .run = run_task<kSolveLoops>},
    {.op = "solve_triangular",
     .name = "substitution",
     .prepare = prepare_task<kSolveTriangularLoops>,
     .run = run_task<kSolveTriangularLoops>},
    {.op = "det", .name = "lu", .prepare = prepare_task<kDetLoops>, .run = run_task<kDetLoops>},
    {.op = "slogdet",
     .name = "lu",
     .prepare = prepare_task<kSlogdetLoops>,
     .run = run_task<kSlogdetLoops>},
    {.op = "cholesky",
     .name = "loop",
     .prepare = prepare_task<kCholeskyLoops>,
     .run = run_task<kCholeskyLoops>},
    {.op = "geqrf",
     .name = "householder",
     .prepare = prepare_task<kGeqrfLoops>,
     .run = run_task<kGeqrfLoops>},
    {.op = "qr",
     .name = "householder",
     .prepare = prepare_task<kQrLoops>,
     .run = run_task<kQrLoops>},
};

}  // namespace

int64_t matrix_exp_doubles(int64_t n, int64_t stride) { return 7 * n * stride; }
void matrix_exp(const RunContext& c, const Matrices& s, int64_t index, int64_t stride, double* x,
                MatrixProduct multiply) {
  // The polynomial of degree 15 as one of degree 3 in x^4 (Paterson, Stockmeyer 1973). For a norm
  // of at most 1/2: 0.5^16 / 16! is below 1e-18.
  constexpr double kFactorials[] = {1.0,         1.0,          2.0,           6.0,
                                    24.0,        120.0,        720.0,         5040.0,
                                    40320.0,     362880.0,     3628800.0,     39916800.0,
                                    479001600.0, 6227020800.0, 87178291200.0, 1307674368000.0};
  const int64_t n = s.n, size = n * stride;
  double *const square = x + size, *const cube = square + size, *const fourth = cube + size;
  double *y = fourth + size, *z = y + size, *const work = z + size;
  const auto save_rows = [&] {
    for (int64_t i = 0; i < n; ++i) save(c.out(0), index * n + i, n, y + i * stride);
  };
  double norm = 0;  // the largest sum of the magnitudes in a row
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    double* const row = x + i * stride;
    load(c.in(0), index * n + i, n, row);
    std::fill(row + n, row + stride, 0.0);
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += std::fabs(row[j]);
    finite = finite && std::isfinite(sum);
    norm = std::max(norm, sum);
  }
  if (!finite) {
    std::fill_n(y, size, std::nan(""));
    return save_rows();
  }
  int squarings = 0;
  for (; norm > 0.5; norm *= 0.5) ++squarings;
  if (squarings > 0)
    for (int64_t i = 0; i < size; ++i) x[i] = std::ldexp(x[i], -squarings);
  multiply(x, x, n, stride, square, work);
  multiply(square, x, n, stride, cube, work);
  multiply(square, square, n, stride, fourth, work);
  std::fill_n(y, size, 0.0);
  for (int block = 3; block >= 0; --block) {  // y = y x^4 + the terms of four powers
    const double* const f = kFactorials + 4 * block;
    if (block < 3) {
      multiply(y, fourth, n, stride, z, work);
      std::swap(y, z);
    }
    for (int64_t i = 0; i < size; ++i) y[i] += x[i] / f[1] + square[i] / f[2] + cube[i] / f[3];
    for (int64_t i = 0; i < n; ++i) y[i * stride + i] += 1 / f[0];
  }
  for (int k = 0; k < squarings; ++k) {
    multiply(y, y, n, stride, z, work);
    std::swap(y, z);
  }
  save_rows();
}

constinit const MatrixTask kSolveLoops = {solve_doubles, run_solve};
constinit const MatrixTask kSolveTriangularLoops = {solve_doubles, run_solve_triangular, true,
                                                    true};
constinit const MatrixTask kDetLoops = {matrix_doubles, run_det};
constinit const MatrixTask kSlogdetLoops = {matrix_doubles, run_slogdet};
constinit const MatrixTask kCholeskyLoops = {cholesky_doubles, run_cholesky, true};
constinit const MatrixTask kQrLoops = {qr_doubles, run_qr};
constinit const MatrixTask kGeqrfLoops = {geqrf_doubles, run_geqrf};
constinit const MatrixTask kLuLoops = {matrix_doubles, run_lu};
constinit const MatrixTask kExpLoops = {exp_doubles, run_exp};

std::span<const KernelDef> linalg() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
