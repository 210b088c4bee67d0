// SPDX-License-Identifier: Apache-2.0
// Derivatives of the determinant as determinants of submatrices.
#include <vector>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

using Places = std::vector<int64_t>;

Places without(Places from, int64_t i) {
  from.erase(from.begin() + i);
  return from;
}
// The determinant of the given rows and columns of an n by n matrix that begins at `begin`, by
// expansion along the first row.
double minor_of(const Array& x, int64_t begin, int64_t n, const Places& rows,
                const Places& columns) {
  if (rows.empty()) return 1;
  double sum = 0;
  for (size_t j = 0; j < columns.size(); ++j)
    sum += (j % 2 == 0 ? 1 : -1) * x.at(begin + rows[0] * n + columns[j]) *
           minor_of(x, begin, n, without(rows, 0), without(columns, static_cast<int64_t>(j)));
  return sum;
}

// at(begin, n, all): called for each matrix, whose rows and columns are `all`.
template <class F>
void for_matrices(const Array& x, const F& at) {
  const int64_t n = x.shape[x.shape.rank() - 1];
  Places all;
  for (int64_t i = 0; i < n; ++i) all.push_back(i);
  for (int64_t begin = 0; begin < x.count(); begin += n * n) at(begin, n, all);
}

// y[i, j] = (-1)^(i + j) times the determinant without row i and column j
void det_grad(const Call& c) {
  for_matrices(c.in[0], [&](int64_t begin, int64_t n, const Places& all) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        c.out[0].at(begin + i * n + j) =
            ((i + j) % 2 == 0 ? 1 : -1) *
            minor_of(c.in[0], begin, n, without(all, i), without(all, j));
  });
}
// dx[p, q] = sum over i, j of dy[i, j] times the derivative of y[i, j] by x[p, q]
void det_grad_grad(const Call& c) {
  for_matrices(c.in[0], [&](int64_t begin, int64_t n, const Places& all) {
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = 0; q < n; ++q) {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) {
            if (i == p || j == q) continue;
            const int64_t row = p - (p > i), column = q - (q > j);
            const double cofactor = minor_of(c.in[0], begin, n, without(without(all, i), row),
                                             without(without(all, j), column));
            sum += ((i + j + row + column) % 2 == 0 ? 1 : -1) * cofactor *
                   c.in[1].at(begin + i * n + j);
          }
        c.out[0].at(begin + p * n + q) = sum;
      }
  });
}

constexpr Row kRows[] = {
    {"det_grad", det_grad},
    {"det_grad_grad", det_grad_grad},
};

}  // namespace

std::span<const Row> determinant() { return kRows; }

}  // namespace hg::reference::rows
