// SPDX-License-Identifier: Apache-2.0
// Decompositions and systems with LAPACK (kernels/linalg/lapack.h).
#include "kernels/linalg/lapack.h"

#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// Sets the other triangle of a[n, n] to 0, or to this one mirrored.
template <bool kMirror>
void set_other_triangle(double* a, int64_t n, bool upper) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) {
      double& other = upper ? a[i * n + j] : a[j * n + i];
      other = !kMirror ? 0 : upper ? a[j * n + i] : a[i * n + j];
    }
}

// -- LU -------------------------------------------------------------------------------------------

int64_t solve_doubles(const Matrices& s) { return s.n * s.n + s.n * s.k + doubles_of_ints(s.n); }
bool solve(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const MatrixOrder order(s);
  double* const b = a + s.n * s.n;
  int* const pivots = ints(b + s.n * s.k);
  load_transposed(c.in(0), index, s.n, s.n, a);
  load_transposed(c.in(1), index, s.n, s.k, b);
  if (!is_finite(a, s.n * s.n + s.n * s.k)) return false;
  int info = 0;
  blas().dgetrf_(&order.n, &order.n, a, &order.n, pivots, &info);
  if (info > 0 || is_doubtful(a, s.n, s.n)) return false;
  blas().dgetrs_("N", &order.n, &order.k, a, &order.n, pivots, b, &order.n, &info, 1);
  save_transposed(c.out(0), index, s.n, s.k, b);
  return true;
}

// Row-major b^T is column-major x^T a^T: the triangle is the right operand, and the other one.
int64_t solve_triangular_doubles(const Matrices& s) { return s.n * s.n + s.n * s.k; }
bool solve_triangular(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  // The diagonal is inverted; below this, the inverse overflows.
  constexpr double kSmallest = 0x1p-1022;
  const MatrixOrder order(s);
  double* const b = a + s.n * s.n;
  load(c.in(0), index, s.n * s.n, a);
  load(c.in(1), index, s.n * s.k, b);
  if (!is_finite(a, s.n * s.n + s.n * s.k)) return false;
  for (int64_t i = 0; i < s.n && !s.unit; ++i)
    if (std::fabs(a[i * s.n + i]) < kSmallest) return false;
  const double one = 1;
  blas().dtrsm_("R", s.upper ? "L" : "U", "N", s.unit ? "U" : "N", &order.k, &order.n, &one, a,
                &order.n, b, &order.k, 1, 1, 1, 1);
  save(c.out(0), index, s.n * s.k, b);
  return true;
}

int64_t lu_doubles(const Matrices& s) { return s.m * s.n + doubles_of_ints(std::min(s.m, s.n)); }
// Factors in column-major order, followed by pivots. Returns false if x is not finite.
bool factor(const RunContext& c, const Matrices& s, int64_t index, double* a, int* info) {
  const MatrixOrder order(s);
  load_transposed(c.in(0), index, s.m, s.n, a);
  if (!is_finite(a, s.m * s.n)) return false;
  blas().dgetrf_(&order.m, &order.n, a, &order.m, ints(a + s.m * s.n), info);
  return true;
}
bool lu(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  int info = 0;  // a pivot is 0; LAPACK continues
  if (!factor(c, s, index, a, &info)) return false;
  const int64_t k = std::min(s.m, s.n);
  const int* const found = ints(a + s.m * s.n);
  int32_t* const pivots = c.out(1).as<int32_t>() + index * k;
  int64_t* const rows = c.out(2).as<int64_t>() + index * s.m;
  for (int64_t i = 0; i < s.m; ++i) rows[i] = i;
  for (int64_t j = 0; j < k; ++j) {
    pivots[j] = found[j];
    std::swap(rows[j], rows[found[j] - 1]);
  }
  save_transposed(c.out(0), index, s.m, s.n, a);
  return true;
}
// The sign of the permutation.
int sign_of(const Matrices& s, const double* a) {
  const int* const pivots = reinterpret_cast<const int*>(a + s.n * s.n);
  int sign = 1;
  for (int64_t j = 0; j < s.n; ++j)
    if (pivots[j] != j + 1) sign = -sign;
  return sign;
}
bool det(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  int info = 0;
  if (!factor(c, s, index, a, &info) || info > 0 || is_doubtful(a, s.n, s.n)) return false;
  double det = sign_of(s, a);
  for (int64_t i = 0; i < s.n; ++i) det *= a[i * s.n + i];
  save(c.out(0), index, 1, &det);
  return true;
}
bool slogdet(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  int info = 0;
  if (!factor(c, s, index, a, &info) || info > 0 || is_doubtful(a, s.n, s.n)) return false;
  double sign = sign_of(s, a), logarithm = 0;
  for (int64_t i = 0; i < s.n; ++i) {
    if (a[i * s.n + i] < 0) sign = -sign;
    logarithm += std::log(std::fabs(a[i * s.n + i]));
  }
  save(c.out(0), index, 1, &sign);
  save(c.out(1), index, 1, &logarithm);
  return true;
}

