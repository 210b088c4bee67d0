// SPDX-License-Identifier: Apache-2.0
// Decompositions: determinants and systems by Gaussian elimination, eigenvalues by Jacobi's
// rotations, singular values as eigenvalues of [0 x; x^T 0].
#include <cmath>
#include <numbers>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;
  Matrix(int64_t m, int64_t n) : rows(m), columns(n), values(static_cast<size_t>(m * n)) {}
  double& at(int64_t i, int64_t j) { return values[i * columns + j]; }
  double at(int64_t i, int64_t j) const { return values[i * columns + j]; }
};

int64_t rows_of(const Array& x) { return x.shape[x.shape.rank() - 2]; }
int64_t columns_of(const Array& x) { return x.shape[x.shape.rank() - 1]; }
int64_t matrices_of(const Array& x) {
  int64_t count = 1;
  for (int d = 0; d + 2 < x.shape.rank(); ++d) count *= x.shape[d];
  return count;
}
Matrix matrix(const Array& x, int64_t index) {
  Matrix m(rows_of(x), columns_of(x));
  for (int64_t i = 0; i < m.rows * m.columns; ++i)
    m.values[i] = x.at(index * m.rows * m.columns + i);
  return m;
}
void put(const Matrix& from, Array& y, int64_t index) {
  for (int64_t i = 0; i < from.rows * from.columns; ++i)
    y.at(index * from.rows * from.columns + i) = from.values[i];
}

// Eliminates below the diagonal of `a`, with the largest pivot of each column, and applies the same
// steps to the rows of `b`. Returns the sign of the exchanges.
double eliminate(Matrix& a, Matrix& b) {
  double sign = 1;
  for (int64_t k = 0; k < a.rows; ++k) {
    int64_t pivot = k;
    for (int64_t i = k; i < a.rows; ++i)
      if (std::fabs(a.at(i, k)) > std::fabs(a.at(pivot, k))) pivot = i;
    if (a.at(pivot, k) == 0) return 0;
    for (int64_t j = 0; j < a.columns; ++j) std::swap(a.at(k, j), a.at(pivot, j));
    for (int64_t j = 0; j < b.columns; ++j) std::swap(b.at(k, j), b.at(pivot, j));
    if (pivot != k) sign = -sign;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      const double factor = a.at(i, k) / a.at(k, k);
      for (int64_t j = k; j < a.columns; ++j) a.at(i, j) -= factor * a.at(k, j);
      for (int64_t j = 0; j < b.columns; ++j) b.at(i, j) -= factor * b.at(k, j);
    }
  }
  return sign;
}

double determinant(Matrix x) {
  Matrix none(x.rows, 0);
  double product = eliminate(x, none);
  for (int64_t i = 0; i < x.rows && product != 0; ++i) product *= x.at(i, i);
  return product;
}
// x with a x = b
Matrix solution(Matrix a, Matrix b) {
  const bool is_singular = eliminate(a, b) == 0;
  for (int64_t i = a.rows; i-- > 0;)
    for (int64_t j = 0; j < b.columns; ++j) {
      for (int64_t p = i + 1; p < a.rows; ++p) b.at(i, j) -= a.at(i, p) * b.at(p, j);
      b.at(i, j) /= is_singular ? 0 : a.at(i, i);
    }
  return b;
}

void solve(const Call& c) {
  for (int64_t i = 0; i < matrices_of(c.in[0]); ++i)
    put(solution(matrix(c.in[0], i), matrix(c.in[1], i)), c.out[0], i);
}
void solve_triangular(const Call& c) {
  const bool upper = c.attrs.flag("upper");
  for (int64_t k = 0; k < matrices_of(c.in[0]); ++k) {
    Matrix a = matrix(c.in[0], k);
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j < a.rows; ++j) {
        if (upper ? i > j : i < j) a.at(i, j) = 0;
        if (i == j && c.attrs.flag("unitriangular")) a.at(i, j) = 1;
      }
    put(solution(a, matrix(c.in[1], k)), c.out[0], k);
  }
}
void det(const Call& c) {
  for (int64_t i = 0; i < matrices_of(c.in[0]); ++i)
    c.out[0].at(i) = determinant(matrix(c.in[0], i));
}
void slogdet(const Call& c) {
  for (int64_t i = 0; i < matrices_of(c.in[0]); ++i) {
    const double value = determinant(matrix(c.in[0], i));
    c.out[0].at(i) = value < 0 ? -1 : value > 0;
    c.out[1].at(i) = std::log(std::fabs(value));
  }
}

