// SPDX-License-Identifier: Apache-2.0
// Symmetric matrices as l d l^T with LAPACK, and systems solved with the factors.
#include "kernels/linalg/lapack.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// Whether a block of one row of d is 0 within rounding: the loops decide what that means.
bool is_doubtful(const double* a, const int* pivots, int64_t n, double epsilon) {
  double least = HUGE_VAL, most = 0;
  for (int64_t i = 0; i < n; ++i) {
    most = std::max(most, std::fabs(a[i * n + i]));
    if (pivots[i] > 0) least = std::min(least, std::fabs(a[i * n + i]));
  }
  return least <= epsilon * static_cast<double>(n) * most;
}

int64_t factor_work(const Matrices& s) {
  const MatrixOrder order(s);
  double size = 0, nothing = 0;
  int pivots = 0, info = 0;
  blas().dsytrf_("L", &order.n, &nothing, &order.n, &pivots, &size, &kQuery, &info, 1);
  return static_cast<int64_t>(size);
}
int64_t factor_doubles(const Matrices& s) {
  return s.n * s.n + doubles_of_ints(s.n) + factor_work(s);
}
bool factor(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const MatrixOrder order(s);
  const int64_t n = s.n;
  int* const pivots = ints(a + n * n);
  double* const work = a + n * n + doubles_of_ints(n);
  const int size = work_size(s, work - a);
  load_transposed(c.in(0), index, n, n, a);
  for (int64_t j = 1; j < n; ++j) std::fill_n(a + j * n, j, 0.0);  // of columns
  if (!is_finite(a, n * n)) return false;
  int info = 0;
  blas().dsytrf_("L", &order.n, a, &order.n, pivots, work, &size, &info, 1);
  if (info != 0 || is_doubtful(a, pivots, n, 0x1p-52)) return false;
  std::copy_n(pivots, n, c.out(1).as<int32_t>() + index * n);
  save_transposed(c.out(0), index, n, n, a);
  return true;
}

int64_t solve_doubles(const Matrices& s) { return s.n * s.n + s.n * s.k; }
bool solve(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const MatrixOrder order(s);
  const int64_t n = s.n;
  double* const b = a + n * n;
  const int32_t* const pivots = c.in(2).as<int32_t>() + index * n;
  if (!are_ldl_pivots(pivots, n)) return false;
  load_transposed(c.in(0), index, n, n, a);
  for (int64_t j = 1; j < n; ++j) std::fill_n(a + j * n, j, 0.0);
  load_transposed(c.in(1), index, n, s.k, b);
  if (!is_finite(a, n * n + n * s.k) || is_doubtful(a, pivots, n, 0)) return false;
  int info = 0;
  blas().dsytrs_("L", &order.n, &order.k, a, &order.n, pivots, b, &order.n, &info, 1);
  save_transposed(c.out(0), index, n, s.k, b);
  return true;
}

constexpr LapackTask kFactor = {{kLdlFactorLoops, factor_doubles, factor}, 64};
constexpr LapackTask kSolve = {{kLdlSolveLoops, solve_doubles, solve}, 64};

constexpr KernelDef kKernels[] = {
    lapack_row<kFactor>("ldl_factor"),
    lapack_row<kSolve>("ldl_solve"),
};

}  // namespace

std::span<const KernelDef> lapack_ldl() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
