// SPDX-License-Identifier: Apache-2.0
// Prepares general real or complex matrices for QR steps: balancing (Parlett, Reinsch 1969), then
// reduction to Hessenberg form by reflections (Golub, Van Loan, Matrix Computations, 7.4).
#pragma once

#include <utility>

#include "kernels/linalg/eig.h"

namespace hg::kernels {

inline double conj(double a) { return a; }
inline double abs(double a) { return std::fabs(a); }
inline double square(double a) { return a * a; }
inline double square(const Complex& a) { return a.re * a.re + a.im * a.im; }
inline double size(double a) { return std::fabs(a); }  // a norm without a square root
inline double size(const Complex& a) { return std::fabs(a.re) + std::fabs(a.im); }

// A square matrix by rows.
template <class T>
struct Square {
  T* x;
  int64_t n;
  T& operator()(int64_t i, int64_t j) const { return x[i * n + j]; }
};
// Rows and columns first .. last.
struct Range {
  int64_t first, last;
};

// -- Balancing ------------------------------------------------------------------------------------

// Moves rows and columns that isolate an eigenvalue to the borders; the others form the range.
// Scales the range so that rows and columns have similar norms. scale[i] is a factor inside the
// range; elsewhere it is the index with which i was exchanged.
template <class T>
Range balance(const Square<T>& a, double* scale) {
  Range r = {0, a.n - 1};
  const auto is_alone = [&](int64_t i, bool in_row) {
    for (int64_t j = r.first; j <= r.last; ++j)
      if (j != i && size(in_row ? a(i, j) : a(j, i)) != 0) return false;
    return true;
  };
  const auto exchange = [&](int64_t i, int64_t to) {
    scale[to] = static_cast<double>(i);
    if (i == to) return;
    for (int64_t p = 0; p <= r.last; ++p) std::swap(a(p, i), a(p, to));
    for (int64_t p = r.first; p < a.n; ++p) std::swap(a(i, p), a(to, p));
  };
  for (int64_t i = r.last; i >= 0; --i) {
    if (!is_alone(i, true)) continue;
    exchange(i, r.last);
    i = r.last--;
  }
  for (int64_t j = r.first; j <= r.last; ++j) {
    if (!is_alone(j, false)) continue;
    exchange(j, r.first);
    j = r.first++;
  }
  for (int64_t i = r.first; i <= r.last; ++i) scale[i] = 1;
  constexpr double kLarge = 0x1p500, kWorthIt = 0.95;
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t i = r.first; i <= r.last; ++i) {
      double column = 0, row = 0;
      for (int64_t j = r.first; j <= r.last; ++j) {
        column += square(a(j, i));
        row += square(a(i, j));
      }
      column = std::sqrt(column);
      row = std::sqrt(row);
      if (column == 0 || row == 0) continue;
      const double before = column + row;
      double factor = 1;
      for (; column < row / 2 && factor < kLarge; factor *= 2) column *= 2, row /= 2;
      for (; column / 2 >= row && factor > 1 / kLarge; factor /= 2) column /= 2, row *= 2;
      if (column + row >= kWorthIt * before || scale[i] * factor > kLarge ||
          scale[i] * factor < 1 / kLarge)
        continue;
      moved = true;
      scale[i] *= factor;
      for (int64_t j = r.first; j < a.n; ++j) a(i, j) = (1 / factor) * a(i, j);
      for (int64_t j = 0; j <= r.last; ++j) a(j, i) = factor * a(j, i);
    }
  }
  return r;
}
// The eigenvector of the original matrix.
inline void undo_balance(const Range& r, int64_t n, const double* scale, Complex* v) {
  for (int64_t i = r.first; i <= r.last; ++i) v[i] = scale[i] * v[i];
  for (int64_t i = r.first - 1; i >= 0; --i) std::swap(v[i], v[static_cast<int64_t>(scale[i])]);
  for (int64_t i = r.last + 1; i < n; ++i) std::swap(v[i], v[static_cast<int64_t>(scale[i])]);
}

// -- Hessenberg form ------------------------------------------------------------------------------

// h becomes z^H h z, with zeros below the first subdiagonal. Multiplies z, unless its x is null.
template <class T>
void reduce(const Square<T>& h, const Square<T>& z, const Range& r, T* v) {
  for (int64_t k = r.first; k + 2 <= r.last; ++k) {
    const int64_t top = k + 1;
    double below = 0;
    for (int64_t i = top + 1; i <= r.last; ++i) below += square(h(i, k));
    if (below == 0) continue;
    const T head = h(top, k);
    const double length = std::sqrt(square(head) + below), of_head = abs(head);
    const T beta = of_head == 0 ? T{-length} : (-length / of_head) * head;
    v[top] = head - beta;
    for (int64_t i = top + 1; i <= r.last; ++i) v[i] = h(i, k);
    const double factor = 2 / (square(v[top]) + below);  // 1 - factor v v^H
    for (int64_t j = k + 1; j < h.n; ++j) {
      T dot{};
      for (int64_t i = top; i <= r.last; ++i) dot = dot + conj(v[i]) * h(i, j);
      dot = factor * dot;
      for (int64_t i = top; i <= r.last; ++i) h(i, j) = h(i, j) - v[i] * dot;
    }
    const auto from_right = [&](const Square<T>& x, int64_t rows) {
      for (int64_t i = 0; i < rows; ++i) {
        T dot{};
        for (int64_t p = top; p <= r.last; ++p) dot = dot + x(i, p) * v[p];
        dot = factor * dot;
        for (int64_t p = top; p <= r.last; ++p) x(i, p) = x(i, p) - dot * conj(v[p]);
      }
    };
    from_right(h, r.last + 1);
    if (z.x != nullptr) from_right(z, z.n);
    h(top, k) = beta;
    for (int64_t i = top + 1; i <= r.last; ++i) h(i, k) = T{};
  }
}

}  // namespace hg::kernels
