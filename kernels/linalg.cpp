// SPDX-License-Identifier: Apache-2.0
// Decompositions of matrices and linear systems: one task per matrix, computed in f64 whatever the
// dtype. LU with partial pivoting, Householder's QR, Jacobi's rotations for eigenvalues and
// singular values (Golub, Van Loan, Matrix Computations, 3.4, 5.2, 8.5, 8.6): for small matrices.
#include <algorithm>
#include <cmath>

#include "kernels/gemm.h"
#include "kernels/lines.h"

namespace hg::kernels {
namespace {

struct Batch {
  int64_t count = 1;            // of matrices
  int64_t m = 0, n = 0, k = 0;  // rows and columns of x, columns of b
  bool upper = false, unit = false;
  int64_t lanes = 1, slot_bytes = 0;
};

int64_t rows_of(const Tensor& x) { return x.shape[x.rank() - 2]; }
int64_t columns_of(const Tensor& x) { return x.shape[x.rank() - 1]; }

// size(batch): how many doubles a task needs.
template <class Size>
Status prepare(PrepareContext& c, const Size& size, bool upper = false, bool unit = false) {
  Batch s;
  for (int d = 0; d + 2 < c.in(0).rank(); ++d) s.count *= c.in(0).shape[d];
  s.m = rows_of(c.in(0));
  s.n = columns_of(c.in(0));
  if (c.input_count() > 1) s.k = columns_of(c.in(1));
  s.lanes = tile_lanes(c, s.count);
  s.slot_bytes = size(s) * 8;
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  if (upper) s.upper = c.attrs().flag("upper");
  if (unit) s.unit = c.attrs().flag("unitriangular");
  c.make_state(s);
  return {};
}

// Calls body(state, index, slot, zero of the dtype) for every matrix.
template <class Body>
void each_matrix(const RunContext& c, const Body& body) {
  const Batch& s = c.state<Batch>();
  for_tiles(c, s.count, s.lanes, s.slot_bytes, [&](int64_t index, float* slot) {
    double* memory = reinterpret_cast<double*>(slot);
    if (c.in(0).dtype == f64)
      body(s, index, memory, double());
    else
      body(s, index, memory, float());
  });
}

template <class T>
void load(const Tensor& x, int64_t index, int64_t count, double* to) {
  std::copy_n(x.as<const T>() + index * count, count, to);
}
template <class T>
void save(const Tensor& y, int64_t index, int64_t count, const double* from) {
  T* to = y.as<T>() + index * count;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

// ---- LU with partial pivoting ----

// Turns a[n, n] into its factors; b[n, k] follows the exchanges of rows. Returns the sign of the
// permutation, 0 where a pivot is 0.
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

// b[n, k] becomes a^-1 b of the triangle of a.
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

Status prepare_solve(PrepareContext& c) {
  return prepare(c, [](const Batch& s) { return s.n * s.n + s.n * s.k; });
}
Status prepare_substitution(PrepareContext& c) {
  return prepare(
      c, [](const Batch& s) { return s.n * s.n + s.n * s.k; }, true, true);
}
void run_solve(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* a, auto zero) {
    using T = decltype(zero);
    double* b = a + s.n * s.n;
    load<T>(c.in(0), index, s.n * s.n, a);
    load<T>(c.in(1), index, s.n * s.k, b);
    if (s.n > 0 && factor(a, s.n, b, s.k) == 0) return c.fail("a matrix is singular");
    substitute(a, s.n, false, true, b, s.k);
    substitute(a, s.n, true, false, b, s.k);
    save<T>(c.out(0), index, s.n * s.k, b);
  });
}
void run_solve_triangular(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* a, auto zero) {
    using T = decltype(zero);
    double* b = a + s.n * s.n;
    load<T>(c.in(0), index, s.n * s.n, a);
    load<T>(c.in(1), index, s.n * s.k, b);
    substitute(a, s.n, s.upper, s.unit, b, s.k);
    save<T>(c.out(0), index, s.n * s.k, b);
  });
}