// -- Cholesky and QR ------------------------------------------------------------------------------

int64_t cholesky_doubles(const Matrices& s) { return s.n * s.n; }
bool cholesky(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const MatrixOrder order(s);
  load(c.in(0), index, s.n * s.n, a);
  set_other_triangle<false>(a, s.n, s.upper);
  if (!is_finite(a, s.n * s.n)) return false;
  int info = 0;
  blas().dpotrf_(s.upper ? "L" : "U", &order.n, a, &order.n, &info, 1);
  if (info > 0 || is_doubtful(a, s.n, s.n)) return false;
  save(c.out(0), index, s.n * s.n, a);
  return true;
}

int64_t qr_work(const Matrices& s) {
  const MatrixOrder order(s);
  double factors = 0, product = 0, nothing = 0;
  int info = 0;
  blas().dgeqrf_(&order.m, &order.n, &nothing, &order.m, &nothing, &factors, &kQuery, &info);
  blas().dorgqr_(&order.m, &order.least, &order.least, &nothing, &order.m, &nothing, &product,
                 &kQuery, &info);
  return static_cast<int64_t>(std::max(factors, product));
}
int64_t qr_doubles(const Matrices& s) {
  const int64_t k = std::min(s.m, s.n);
  return s.m * s.n + k + k * s.n + qr_work(s);
}
bool qr(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const MatrixOrder order(s);
  const int64_t m = s.m, n = s.n, k = order.least;
  double *const tau = a + m * n, *const r = tau + k, *const work = r + k * n;
  const int size = work_size(s, work - a);
  load_transposed(c.in(0), index, m, n, a);
  if (!is_finite(a, m * n)) return false;
  int info = 0;
  blas().dgeqrf_(&order.m, &order.n, a, &order.m, tau, work, &size, &info);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) r[i * n + j] = i <= j ? a[j * m + i] : 0;
  blas().dorgqr_(&order.m, &order.least, &order.least, a, &order.m, tau, work, &size, &info);
  save_transposed(c.out(0), index, m, k, a);
  save(c.out(1), index, k * n, r);
  return true;
}

int64_t geqrf_doubles(const Matrices& s) { return s.m * s.n + std::min(s.m, s.n) + qr_work(s); }
bool geqrf(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const MatrixOrder order(s);
  double *const tau = a + s.m * s.n, *const work = tau + order.least;
  const int size = work_size(s, work - a);
  load_transposed(c.in(0), index, s.m, s.n, a);
  if (!is_finite(a, s.m * s.n)) return false;
  int info = 0;
  blas().dgeqrf_(&order.m, &order.n, a, &order.m, tau, work, &size, &info);
  save_transposed(c.out(0), index, s.m, s.n, a);
  save(c.out(1), index, order.least, tau);
  return true;
}

