// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of general matrices: code shared by the library's loops and LAPACK's kernels.
#pragma once

#include <cmath>

#include "kernels/linalg/matrices.h"

namespace hg::kernels {

// As a pair lies in memory. std::complex's product asks for NaN each time.
struct Complex {
  double re = 0, im = 0;
};
inline Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
inline Complex operator-(const Complex& a) { return {-a.re, -a.im}; }
inline Complex operator*(const Complex& a, const Complex& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
inline Complex operator*(double a, const Complex& b) { return {a * b.re, a * b.im}; }
inline Complex conj(const Complex& a) { return {a.re, -a.im}; }
inline double abs(const Complex& a) { return std::hypot(a.re, a.im); }

// Elements of matrix `index` as doubles, by columns: n^2 of a real matrix, pairs of a complex one.
void load_columns(const RunContext& c, const Matrices& s, int64_t index, double* to);
// x as it stands in a batch, by rows.
void load_rows(const RunContext& c, const Matrices& s, int64_t index, double* to);
void save_values(const RunContext& c, const Matrices& s, int64_t index, const Complex* values);
// Column j of the vectors: v[n], which this scales; a real one where it `is_real`.
void save_vector(const RunContext& c, const Matrices& s, int64_t index, int64_t j, Complex* v,
                 bool is_real);
// The conjugates of column j - 1, as column j.
void save_conjugate(const RunContext& c, const Matrices& s, int64_t index, int64_t j);

}  // namespace hg::kernels
