// SPDX-License-Identifier: Apache-2.0
// The derivative of the determinant: the cofactors, det(x) x^-T. Matrices that are far from
// singular are inverted. Others are factored with full pivoting, after which the cofactors follow
// without a division, so they are right for matrices of any rank (G. W. Stewart, On the adjugate
// matrix, 1998).
#include "kernels/linalg/loops.h"
#include "kernels/linalg/lu_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// Element (i, j) of the factored matrix was element (rows[i], columns[j]).
struct FullPivots {
  int64_t n;
  double* a;
  int64_t *rows, *columns;
  double sign = 1;
};

// Factors f.a in place: l below the diagonal, and u.
void factor_fully(FullPivots& f) {
  const int64_t n = f.n;
  const auto row = [&](int64_t i) { return f.a + i * n; };
  for (int64_t i = 0; i < n; ++i) f.rows[i] = f.columns[i] = i;
  for (int64_t j = 0; j < n; ++j) {
    double most = 0;
    int64_t at_row = j, at_column = j;
    for (int64_t i = j; i < n; ++i) {
      double largest = 0;  // of the row
      for (int64_t k = j; k < n; ++k) largest = std::max(largest, std::fabs(row(i)[k]));
      if (!(largest > most)) continue;
      most = largest;
      at_row = i;
      at_column = j;
      while (std::fabs(row(i)[at_column]) != largest) ++at_column;
    }
    if (most == 0) return;  // only zeros are left
    if (at_row != j) {
      std::swap_ranges(row(j), row(j) + n, row(at_row));
      std::swap(f.rows[j], f.rows[at_row]);
      f.sign = -f.sign;
    }
    if (at_column != j) {
      for (int64_t i = 0; i < n; ++i) std::swap(row(i)[j], row(i)[at_column]);
      std::swap(f.columns[j], f.columns[at_column]);
      f.sign = -f.sign;
    }
    for (int64_t i = j + 1; i < n; ++i) {
      const double factor = row(i)[j] /= row(j)[j];
      for (int64_t k = j + 1; k < n; ++k) row(i)[k] -= factor * row(j)[k];
    }
  }
}

// y becomes the adjugate of l u, from that of u, which grows by a row and a column at a time:
//   adj [u v; 0 d] = [d adj(u), -adj(u) v; 0, det(u)],  adj(l u) = adj(u) l^-1
void adjugate(const FullPivots& f, double* y, double* v) {
  const int64_t n = f.n;
  std::fill_n(y, n * n, 0.0);
  double det = 1;  // of the part so far
  for (int64_t k = 0; k < n; ++k) {
    const double next = f.a[k * n + k];
    for (int64_t i = 0; i < k; ++i) v[i] = f.a[i * n + k];
    for (int64_t i = 0; i < k; ++i) {
      double* const row = y + i * n;
      double sum = 0;
      for (int64_t p = i; p < k; ++p) sum += row[p] * v[p];
      for (int64_t p = i; p < k; ++p) row[p] *= next;
      row[k] = -sum;
    }
    y[k * n + k] = det;
    det *= next;
  }
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = n - 1; i > 0; --i) {
      const double factor = y[r * n + i];
      const double* const l = f.a + i * n;
      for (int64_t j = 0; j < i; ++j) y[r * n + j] -= factor * l[j];
    }
}

int64_t pivots_doubles(const Matrices& s) { return 3 * s.n * s.n + 3 * s.n; }
void by_pivots(const RunContext& c, const Matrices& s, int64_t index, double* a) {
  const int64_t n = s.n;
  double *const y = a + n * n, *const out = y + n * n, *const v = out + n * n;
  load(c.in(0), index, n * n, a);
  if (!is_finite(a, n * n)) {
    std::fill_n(out, n * n, std::nan(""));
    return save(c.out(0), index, n * n, out);
  }
  FullPivots f = {n, a, reinterpret_cast<int64_t*>(v + n), reinterpret_cast<int64_t*>(v + 2 * n)};
  factor_fully(f);
  adjugate(f, y, v);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < n; ++i) out[f.rows[i] * n + f.columns[r]] = f.sign * y[r * n + i];
  save(c.out(0), index, n * n, out);
}
constinit const MatrixTask kPivots = {pivots_doubles, by_pivots};

LuSystem system_of(const Matrices& s) { return {s.n, s.n, s.n}; }
// And a row of the matrix.
int64_t inverse_doubles(const Matrices& s) { return system_of(s).doubles() + s.n; }
// The largest sum of magnitudes in a row.
double norm_of(const LuSystem& s, int64_t first) {
  double norm = 0;
  for (int64_t i = 0; i < s.rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < s.rows; ++j) sum += std::fabs(s.row(i)[first + j]);
    norm = std::max(norm, sum);
  }
  return norm;
}
// det times the inverse of the transposed matrix.
bool by_inverse(const RunContext& c, const Matrices& m, int64_t index, double* slot) {
  constexpr int64_t kLeast = 12;          // rows; for fewer, full pivoting is as fast
  constexpr double kLargestNumber = 1e4;  // condition number, which is known once x is inverted
  const int64_t n = m.n;
  if (n < kLeast) return false;
  const LuSystem s = system_of(m).in(slot);
  double* const row = slot + s.doubles();
  std::fill_n(slot, n * s.stride, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    load(c.in(0), index * n + i, n, row);
    if (!is_finite(row, n)) return false;
    for (int64_t j = 0; j < n; ++j) s.row(j)[i] = row[j];
    s.side(i)[i] = 1;
  }
  const double norm = norm_of(s, 0);
  if (!lu_table().factor(s)) return false;
  lu_table().substitute(s, true, false);
  if (!(norm * norm_of(s, LuSystem::padded(n)) < kLargestNumber)) return false;
  double det = 1;
  for (int64_t i = 0; i < n; ++i) det *= s.pivots[i] == i ? s.row(i)[i] : -s.row(i)[i];
  if (!std::isnormal(det)) return false;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) row[j] = det * s.side(i)[j];
    save(c.out(0), index * n + i, n, row);
  }
  return true;
}
constexpr FastTask kDetGrad = {kPivots, inverse_doubles, by_inverse};

bool accepts(const PrepareContext& c) { return c.in(0).dtype == f32 || c.in(0).dtype == f64; }

constexpr KernelDef kKernels[] = {
    {.op = "det_grad",
     .name = "lu",
     .accepts = accepts,
     .prepare = prepare_fast<kDetGrad>,
     .run = run_fast<kDetGrad>},
};

}  // namespace

std::span<const KernelDef> determinant() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