// -- Eigenvalues and singular values --------------------------------------------------------------
//
// The steps of dsyevd and dgesdd, without the application of reflections to vectors, which
// allocates. Divide and conquer multiplies small matrices, for which OpenBLAS 0.3.21 allocates up
// to 4 rows with AVX-512.

// y[m, n] = a[m, k] b[k, n], column-major.
void multiply_columns(int m, int n, int k, const double* a, const double* b, double* y) {
  const double one = 1, zero = 0;
  blas().dgemm_("N", "N", &m, &n, &k, &one, a, &m, b, &k, &zero, y, &m, 1, 1);
}

// Divide and conquer for a tridiagonal matrix, with eigenvectors.
struct Tridiagonal {
  int doubles = 0, ints = 0;
  explicit Tridiagonal(const Matrices& s) {
    const auto n = static_cast<int>(s.n);
    double size = 0, nothing = 0;
    int info = 0;
    blas().dstedc_("V", &n, &nothing, &nothing, &nothing, &n, &size, &kQuery, &ints, &kQuery, &info,
                   1);
    doubles = static_cast<int>(size);
  }
};
int64_t eigh_doubles(const Matrices& s) {
  const MatrixOrder order(s);
  const Tridiagonal inner(s);
  double reduction = 0, vectors = 0, nothing = 0;
  int info = 0;
  blas().dsytrd_("L", &order.n, &nothing, &order.n, &nothing, &nothing, &nothing, &reduction,
                 &kQuery, &info, 1);
  blas().dorgtr_("L", &order.n, &nothing, &order.n, &nothing, &vectors, &kQuery, &info, 1);
  const auto work = static_cast<int64_t>(std::max({reduction, vectors, double(inner.doubles)}));
  return s.n * s.n + 3 * s.n + doubles_of_ints(inner.ints) + work;
}
template <bool kVectors>
bool eigh(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const MatrixOrder order(s);
  const int64_t n = s.n;
  const int count = Tridiagonal(s).ints;
  double *const values = a + n * n, *const beside = values + n, *const tau = beside + n;
  int* const integers = ints(tau + n);
  double* const work = tau + n + doubles_of_ints(count);
  const int size = work_size(s, work - a);
  load(c.in(0), index, n * n, a);
  set_other_triangle<true>(a, n, s.upper);
  if (!is_finite(a, n * n)) return false;
  const int shift = rescale(a, n * n);
  int info = 0;
  blas().dsytrd_("L", &order.n, a, &order.n, values, beside, tau, work, &size, &info, 1);
  if (kVectors) blas().dorgtr_("L", &order.n, a, &order.n, tau, work, &size, &info, 1);
  blas().dstedc_(kVectors ? "V" : "N", &order.n, values, beside, a, &order.n, work, &size, integers,
                 &count, &info, 1);
  if (info != 0) return false;
  scale_back(values, n, shift);
  save(c.out(0), index, n, values);
  if (!kVectors) return true;
  for (int64_t j = 0; j < n; ++j)
    if (points_down(a + j * n, n)) negate(a + j * n, n);
  save_transposed(c.out(1), index, n, n, a);
  return true;
}