// Cholesky-Banachiewicz: row by row.
void cholesky(const Call& c) {
  const bool upper = c.attrs.flag("upper");
  for (int64_t k = 0; k < matrices_of(c.in[0]); ++k) {
    const Matrix a = matrix(c.in[0], k);
    Matrix l(a.rows, a.rows), y(a.rows, a.rows);
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double sum = upper ? a.at(j, i) : a.at(i, j);
        for (int64_t p = 0; p < j; ++p) sum -= l.at(i, p) * l.at(j, p);
        l.at(i, j) = i == j ? std::sqrt(sum) : sum / l.at(j, j);
        (upper ? y.at(j, i) : y.at(i, j)) = l.at(i, j);
      }
    put(y, c.out[0], k);
  }
}

// With explicit Householder reflections, without a choice of column signs.
void qr(const Call& c) {
  for (int64_t index = 0; index < matrices_of(c.in[0]); ++index) {
    Matrix r = matrix(c.in[0], index);
    const int64_t m = r.rows, n = r.columns, k = std::min(m, n);
    Matrix q(m, m);
    for (int64_t i = 0; i < m; ++i) q.at(i, i) = 1;
    for (int64_t j = 0; j < std::min(m - 1, n); ++j) {
      Matrix v(m, 1);
      double length = 0, square = 0;
      for (int64_t i = j; i < m; ++i) length += r.at(i, j) * r.at(i, j);
      for (int64_t i = j; i < m; ++i) v.at(i, 0) = r.at(i, j);
      v.at(j, 0) += (r.at(j, j) < 0 ? -1 : 1) * std::sqrt(length);
      for (int64_t i = j; i < m; ++i) square += v.at(i, 0) * v.at(i, 0);
      if (square == 0) continue;
      const auto reflect = [&](Matrix& x) {  // (1 - 2 v v^T / v^T v) x
        for (int64_t col = 0; col < x.columns; ++col) {
          double along = 0;
          for (int64_t p = 0; p < m; ++p) along += v.at(p, 0) * x.at(p, col);
          for (int64_t row = 0; row < m; ++row) x.at(row, col) -= 2 * v.at(row, 0) / square * along;
        }
      };
      reflect(r);
      reflect(q);
    }
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j) c.out[0].at((index * m + i) * k + j) = q.at(j, i);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j)
        c.out[1].at((index * k + i) * n + j) = i <= j ? r.at(i, j) : 0;
  }
}

// Eigenvalues of a symmetric matrix in ascending order; vectors are columns.
void symmetric_eigen(Matrix a, std::vector<double>& values, Matrix& vectors) {
  const int64_t n = a.rows;
  Matrix v(n, n);
  for (int64_t i = 0; i < n; ++i) v.at(i, i) = 1;
  double largest = 0;
  for (const double x : a.values) largest = std::fmax(largest, std::fabs(x));
  bool is_diagonal = false;
  const auto rotate_pair = [&](int64_t p, int64_t q) {
    if (std::fabs(a.at(p, q)) <= 1e-18 * largest) return;
    is_diagonal = false;
    const double angle = 0.5 * std::atan(2 * a.at(p, q) / (a.at(q, q) - a.at(p, p)));
    const double cosine = std::cos(angle), sine = std::sin(angle);
    const auto rotate = [&](double& x, double& y) {
      const double old = x;
      x = cosine * old - sine * y;
      y = sine * old + cosine * y;
    };
    for (int64_t i = 0; i < n; ++i) rotate(a.at(i, p), a.at(i, q));
    for (int64_t i = 0; i < n; ++i) rotate(a.at(p, i), a.at(q, i));
    for (int64_t i = 0; i < n; ++i) rotate(v.at(i, p), v.at(i, q));
    a.at(p, q) = a.at(q, p) = 0;
  };
  constexpr int kMostSweeps = 100;
  for (int sweep = 0; sweep < kMostSweeps && !is_diagonal; ++sweep) {
    is_diagonal = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) rotate_pair(p, q);
  }
  std::vector<bool> used(n);
  for (int64_t j = 0; j < n; ++j) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; ++i)
      if (!used[i] && (best < 0 || a.at(i, i) < a.at(best, best))) best = i;
    used[best] = true;
    values.push_back(a.at(best, best));
    for (int64_t i = 0; i < n; ++i) vectors.at(i, j) = v.at(i, best);
  }
}
// -1 if the largest of the elements is negative, otherwise 1
double sign_of(const Matrix& x, int64_t column, int64_t first, int64_t count) {
  double largest = 0;
  for (int64_t i = first; i < first + count; ++i)
    if (std::fabs(x.at(i, column)) > std::fabs(largest) * (1 + 1e-10)) largest = x.at(i, column);
  return largest < 0 ? -1 : 1;
}

