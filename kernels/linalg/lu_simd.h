// SPDX-License-Identifier: Apache-2.0
// LU with partial pivoting of a matrix and its right sides, and substitution, in panels of kLuPanel
// columns. The rest of the matrix is updated by products in tiles (Golub, Van Loan, Matrix
// Computations, 3.2.11).
#pragma once

#include <cstdint>

namespace hg::kernels {

constexpr int64_t kLuPanel = 16;

// Rows of [matrix | right sides], `stride` doubles apart. The matrix has `columns` columns,
// followed by zeros up to a multiple of kLuPanel. Right sides follow, up to `width`, a multiple
// of 8.
struct LuSystem {
  double* a = nullptr;
  int64_t rows = 0, columns = 0, width = 0, stride = 0;
  int64_t* pivots = nullptr;  // the row that row j was exchanged with

  static int64_t padded(int64_t columns) { return (columns + kLuPanel - 1) / kLuPanel * kLuPanel; }
  LuSystem() = default;
  LuSystem(int64_t rows, int64_t columns, int64_t sides)
      : rows(rows), columns(columns), width(padded(columns) + (sides + 7) / 8 * 8) {
    stride = (width / 8 | 1) * 8;  // odd: the lines of a column are in different sets of the cache
  }
  // The system in a slot of so many doubles: the rows, followed by the pivots.
  int64_t doubles() const { return rows * stride + rows; }
  LuSystem in(double* slot) const {
    LuSystem s = *this;
    s.a = slot;
    s.pivots = reinterpret_cast<int64_t*>(slot + rows * stride);
    return s;
  }
  double* row(int64_t i) const { return a + i * stride; }
  double* side(int64_t i) const { return row(i) + padded(columns); }
};

struct LuTable {
  // p a becomes l u, and the right sides l^-1 p b. Returns false if a pivot is 0, or almost.
  bool (*factor)(const LuSystem& s);
  // The right sides b become a^-1 b for a triangle of a.
  void (*substitute)(const LuSystem& s, bool upper, bool unit);
  // y[rows, columns] -= a[rows, depth] b[depth, columns], all with the same distance between rows;
  // columns is a multiple of 8.
  void (*subtract)(int64_t rows, int64_t depth, const double* a, const double* b, double* y,
                   int64_t columns, int64_t stride);
};
const LuTable& lu_table();

}  // namespace hg::kernels