Status prepare_square(PrepareContext& c) {
  return prepare(c, [](const Batch& s) { return 2 * s.n * s.n + s.n; });
}
Status prepare_symmetric(PrepareContext& c) {
  return prepare(
      c, [](const Batch& s) { return 2 * s.n * s.n + s.n; }, true);
}
void run_det(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* a, auto zero) {
    using T = decltype(zero);
    load<T>(c.in(0), index, s.n * s.n, a);
    double det = factor(a, s.n, a, 0);
    for (int64_t i = 0; i < s.n && det != 0; ++i) det *= a[i * s.n + i];
    save<T>(c.out(0), index, 1, &det);
  });
}
void run_slogdet(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* a, auto zero) {
    using T = decltype(zero);
    load<T>(c.in(0), index, s.n * s.n, a);
    double sign = factor(a, s.n, a, 0), logarithm = sign == 0 ? -HUGE_VAL : 0;
    for (int64_t i = 0; i < s.n && sign != 0; ++i) {
      if (a[i * s.n + i] < 0) sign = -sign;
      logarithm += std::log(std::fabs(a[i * s.n + i]));
    }
    save<T>(c.out(0), index, 1, &sign);
    save<T>(c.out(1), index, 1, &logarithm);
  });
}

// ---- Cholesky ----

void run_cholesky(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* a, auto zero) {
    using T = decltype(zero);
    const int64_t n = s.n;
    load<T>(c.in(0), index, n * n, a);
    double* l = a + n * n;
    std::fill_n(l, n * n, 0.0);
    const auto at = [&](int64_t i, int64_t j) -> double& {  // of the factor
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
    save<T>(c.out(0), index, n * n, l);
  });
}

// ---- QR ----

Status prepare_qr(PrepareContext& c) {
  return prepare(c, [](const Batch& s) { return s.m * s.n + s.m * s.m + s.m; });
}
// x <- (1 - 2 v v^T / v^T v) x for the rows from `first` on, v[first] being 1 and `t` 2 / v^T v
void reflect(const double* v, double t, int64_t first, int64_t m, double* x, int64_t width) {
  for (int64_t j = 0; j < width; ++j) {
    double dot = 0;
    for (int64_t i = first; i < m; ++i) dot += v[i] * x[i * width + j];
    for (int64_t i = first; i < m; ++i) x[i * width + j] -= t * dot * v[i];
  }
}
void run_qr(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* r, auto zero) {
    using T = decltype(zero);
    const int64_t m = s.m, n = s.n, k = std::min(m, n);
    double *q = r + m * n, *v = q + m * m;  // q is held transposed
    load<T>(c.in(0), index, m * n, r);
    std::fill_n(q, m * m, 0.0);
    for (int64_t i = 0; i < m; ++i) q[i * m + i] = 1;
    for (int64_t j = 0; j < std::min(m - 1, n); ++j) {
      double below = 0;
      for (int64_t i = j + 1; i < m; ++i) below += r[i * n + j] * r[i * n + j];
      if (below == 0) continue;
      const double alpha = r[j * n + j], length = std::sqrt(alpha * alpha + below);
      const double head = alpha + (alpha < 0 ? -length : length);
      v[j] = 1;
      for (int64_t i = j + 1; i < m; ++i) v[i] = r[i * n + j] / head;
      const double t = 2 / (1 + below / (head * head));
      reflect(v, t, j, m, r, n);
      reflect(v, t, j, m, q, m);
      for (int64_t i = j + 1; i < m; ++i) r[i * n + j] = 0;
    }
    T* to = c.out(0).as<T>() + index * m * k;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j) to[i * k + j] = static_cast<T>(q[j * m + i]);
    save<T>(c.out(1), index, k * n, r);
  });
}

// ---- Jacobi's rotations ----

constexpr int kSweeps = 60;  // quadratic convergence needs about ten

struct Rotation {
  double c = 1, s = 0;
};
// What makes the off-diagonal element of [p off; off q] zero.
Rotation rotation(double p, double off, double q) {
  const double theta = (q - p) / (2 * off);
  const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::hypot(theta, 1.0));
  const double c = 1 / std::hypot(t, 1.0);
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
// Of rows v[count, n]: whether the largest element is negative.
bool points_down(const double* v, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i)
    if (std::fabs(v[i]) > std::fabs(largest) * (1 + 1e-10)) largest = v[i];
  return largest < 0;
}