template <bool kVectors>
void eigh(const Call& c) {
  for (int64_t index = 0; index < matrices_of(c.in[0]); ++index) {
    Matrix a = matrix(c.in[0], index);
    const int64_t n = a.rows;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        if (c.attrs.flag("upper") ? i > j : i < j) a.at(i, j) = a.at(j, i);
    std::vector<double> values;
    Matrix vectors(n, n);
    symmetric_eigen(a, values, vectors);
    for (int64_t j = 0; j < n; ++j) {
      c.out[0].at(index * n + j) = values[j];
      for (int64_t i = 0; kVectors && i < n; ++i)
        c.out[1].at((index * n + i) * n + j) = sign_of(vectors, j, 0, n) * vectors.at(i, j);
    }
  }
}
template <bool kVectors>
void svd(const Call& c) {
  for (int64_t index = 0; index < matrices_of(c.in[0]); ++index) {
    const Matrix x = matrix(c.in[0], index);
    const int64_t m = x.rows, n = x.columns, k = std::min(m, n);
    Matrix both(m + n, m + n), vectors(m + n, m + n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) both.at(i, m + j) = both.at(m + j, i) = x.at(i, j);
    std::vector<double> values;
    symmetric_eigen(both, values, vectors);
    for (int64_t j = 0; j < k; ++j) {
      const int64_t from = m + n - 1 - j;
      const double scale = std::numbers::sqrt2 * sign_of(vectors, from, 0, m);
      c.out[kVectors ? 1 : 0].at(index * k + j) = values[from];
      if (!kVectors) continue;
      for (int64_t i = 0; i < m; ++i)
        c.out[0].at((index * m + i) * k + j) = scale * vectors.at(i, from);
      for (int64_t i = 0; i < n; ++i)
        c.out[2].at((index * k + j) * n + i) = scale * vectors.at(m + i, from);
    }
  }
}

// The sum of v u^T / s over the singular values above the bound, from eigenvectors [u v] / sqrt 2.
void pinv(const Call& c) {
  for (int64_t index = 0; index < matrices_of(c.in[0]); ++index) {
    Matrix x = matrix(c.in[0], index);
    const int64_t m = x.rows, n = x.columns;
    if (c.attrs.flag("hermitian"))
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < i; ++j) x.at(j, i) = x.at(i, j);
    Matrix both(m + n, m + n), vectors(m + n, m + n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) both.at(i, m + j) = both.at(m + j, i) = x.at(i, j);
    std::vector<double> values;
    symmetric_eigen(both, values, vectors);
    for (int64_t k = 0; k < m + n; ++k) {
      const double value = values[k];
      if (value <= c.in[1].at(0)) continue;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j)
          c.out[0].at((index * n + i) * m + j) +=
              2 * vectors.at(m + i, k) * vectors.at(j, k) / value;
    }
  }
}

// The sum of x^k / k!
void matrix_exp(const Call& c) {
  for (int64_t index = 0; index < matrices_of(c.in[0]); ++index) {
    const Matrix x = matrix(c.in[0], index);
    const int64_t n = x.rows;
    Matrix term(n, n), sum(n, n);
    for (int64_t i = 0; i < n; ++i) term.at(i, i) = sum.at(i, i) = 1;
    double largest = 1;
    for (int k = 1; k < 100 && largest > 0; ++k) {
      Matrix next(n, n);
      largest = 0;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t p = 0; p < n; ++p) next.at(i, j) += term.at(i, p) * x.at(p, j) / k;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          sum.at(i, j) += next.at(i, j);
          largest = std::fmax(largest, std::fabs(next.at(i, j)));
        }
      term = next;
    }
    for (int64_t i = 0; i < n * n; ++i) c.out[0].at(index * n * n + i) = sum.at(i / n, i % n);
  }
}

