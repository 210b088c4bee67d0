// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of symmetric matrices and singular values of small matrices, by two- and one-sided
// Jacobi rotations (Golub, Van Loan, Matrix Computations, 8.5, 8.6).
#include <algorithm>
#include <cmath>

#include "kernels/linalg/loops.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int kSweeps = 60;  // quadratic convergence needs about ten

struct Rotation {
  double c = 1, s = 0;
};
// The rotation that makes the off-diagonal element of [p off; off q] zero.
Rotation rotation(double p, double off, double q) {
  const double theta = (q - p) / (2 * off), size = std::fabs(theta);
  const double root = size < 1e150 ? std::sqrt(size * size + 1) : size;
  const double t = (theta < 0 ? -1 : 1) / (size + root);
  const double c = 1 / std::sqrt(t * t + 1);
  return {c, t * c};
}
// (x, y) <- (c x - s y, s x + c y) for `count` elements `step` apart.
void rotate(const Rotation& r, double* x, double* y, int64_t count, int64_t step) {
  for (int64_t i = 0; i < count * step; i += step) {
    const double a = x[i], b = y[i];
    x[i] = r.c * a - r.s * b;
    y[i] = r.s * a + r.c * b;
  }
}
int64_t eigh_doubles(const Matrices& s) { return 2 * s.n * s.n + s.n; }
template <bool kVectors>
void run_eigh(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const int64_t n = s.n;
  double* v = a + n * n;  // eigenvectors are rows
  double* order = v + n * n;
  load(c.in(0), index, n * n, a);
  double size = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      if (s.upper ? i > j : i < j) a[i * n + j] = a[j * n + i];
      v[i * n + j] = i == j;
    }
  for (int64_t i = 0; i < n * n; ++i) size += a[i] * a[i];
  if (!std::isfinite(size)) return c.fail("a matrix is not finite");
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double off = 0;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        const double value = a[p * n + q];
        off += value * value;
        if (value * value <= 1e-40 * size) continue;
        const Rotation r = rotation(a[p * n + p], value, a[q * n + q]);
        rotate(r, a + p, a + q, n, n);
        rotate(r, a + p * n, a + q * n, n, 1);
        if (kVectors) rotate(r, v + p * n, v + q * n, n, 1);
      }
    if (off <= 1e-36 * size) break;
  }
  for (int64_t i = 0; i < n; ++i) order[i] = static_cast<double>(i);
  const auto value = [&](double i) {
    return a[static_cast<int64_t>(i) * n + static_cast<int64_t>(i)];
  };
  std::sort(order, order + n,
            [&](double i, double j) { return value(i) != value(j) ? value(i) < value(j) : i < j; });
  for (int64_t j = 0; j < n; ++j) {
    put(c.out(0), index * n + j, value(order[j]));
    if (!kVectors) continue;
    const double* from = v + static_cast<int64_t>(order[j]) * n;
    const double sign = points_down(from, n) ? -1 : 1;
    for (int64_t i = 0; i < n; ++i) put(c.out(1), (index * n + i) * n + j, sign * from[i]);
  }
}