void run_eigh(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* a, auto zero) {
    using T = decltype(zero);
    const int64_t n = s.n;
    double* v = a + n * n;  // vectors are rows
    double* order = v + n * n;
    load<T>(c.in(0), index, n * n, a);
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
          rotate(r, v + p * n, v + q * n, n, 1);
        }
      if (off <= 1e-36 * size) break;
    }
    for (int64_t i = 0; i < n; ++i) order[i] = static_cast<double>(i);
    const auto value = [&](double i) {
      return a[static_cast<int64_t>(i) * n + static_cast<int64_t>(i)];
    };
    std::sort(order, order + n, [&](double i, double j) {
      return value(i) != value(j) ? value(i) < value(j) : i < j;
    });
    T* values = c.out(0).as<T>() + index * n;
    T* vectors = c.out(1).as<T>() + index * n * n;
    for (int64_t j = 0; j < n; ++j) {
      const double* from = v + static_cast<int64_t>(order[j]) * n;
      const double sign = points_down(from, n) ? -1 : 1;
      values[j] = static_cast<T>(value(order[j]));
      for (int64_t i = 0; i < n; ++i) vectors[i * n + j] = static_cast<T>(sign * from[i]);
    }
  });
}

Status prepare_svd(PrepareContext& c) {
  return prepare(c, [](const Batch& s) {
    const int64_t k = std::min(s.m, s.n), l = std::max(s.m, s.n);
    return k * l + k * k + 2 * k;
  });
}
// The rows of w[k, l], k <= l, become orthogonal: w = v^T (s u^T), v's rows of rotations.
void orthogonalise(double* w, double* v, int64_t k, int64_t l) {
  const auto dot = [&](int64_t p, int64_t q) {
    double sum = 0;
    for (int64_t i = 0; i < l; ++i) sum += w[p * l + i] * w[q * l + i];
    return sum;
  };
  bool moved = true;
  for (int sweep = 0; moved && sweep < kSweeps; ++sweep) {
    moved = false;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t q = p + 1; q < k; ++q) {
        const double pp = dot(p, p), pq = dot(p, q), qq = dot(q, q);
        if (std::fabs(pq) <= 1e-15 * std::sqrt(pp * qq) || std::fabs(pq) < 1e-300) continue;
        moved = true;
        const Rotation r = rotation(pp, pq, qq);
        rotate(r, w + p * l, w + q * l, l, 1);
        rotate(r, v + p * k, v + q * k, k, 1);
      }
  }
}
// A unit row that is orthogonal to the rows before row j, where row j itself is 0.
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
void run_svd(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* w, auto zero) {
    using T = decltype(zero);
    const int64_t m = s.m, n = s.n, k = std::min(m, n), l = std::max(m, n);
    const bool tall = m >= n;  // the rows of w are the columns of x
    double *v = w + k * l, *values = v + k * k, *order = values + k;
    const T* x = c.in(0).as<const T>() + index * m * n;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t i = 0; i < l; ++i) w[p * l + i] = tall ? x[i * n + p] : x[p * n + i];
    for (int64_t i = 0; i < k * l; ++i)
      if (!std::isfinite(w[i])) return c.fail("a matrix is not finite");
    for (int64_t i = 0; i < k * k; ++i) v[i] = i / k == i % k;
    orthogonalise(w, v, k, l);
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
    T* u = c.out(0).as<T>() + index * m * k;
    T* vh = c.out(2).as<T>() + index * k * n;
    for (int64_t j = 0; j < k; ++j) {
      double* row = w + at(j) * l;
      const double value = values[at(j)];
      if (value > 1e-15 * values[at(0)] && value > 0)
        for (int64_t i = 0; i < l; ++i) row[i] /= value;
      else
        complete(w, j, l, order);
      c.out(1).as<T>()[index * k + j] = static_cast<T>(value);
      const double* left = tall ? row : v + at(j) * k;
      const double* right = tall ? v + at(j) * k : row;
      const double sign = points_down(left, m) ? -1 : 1;
      for (int64_t i = 0; i < m; ++i) u[i * k + j] = static_cast<T>(sign * left[i]);
      for (int64_t i = 0; i < n; ++i) vh[j * n + i] = static_cast<T>(sign * right[i]);
    }
  });
}

