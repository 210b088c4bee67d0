// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of general matrices: shared by the library's loops and the LAPACK kernels.
#pragma once

#include <cmath>

#include "kernels/linalg/matrices.h"

namespace hg::kernels {

// A complex number as a pair in memory. std::complex's product checks for NaN each time.
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

// Elements of matrix `index` as doubles, column by column: n^2 numbers, or pairs for a complex
// matrix.
void load_columns(const RunContext& c, const Matrices& s, int64_t index, double* to);
// x as stored in a batch, row by row.
void load_rows(const RunContext& c, const Matrices& s, int64_t index, double* to);
void save_values(const RunContext& c, const Matrices& s, int64_t index, const Complex* values);
// Column j of the eigenvectors: v[n], which this function scales; `is_real`: a real vector.
void save_vector(const RunContext& c, const Matrices& s, int64_t index, int64_t j, Complex* v,
                 bool is_real);
// Column j is the conjugate of column j - 1.
void save_conjugate(const RunContext& c, const Matrices& s, int64_t index, int64_t j);

}  // namespace hg::kernels
