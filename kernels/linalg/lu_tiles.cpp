// SPDX-License-Identifier: Apache-2.0
// Systems and determinants of matrices of moderate size, with the tiles of lu_simd.h. Matrices that
// are not finite, or singular within rounding, are passed to the library's plain loops, which
// decide whether a matrix is singular in the same way on every machine.
#include "kernels/linalg/loops.h"
#include "kernels/linalg/lu_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// Copies matrix `index` of x to lines whose first elements to(i) returns, followed by zeros up to
// `width` elements.
template <class To>
bool load_lines(const Tensor& x, int64_t index, int64_t rows, int64_t columns, int64_t width,
                const To& to) {
  bool finite = true;
  for (int64_t i = 0; i < rows; ++i) {
    load(x, index * rows + i, columns, to(i));
    std::fill(to(i) + columns, to(i) + width, 0.0);
    finite = finite && is_finite(to(i), columns);
  }
  return finite;
}
bool load_matrix(const Tensor& x, int64_t index, const LuSystem& s) {
  return load_lines(x, index, s.rows, s.columns, LuSystem::padded(s.columns),
                    [&](int64_t i) { return s.row(i); });
}
bool factor(const LuSystem& s) {
  if (!lu_table().factor(s)) return false;
  return !is_doubtful(s.a, std::min(s.rows, s.columns), s.stride);
}
int sign_of(const LuSystem& s) {
  int sign = 1;
  for (int64_t j = 0; j < s.rows; ++j)
    if (s.pivots[j] != j) sign = -sign;
  return sign;
}

LuSystem matrix_of(const Matrices& m) { return {m.m, m.n, 0}; }
LuSystem sides_of(const Matrices& m) { return {m.n, m.n, m.k}; }

int64_t matrix_doubles(const Matrices& m) { return matrix_of(m).doubles(); }
int64_t sides_doubles(const Matrices& m) { return sides_of(m).doubles(); }

bool load_system(const RunContext& c, const Matrices& m, int64_t index, const LuSystem& s) {
  const int64_t width = s.width - LuSystem::padded(s.columns);
  return load_matrix(c.in(0), index, s) &&
         load_lines(c.in(1), index, m.n, m.k, width, [&](int64_t i) { return s.side(i); });
}
void save_sides(const RunContext& c, const Matrices& m, int64_t index, const LuSystem& s) {
  for (int64_t i = 0; i < m.n; ++i) save(c.out(0), index * m.n + i, m.k, s.side(i));
}
bool solve(const RunContext& c, const Matrices& m, int64_t index, double* slot) {
  const LuSystem s = sides_of(m).in(slot);
  if (!load_system(c, m, index, s) || !factor(s)) return false;
  lu_table().substitute(s, true, false);
  save_sides(c, m, index, s);
  return true;
}
bool solve_triangular(const RunContext& c, const Matrices& m, int64_t index, double* slot) {
  constexpr double kSmallest = 0x1p-1000;  // the inverse is far from overflow
  const LuSystem s = sides_of(m).in(slot);
  if (!load_system(c, m, index, s)) return false;
  for (int64_t i = 0; i < m.n && !m.unit; ++i)
    if (std::fabs(s.row(i)[i]) < kSmallest) return false;
  lu_table().substitute(s, m.upper, m.unit);
  save_sides(c, m, index, s);
  return true;
}
bool lu(const RunContext& c, const Matrices& m, int64_t index, double* slot) {
  const LuSystem s = matrix_of(m).in(slot);
  if (!load_matrix(c.in(0), index, s) || !factor(s)) return false;
  const int64_t k = std::min(m.m, m.n);
  int32_t* const pivots = c.out(1).as<int32_t>() + index * k;
  int64_t* const rows = c.out(2).as<int64_t>() + index * m.m;
  for (int64_t i = 0; i < m.m; ++i) rows[i] = i;
  for (int64_t j = 0; j < k; ++j) {
    pivots[j] = static_cast<int32_t>(s.pivots[j] + 1);
    std::swap(rows[j], rows[s.pivots[j]]);
  }
  for (int64_t i = 0; i < m.m; ++i) save(c.out(0), index * m.m + i, m.n, s.row(i));
  return true;
}
bool det(const RunContext& c, const Matrices& m, int64_t index, double* slot) {
  const LuSystem s = matrix_of(m).in(slot);
  if (!load_matrix(c.in(0), index, s) || !factor(s)) return false;
  double det = sign_of(s);
  for (int64_t i = 0; i < m.n; ++i) det *= s.row(i)[i];
  save(c.out(0), index, 1, &det);
  return true;
}
bool slogdet(const RunContext& c, const Matrices& m, int64_t index, double* slot) {
  const LuSystem s = matrix_of(m).in(slot);
  if (!load_matrix(c.in(0), index, s) || !factor(s)) return false;
  double sign = sign_of(s), logarithm = 0;
  for (int64_t i = 0; i < m.n; ++i) {
    if (s.row(i)[i] < 0) sign = -sign;
    logarithm += std::log(std::fabs(s.row(i)[i]));
  }
  save(c.out(0), index, 1, &sign);
  save(c.out(1), index, 1, &logarithm);
  return true;
}

int64_t exp_stride(const Matrices& m) { return LuSystem(m.n, m.n, 0).stride; }
int64_t exp_doubles(const Matrices& m) { return matrix_exp_doubles(m.n, exp_stride(m)); }
void multiply(const double* a, const double* b, int64_t n, int64_t stride, double* y, double*) {
  std::fill_n(y, n * stride, 0.0);
  lu_table().subtract(n, n, a, b, y, LuSystem::padded(n), stride);
  negate(y, n * stride);
}
bool exp(const RunContext& c, const Matrices& m, int64_t index, double* slot) {
  matrix_exp(c, m, index, exp_stride(m), slot, multiply);
  return true;
}

// Between these sizes, of rows and columns, tiles are faster than the plain loops and LAPACK.
constexpr int64_t kLeast = 8, kMost = 768;

template <const MatrixTask& loops>
bool accepts(const PrepareContext& c) {
  const Matrices s = matrices_of(c, loops);
  return std::min(s.m, s.n) >= kLeast && s.m <= kMost && s.n <= kMost && s.k <= kMost;
}
template <const FastTask& task>
constexpr KernelDef row(std::string_view op) {
  return {.op = op,
          .name = "tiles",
          .accepts = accepts<task.loops>,
          .prepare = prepare_fast<task>,
          .run = run_fast<task>};
}

constexpr FastTask kSolve = {kSolveLoops, sides_doubles, solve};
constexpr FastTask kSolveTriangular = {kSolveTriangularLoops, sides_doubles, solve_triangular};
constexpr FastTask kLu = {kLuLoops, matrix_doubles, lu};
constexpr FastTask kDet = {kDetLoops, matrix_doubles, det};
constexpr FastTask kSlogdet = {kSlogdetLoops, matrix_doubles, slogdet};
constexpr FastTask kExp = {kExpLoops, exp_doubles, exp};

constexpr KernelDef kKernels[] = {
    row<kSolve>("solve"),     row<kSolveTriangular>("solve_triangular"),
    row<kLu>("lu"),           row<kDet>("det"),
    row<kSlogdet>("slogdet"), row<kExp>("matrix_exp"),
};

}  // namespace

std::span<const KernelDef> lu_tiles() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