int64_t svd_doubles(const Matrices& s) {
  const int64_t k = std::min(s.m, s.n), l = std::max(s.m, s.n);
  return k * l + k * k + 2 * k;
}
// Makes the rows of w[k, l], k <= l, orthogonal: w = v^T (s u^T), where v's rows are rotated.
template <bool kVectors>
void orthogonalise(double* w, double* v, int64_t k, int64_t l) {
  bool moved = true;
  for (int sweep = 0; moved && sweep < kSweeps; ++sweep) {
    moved = false;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t q = p + 1; q < k; ++q) {
        double pp = 0, pq = 0, qq = 0;
        for (int64_t i = 0; i < l; ++i) {
          const double a = w[p * l + i], b = w[q * l + i];
          pp += a * a;
          pq += a * b;
          qq += b * b;
        }
        if (std::fabs(pq) <= 1e-15 * std::sqrt(pp * qq) || std::fabs(pq) < 1e-300) continue;
        moved = true;
        const Rotation r = rotation(pp, pq, qq);
        rotate(r, w + p * l, w + q * l, l, 1);
        if (kVectors) rotate(r, v + p * k, v + q * k, k, 1);
      }
  }
}
// Finds a unit row orthogonal to the rows before row j, if row j is 0.
void complete(double* w, int64_t j, int64_t l, const double* order) {
  double* row = w + static_cast<int64_t>(order[j]) * l;
  for (int64_t axis = 0; axis < l; ++axis) {
    std::fill_n(row, l, 0.0);
    row[axis] = 1;
    double length = 0;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t p = 0; p < j; ++p) {
        const double* other = w + static_cast<int64_t>(order[p]) * l;
        double sum = 0;
        for (int64_t i = 0; i < l; ++i) sum += row[i] * other[i];
        for (int64_t i = 0; i < l; ++i) row[i] -= sum * other[i];
      }
    for (int64_t i = 0; i < l; ++i) length += row[i] * row[i];
    if (length * static_cast<double>(2 * l) < 1) continue;
    for (int64_t i = 0; i < l; ++i) row[i] /= std::sqrt(length);
    return;
  }
}
template <bool kVectors>
void run_svd(const RunContext& c, const Matrices& s, int64_t index, double* w) {
  const int64_t m = s.m, n = s.n, k = std::min(m, n), l = std::max(m, n);
  const bool tall = m >= n;  // the rows of w are the columns of x
  double *v = w + k * l, *values = v + k * k, *order = values + k;
  if (tall)
    load_transposed(c.in(0), index, m, n, w);
  else
    load(c.in(0), index, m * n, w);
  for (int64_t i = 0; i < k * l; ++i)
    if (!std::isfinite(w[i])) return c.fail("a matrix is not finite");
  for (int64_t i = 0; i < k * k; ++i) v[i] = i / k == i % k;
  orthogonalise<kVectors>(w, v, k, l);
  for (int64_t p = 0; p < k; ++p) {
    double sum = 0;
    for (int64_t i = 0; i < l; ++i) sum += w[p * l + i] * w[p * l + i];
    values[p] = std::sqrt(sum);
    order[p] = static_cast<double>(p);
  }
  const auto at = [&](int64_t j) { return static_cast<int64_t>(order[j]); };
  std::sort(order, order + k, [&](double p, double q) {
    const double a = values[static_cast<int64_t>(p)], b = values[static_cast<int64_t>(q)];
    return a != b ? a > b : p < q;
  });
  for (int64_t j = 0; j < k; ++j) {
    double* row = w + at(j) * l;
    const double value = values[at(j)];
    put(c.out(kVectors ? 1 : 0), index * k + j, value);
    if (!kVectors) continue;
    if (value > 1e-15 * values[at(0)] && value > 0)
      for (int64_t i = 0; i < l; ++i) row[i] /= value;
    else
      complete(w, j, l, order);
    const double* left = tall ? row : v + at(j) * k;
    const double* right = tall ? v + at(j) * k : row;
    const double sign = points_down(left, m) ? -1 : 1;
    for (int64_t i = 0; i < m; ++i) put(c.out(0), (index * m + i) * k + j, sign * left[i]);
    for (int64_t i = 0; i < n; ++i) put(c.out(2), (index * k + j) * n + i, sign * right[i]);
  }
}

constexpr KernelDef kKernels[] = {
    {.op = "eigh",
     .name = "jacobi",
     .prepare = prepare_task<kEighLoops>,
     .run = run_task<kEighLoops>},
    {.op = "svd", .name = "jacobi", .prepare = prepare_task<kSvdLoops>, .run = run_task<kSvdLoops>},
    {.op = "eigvalsh",
     .name = "jacobi",
     .prepare = prepare_task<kEigvalshLoops>,
     .run = run_task<kEigvalshLoops>},
    {.op = "svdvals",
     .name = "jacobi",
     .prepare = prepare_task<kSvdvalsLoops>,
     .run = run_task<kSvdvalsLoops>},
};

}  // namespace

constinit const MatrixTask kEighLoops = {eigh_doubles, run_eigh<true>, true};
constinit const MatrixTask kSvdLoops = {svd_doubles, run_svd<true>};
constinit const MatrixTask kEigvalshLoops = {eigh_doubles, run_eigh<false>, true};
constinit const MatrixTask kSvdvalsLoops = {svd_doubles, run_svd<false>};

std::span<const KernelDef> jacobi() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