// ---- LU factors as results ----

struct Orders {
  int64_t count = 1, k = 0, n = 0;
};
Status prepare_lu(PrepareContext& c) {
  return prepare(c, [](const Batch& s) { return s.m * s.n; });
}
void run_lu(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* a, auto zero) {
    using T = decltype(zero);
    const int64_t m = s.m, n = s.n, k = std::min(m, n);
    load<T>(c.in(0), index, m * n, a);
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
      if (a[j * n + j] == 0) continue;  // nothing but zeros below
      for (int64_t i = j + 1; i < m; ++i) {
        const double f = a[i * n + j] /= a[j * n + j];
        for (int64_t p = j + 1; p < n; ++p) a[i * n + p] -= f * a[j * n + p];
      }
    }
    save<T>(c.out(0), index, m * n, a);
  });
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

// ---- e^x: Taylor's polynomial of x / 2^s, squared s times (Higham, Functions of Matrices, 10.3)
// ----

constexpr int kTaylorTerms = 20;  // of a matrix of norm 1/2 at most: 0.5^21 / 21! is below 1e-25

void multiply(const double* a, const double* b, int64_t n, double* y) {
  std::fill_n(y, n * n, 0.0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t p = 0; p < n; ++p)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] += a[i * n + p] * b[p * n + j];
}

Status prepare_exp(PrepareContext& c) {
  return prepare(c, [](const Batch& s) { return 3 * s.n * s.n; });
}
void run_exp(const RunContext& c) noexcept {
  each_matrix(c, [&](const Batch& s, int64_t index, double* x, auto zero) {
    using T = decltype(zero);
    const int64_t n = s.n;
    double *y = x + n * n, *z = y + n * n;
    load<T>(c.in(0), index, n * n, x);
    double norm = 0;  // the largest sum of a row's sizes
    bool finite = true;
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += std::fabs(x[i * n + j]);
      finite = finite && std::isfinite(sum);
      norm = std::max(norm, sum);
    }
    if (!finite) {
      std::fill_n(y, n * n, std::nan(""));
      return save<T>(c.out(0), index, n * n, y);
    }
    int squarings = 0;
    for (; norm > 0.5; norm *= 0.5) ++squarings;
    for (int64_t i = 0; i < n * n; ++i) x[i] = std::ldexp(x[i], -squarings);
    const auto identity = [&](double* to) {
      for (int64_t i = 0; i < n * n; ++i) to[i] = i / n == i % n;
    };
    identity(y);
    for (int k = kTaylorTerms; k > 0; --k) {  // y = 1 + x y / k
      multiply(x, y, n, z);
      identity(y);
      for (int64_t i = 0; i < n * n; ++i) y[i] += z[i] / k;
    }
    for (int k = 0; k < squarings; ++k) {
      multiply(y, y, n, z);
      std::swap(y, z);
    }
    save<T>(c.out(0), index, n * n, y);
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "lu", .name = "loop", .prepare = prepare_lu, .run = run_lu},
    {.op = "lu_rows", .name = "loop", .prepare = prepare_rows, .run = run_rows},
    {.op = "matrix_exp", .name = "taylor", .prepare = prepare_exp, .run = run_exp},
    {.op = "solve", .name = "lu", .prepare = prepare_solve, .run = run_solve},
    {.op = "solve_triangular",
     .name = "substitution",
     .prepare = prepare_substitution,
     .run = run_solve_triangular},
    {.op = "det", .name = "lu", .prepare = prepare_square, .run = run_det},
    {.op = "slogdet", .name = "lu", .prepare = prepare_square, .run = run_slogdet},
    {.op = "cholesky", .name = "loop", .prepare = prepare_symmetric, .run = run_cholesky},
    {.op = "qr", .name = "householder", .prepare = prepare_qr, .run = run_qr},
    {.op = "eigh", .name = "jacobi", .prepare = prepare_symmetric, .run = run_eigh},
    {.op = "svd", .name = "jacobi", .prepare = prepare_svd, .run = run_svd},
};

}  // namespace

std::span<const KernelDef> linalg() { return kKernels; }

}  // namespace hg::kernels