// a[l, k], with k <= l, is x, or x^T if x is wide. a = q r; r = left b right, where b is
// bidiagonal; b = u diag(values) v.
struct Svd {
  int l, k;
  double *a, *all, *r, *left, *u, *v, *values, *beside, *tau_left, *tau_right, *work;
  int* integers;
  int size = 0;
  Svd(const Matrices& s, double* slot)
      : l(static_cast<int>(std::max(s.m, s.n))), k(static_cast<int>(std::min(s.m, s.n))) {
    const int64_t square = int64_t{k} * k;
    a = slot;
    all = a + int64_t{l} * k;  // the longer vectors
    r = all + int64_t{l} * k;
    left = r + square;
    u = left + square;
    v = u + square;
    values = v + square;
    beside = values + k;
    tau_left = beside + k;
    tau_right = tau_left + k;
    integers = ints(tau_right + k);
    work = tau_right + k + doubles_of_ints(8 * int64_t{k});
    size = work_size(s, work - slot);
  }
};
int64_t svd_doubles(const Matrices& s) {
  const Svd d(s, nullptr);
  double most = 3.0 * d.k * d.k + 4.0 * d.k, size = 0, nothing = 0;  // of dbdsdc
  int info = 0;
  blas().dgeqrf_(&d.l, &d.k, &nothing, &d.l, &nothing, &size, &kQuery, &info);
  most = std::max(most, size);
  blas().dorgqr_(&d.l, &d.k, &d.k, &nothing, &d.l, &nothing, &size, &kQuery, &info);
  most = std::max(most, size);
  blas().dgebrd_(&d.k, &d.k, &nothing, &d.k, &nothing, &nothing, &nothing, &nothing, &size, &kQuery,
                 &info);
  most = std::max(most, size);
  for (const char* which : {"Q", "P"}) {
    blas().dorgbr_(which, &d.k, &d.k, &d.k, &nothing, &d.k, &nothing, &size, &kQuery, &info, 1);
    most = std::max(most, size);
  }
  return (d.work - d.a) + static_cast<int64_t>(most);
}
// Returns the singular values, and their vectors as rows: all[k, l] and u[k, k].
template <bool kVectors>
bool decompose(Svd& d) {
  const int64_t l = d.l, k = d.k;
  int info = 0, nothing = 0;
  double none = 0;
  if (l > k) {
    blas().dgeqrf_(&d.l, &d.k, d.a, &d.l, d.tau_left, d.work, &d.size, &info);
    for (int64_t j = 0; j < k; ++j)
      for (int64_t i = 0; i < k; ++i) d.r[j * k + i] = i <= j ? d.a[j * l + i] : 0;
    if (kVectors) blas().dorgqr_(&d.l, &d.k, &d.k, d.a, &d.l, d.tau_left, d.work, &d.size, &info);
  } else {
    std::copy_n(d.a, k * k, d.r);
  }
  blas().dgebrd_(&d.k, &d.k, d.r, &d.k, d.values, d.beside, d.tau_left, d.tau_right, d.work,
                 &d.size, &info);
  if (!kVectors) {
    blas().dbdsdc_("U", "N", &d.k, d.values, d.beside, d.u, &d.k, d.v, &d.k, &none, &nothing,
                   d.work, d.integers, &info, 1, 1);
    return info == 0;
  }
  std::copy_n(d.r, k * k, d.left);
  blas().dorgbr_("Q", &d.k, &d.k, &d.k, d.left, &d.k, d.tau_left, d.work, &d.size, &info, 1);
  blas().dorgbr_("P", &d.k, &d.k, &d.k, d.r, &d.k, d.tau_right, d.work, &d.size, &info, 1);
  blas().dbdsdc_("U", "I", &d.k, d.values, d.beside, d.u, &d.k, d.v, &d.k, &none, &nothing, d.work,
                 d.integers, &info, 1, 1);
  if (info != 0) return false;
  if (l > k) {
    multiply_columns(d.k, d.k, d.k, d.left, d.u, d.work);
    multiply_columns(d.l, d.k, d.k, d.a, d.work, d.all);
  } else {
    multiply_columns(d.k, d.k, d.k, d.left, d.u, d.all);
  }
  multiply_columns(d.k, d.k, d.k, d.v, d.r, d.left);
  transpose(d.left, k, k, d.u);
  return true;
}
template <bool kVectors>
bool svd(const RunContext& c, const Matrices& s, int64_t index, double* slot) {
  Svd d(s, slot);
  const int64_t m = s.m, n = s.n, k = d.k;
  const bool tall = m >= n;
  if (tall)
    load_transposed(c.in(0), index, m, n, d.a);
  else
    load(c.in(0), index, m * n, d.a);
  if (!is_finite(d.a, m * n)) return false;
  const int shift = rescale(d.a, m * n);
  if (!decompose<kVectors>(d)) return false;
  scale_back(d.values, k, shift);
  save(c.out(kVectors ? 1 : 0), index, k, d.values);
  if (!kVectors) return true;
  double *const u = tall ? d.all : d.u, *const vh = tall ? d.u : d.all;  // rows
  for (int64_t j = 0; j < k; ++j) {
    if (!points_down(u + j * m, m)) continue;
    negate(u + j * m, m);
    negate(vh + j * n, n);
  }
  save_transposed(c.out(0), index, m, k, u);
  save(c.out(2), index, k * n, vh);
  return true;
}