// Column by column: divides the rest of x by its largest element.
void lu(const Call& c) {
  for (int64_t index = 0; index < matrices_of(c.in[0]); ++index) {
    Matrix x = matrix(c.in[0], index);
    const int64_t m = x.rows, n = x.columns, k = std::min(m, n);
    for (int64_t i = 0; i < m; ++i) c.out[2].at(index * m + i) = static_cast<double>(i);
    for (int64_t j = 0; j < k; ++j) {
      int64_t pivot = j;
      for (int64_t i = j; i < m; ++i)
        if (std::abs(x.at(i, j)) > std::abs(x.at(pivot, j))) pivot = i;
      c.out[1].at(index * k + j) = static_cast<double>(pivot + 1);
      std::swap(c.out[2].at(index * m + j), c.out[2].at(index * m + pivot));
      for (int64_t p = 0; p < n; ++p) std::swap(x.at(j, p), x.at(pivot, p));
      for (int64_t i = j + 1; i < m && x.at(j, j) != 0; ++i) {
        x.at(i, j) /= x.at(j, j);
        for (int64_t p = j + 1; p < n; ++p) x.at(i, p) -= x.at(i, j) * x.at(j, p);
      }
    }
    for (int64_t i = 0; i < m * n; ++i) c.out[0].at(index * m * n + i) = x.at(i / n, i % n);
  }
}
void lu_rows(const Call& c) {
  const int64_t k = c.in[0].shape[c.in[0].shape.rank() - 1], n = c.attrs.integer("n");
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = static_cast<double>(i % n);
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    const int64_t row = i / k * n;
    std::swap(c.out[0].at(row + i % k), c.out[0].at(row + static_cast<int64_t>(c.in[0].at(i)) - 1));
  }
}

// Reflections as geqrf returns them: below the diagonal, each column becomes v without its first
// element, which is 1; the diagonal becomes the length with the opposite sign.
void geqrf(const Call& c) {
  for (int64_t index = 0; index < matrices_of(c.in[0]); ++index) {
    Matrix x = matrix(c.in[0], index);
    const int64_t m = x.rows, n = x.columns, k = std::min(m, n);
    for (int64_t j = 0; j < k; ++j) {
      double square = 0;
      for (int64_t i = j + 1; i < m; ++i) square += x.at(i, j) * x.at(i, j);
      double tau = 0;
      if (square > 0) {
        const double alpha = x.at(j, j);
        const double beta = (alpha < 0 ? 1 : -1) * std::sqrt(alpha * alpha + square);
        tau = (beta - alpha) / beta;
        for (int64_t i = j + 1; i < m; ++i) x.at(i, j) /= alpha - beta;
        x.at(j, j) = beta;
        for (int64_t p = j + 1; p < n; ++p) {
          double dot = x.at(j, p);
          for (int64_t i = j + 1; i < m; ++i) dot += x.at(i, j) * x.at(i, p);
          x.at(j, p) -= tau * dot;
          for (int64_t i = j + 1; i < m; ++i) x.at(i, p) -= tau * dot * x.at(i, j);
        }
      }
      c.out[1].at(index * k + j) = tau;
    }
    put(x, c.out[0], index);
  }
}