// -- Matrix exponential ---------------------------------------------------------------------------

// Column-major: y^T = b^T a^T. Small products of matrices that are not transposed allocate
// (OpenBLAS 0.3.21).
void multiply(const double* a, const double* b, int64_t n, int64_t, double* y, double* work) {
  const auto size = static_cast<int>(n);
  const double one = 1, zero = 0;
  transpose(b, n, n, work);
  blas().dgemm_("T", "N", &size, &size, &size, &one, work, &size, a, &size, &zero, y, &size, 1, 1);
}
int64_t exp_doubles(const Matrices& s) { return matrix_exp_doubles(s.n, s.n); }
bool exp(const RunContext& c, const Matrices& s, int64_t index, double* x) {
  matrix_exp(c, s, index, s.n, x, multiply);
  return true;
}

// -- Kernels --------------------------------------------------------------------------------------

constexpr LapackTask kSolve = {{kSolveLoops, solve_doubles, solve}, 48};
constexpr LapackTask kSolveTriangular = {
    {kSolveTriangularLoops, solve_triangular_doubles, solve_triangular}, 24};
constexpr LapackTask kDet = {{kDetLoops, lu_doubles, det}, 80};
constexpr LapackTask kSlogdet = {{kSlogdetLoops, lu_doubles, slogdet}, 80};
constexpr LapackTask kLu = {{kLuLoops, lu_doubles, lu}, 80};
constexpr LapackTask kCholesky = {{kCholeskyLoops, cholesky_doubles, cholesky}, 96};
constexpr LapackTask kQr = {{kQrLoops, qr_doubles, qr}, 20};
constexpr LapackTask kGeqrf = {{kGeqrfLoops, geqrf_doubles, geqrf}, 20};
constexpr LapackTask kEigh = {{kEighLoops, eigh_doubles, eigh<true>}, 7};
constexpr LapackTask kEigvalsh = {{kEigvalshLoops, eigh_doubles, eigh<false>}, 5};
constexpr LapackTask kSvd = {{kSvdLoops, svd_doubles, svd<true>}, 12};
constexpr LapackTask kSvdvals = {{kSvdvalsLoops, svd_doubles, svd<false>}, 7};
constexpr LapackTask kExp = {{kExpLoops, exp_doubles, exp}, 8};

constexpr KernelDef kKernels[] = {
    lapack_row<kSolve>("solve"),     lapack_row<kSolveTriangular>("solve_triangular"),
    lapack_row<kDet>("det"),         lapack_row<kSlogdet>("slogdet"),
    lapack_row<kLu>("lu"),           lapack_row<kCholesky>("cholesky"),
    lapack_row<kQr>("qr"),           lapack_row<kGeqrf>("geqrf"),
    lapack_row<kEigh>("eigh"),       lapack_row<kSvd>("svd"),
    lapack_row<kExp>("matrix_exp"),  lapack_row<kEigvalsh>("eigvalsh"),
    lapack_row<kSvdvals>("svdvals"),
};

}  // namespace

std::span<const KernelDef> lapack() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