// Bunch-Kaufman factors as in LAPACK. The rest is a whole symmetric matrix, from which the inverse
// of a block of one or two rows is subtracted.
void ldl_factor(const Call& c) {
  for (int64_t index = 0; index < matrices_of(c.in[0]); ++index) {
    const Matrix x = matrix(c.in[0], index);
    const int64_t n = x.rows;
    Matrix left(n, n), ld(n, n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) left.at(i, j) = x.at(std::max(i, j), std::min(i, j));
    for (int64_t k = 0; k < n;) {
      const auto largest = [&](int64_t row) {  // off the diagonal
        int64_t at = row == k ? k + 1 : k;
        for (int64_t j = k; j < n; ++j)
          if (j != row && std::fabs(left.at(row, j)) > std::fabs(left.at(row, at))) at = j;
        return at;
      };
      int64_t row = k, size = 1;
      if (k + 1 < n) {
        const double alpha = (1 + std::sqrt(17.0)) / 8, own = std::fabs(left.at(k, k));
        const int64_t other = largest(k);
        const double most = std::fabs(left.at(k, other));
        const double across = std::fabs(left.at(other, largest(other)));
        if (own < alpha * most && own * across < alpha * most * most) {
          row = other;
          size = std::fabs(left.at(other, other)) >= alpha * across ? 1 : 2;
        }
      }
      const int64_t last = k + size - 1;
      for (int64_t j = k; j < n; ++j) std::swap(left.at(last, j), left.at(row, j));
      for (int64_t i = k; i < n; ++i) std::swap(left.at(i, last), left.at(i, row));
      for (int64_t i = k; i <= last; ++i) {
        c.out[1].at(index * n + i) = static_cast<double>(size == 1 ? row + 1 : -row - 1);
        for (int64_t j = k; j <= i; ++j) ld.at(i, j) = left.at(i, j);
      }
      const double d = left.at(k, k), e = left.at(last, last), f = left.at(last, k);
      const double det = size == 1 ? d : d * e - f * f;
      Matrix below(n, 2);  // times the inverse of the block
      for (int64_t i = last + 1; i < n; ++i) {
        const double p = left.at(i, k), q = left.at(i, last);
        ld.at(i, k) = below.at(i, 0) = size == 1 ? p / d : (p * e - q * f) / det;
        if (size == 2) ld.at(i, last) = below.at(i, 1) = (q * d - p * f) / det;
      }
      for (int64_t i = last + 1; i < n; ++i)
        for (int64_t j = last + 1; j < n; ++j)
          left.at(i, j) -= below.at(i, 0) * left.at(k, j) + below.at(i, 1) * left.at(last, j);
      k += size;
    }
    put(ld, c.out[0], index);
  }
}

// The matrix that was factored: exchanges and columns of l, with d between them.
void ldl_solve(const Call& c) {
  for (int64_t index = 0; index < matrices_of(c.in[0]); ++index) {
    const Matrix ld = matrix(c.in[0], index), b = matrix(c.in[1], index);
    const int64_t n = ld.rows;
    Matrix x(n, n);
    for (int64_t i = 0; i < n; ++i) x.at(i, i) = ld.at(i, i);
    const auto pivot = [&](int64_t i) { return static_cast<int64_t>(c.in[2].at(index * n + i)); };
    for (int64_t i = 0; i + 1 < n; ++i)
      if (pivot(i) < 0) {
        x.at(i, i + 1) = x.at(i + 1, i) = ld.at(i + 1, i);
        ++i;
      }
    for (int64_t last = n - 1; last >= 0; --last) {
      const int64_t first = pivot(last) < 0 ? last - 1 : last;
      for (int64_t side = 0; side < 2; ++side) {
        const auto at = [&](int64_t i, int64_t j) -> double& {
          return side == 0 ? x.at(i, j) : x.at(j, i);
        };
        for (int64_t p = first; p <= last; ++p)
          for (int64_t i = last + 1; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) at(i, j) += ld.at(i, p) * at(p, j);
        for (int64_t j = 0; j < n; ++j) std::swap(at(last, j), at(std::abs(pivot(last)) - 1, j));
      }
      last = first;
    }
    put(solution(x, b), c.out[0], index);
  }
}

// This many times the cube of the rows and columns of each matrix.
template <int times>
double cubes(const Call& c) {
  const double size = static_cast<double>(rows_of(c.in[0]) + columns_of(c.in[0]));
  return times * size * size * size * static_cast<double>(matrices_of(c.in[0]));
}
// For about ten sweeps of rotations, and for the terms of a sum.
constexpr auto kOfRotations = cubes<60>, kOfTerms = cubes<25>;

constexpr Row kRows[] = {
    {"ldl_factor", ldl_factor, cubes<1>},
    {"ldl_solve", ldl_solve, cubes<1>},
    {"geqrf", geqrf, cubes<1>},
    {"lu", lu, cubes<1>},
    {"lu_rows", lu_rows},
    {"matrix_exp", matrix_exp, kOfTerms},
    {"solve", solve, cubes<1>},
    {"solve_triangular", solve_triangular, cubes<1>},
    {"det", det, cubes<1>},
    {"slogdet", slogdet, cubes<1>},
    {"cholesky", cholesky, cubes<1>},
    {"qr", qr, cubes<1>},
    {"eigh", eigh<true>, kOfRotations},
    {"eigvalsh", eigh<false>, kOfRotations},
    {"svd", svd<true>, kOfRotations},
    {"svdvals", svd<false>, kOfRotations},
    {"pinv", pinv, kOfRotations},
};

}  // namespace

std::span<const Row> linalg() { return kRows; }

}  // namespace hg::reference::rows
